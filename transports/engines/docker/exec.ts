import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { EngineError, type ExecOptions } from '../../../proto/ports/engine.ts';
import type { Shell } from '../../../proto/ports/shell.ts';
import {
  cells,
  defaultCommand,
  isNoShell,
  noShell,
  orAborted,
  PREAMBLE,
  TERM,
  untilItRuns,
} from '../common/exec-script.ts';
import { ExecStream } from '../common/exec-stream.ts';
import type { DockerClient } from './api/client.ts';
import { isReply } from './api/errors.ts';
import type { Containers } from './containers.ts';

const created = z.object({ Id: z.string() });

/**
 * `Engine.exec` on Docker: a process on a terminal of its own, over a hijacked connection. Closing the connection alone
 * would leave the process running, so closing the shell also sends SIGHUP to its session, and SIGKILL to what is left
 * after a moment.
 */
export async function execShell(
  client: DockerClient,
  containers: Containers,
  id: string,
  options: ExecOptions,
  signal: AbortSignal,
): Promise<Shell> {
  const view = await containers.mustFind(id);
  if (!view.State.Running) throw new EngineError('not_running', 'The container is not running.');
  const opening = begin(client, view.Id, options);
  const { execId, socket, pid } = await orAborted(opening, signal).catch((error: unknown) => {
    // What comes about all the same has nobody to talk to.
    opening
      .then(async (opened) => {
        opened.socket.on('error', () => undefined).destroy();
        await hangUp(client, view.Id, opened.pid);
      })
      .catch(() => undefined);
    throw error;
  });
  const resize = (cols: number, rows: number): void => {
    const query = { w: cells(cols), h: cells(rows) };
    // One that ended in between has no size.
    client.call('POST', `/exec/${execId}/resize`, { query }).catch(() => undefined);
  };
  // Again, for images without stty.
  resize(options.cols, options.rows);
  const stream = new ExecStream(socket, {
    howItEnded: () => howItEnded(client, execId),
    hangUp: () => hangUp(client, view.Id, pid),
  });
  return { stream, resize, close: () => void stream.destroy(), ended: stream.ended };
}

/** A process that runs: its name at Docker, its terminal, and its number in the container. */
interface OpenedExec {
  readonly execId: string;
  readonly socket: Duplex;
  readonly pid: number;
}

async function begin(client: DockerClient, dockerId: string, options: ExecOptions): Promise<OpenedExec> {
  const execId = await createExec(client, dockerId, options);
  const socket = await client.hijack(`/exec/${execId}/start`, { Detach: false, Tty: true }).catch(explain);
  try {
    return { execId, socket, pid: await untilItRuns(socket) };
  } catch (error) {
    socket.on('error', () => undefined).destroy();
    throw error;
  }
}

async function createExec(client: DockerClient, dockerId: string, options: ExecOptions): Promise<string> {
  const term = TERM.test(options.term) ? options.term : 'xterm-256color';
  const body = {
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: true,
    User: '0',
    Env: [`TERM=${term}`],
    Cmd: [
      '/bin/sh',
      '-c',
      PREAMBLE,
      'sh',
      String(cells(options.cols)),
      String(cells(options.rows)),
      ...(options.command ?? defaultCommand),
    ],
  };
  return (await client.json('POST', `/containers/${dockerId}/exec`, created, { body }).catch(explain)).Id;
}

function explain(error: unknown): never {
  if (isReply(error, 409)) throw new EngineError('not_running', 'The container is not running.', { cause: error });
  if (isReply(error, 404)) throw new EngineError('not_found', 'The container is gone.', { cause: error });
  if (isReply(error, 400, 500) && isNoShell(error.reason)) throw noShell(error.reason);
  throw error;
}

const ending = z.object({ Running: z.boolean(), ExitCode: z.number().nullable() });

/** The exit code; undefined when the process still runs, or nobody knows. */
async function howItEnded(client: DockerClient, execId: string): Promise<number | undefined> {
  // Docker ends the stream a moment before it knows the code.
  for (let tries = 1; tries <= 20; tries += 1) {
    const { Running, ExitCode } = await client.json('GET', `/exec/${execId}/json`, ending);
    if (!Running && ExitCode !== null) return ExitCode;
    await new Promise((resolve) => setTimeout(resolve, 25 * tries));
  }
  return undefined;
}

/** Ends the session of `pid` from inside: the shell hears a hang-up, as from a terminal that was switched off. */
async function hangUp(client: DockerClient, dockerId: string, pid: number): Promise<void> {
  const script =
    `kill -HUP -${pid} ${pid} 2>/dev/null; for i in 1 2 3 4 5; do kill -0 ${pid} 2>/dev/null || exit 0; sleep 1; ` +
    `done; kill -KILL -${pid} ${pid} 2>/dev/null`;
  const body = { User: '0', Cmd: ['/bin/sh', '-c', script] };
  const { Id } = await client.json('POST', `/containers/${dockerId}/exec`, created, { body });
  await client.call('POST', `/exec/${Id}/start`, { body: { Detach: true } });
}
