import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { EngineError, type ExecOptions } from '../../../proto/ports/engine.ts';
import { type RunningCommand, type Shell, terminalType } from '../../../proto/ports/shell.ts';
import { hangUpScript, lastSizeStands, shellCommand, shellOn } from '../common/exec.ts';
import { CommandStreams, commandThatRuns, isNoShell, noShell, runCommandWords } from '../common/run.ts';
import { READ_ENVIRONMENT } from '../common/workload.ts';
import { created, type DockerClient, isReply } from './api/client.ts';
import { FrameDemuxer } from './api/demux.ts';
import type { Containers } from './containers.ts';

/**
 * `Engine.exec` on Docker: a process on a terminal of its own, over a hijacked connection. Closing that alone would
 * leave the process running, so closing the shell also sends SIGHUP to its session, and SIGKILL to what stays.
 */
export async function execShell(
  client: DockerClient,
  containers: Containers,
  id: string,
  options: ExecOptions,
  signal: AbortSignal,
): Promise<Shell> {
  const { Id } = await containers.mustRun(id);
  const attaching = attach(client, Id, {
    Tty: true,
    Env: [`TERM=${terminalType(options.term)}`],
    Cmd: shellCommand(options, READ_ENVIRONMENT),
  });
  const command = await commandThatRuns(
    attaching.then((process) => streamsOf(client, Id, process, 'shell')),
    signal,
  );
  const { execId } = await attaching;
  const resize = lastSizeStands((w, h) => client.call('POST', `/exec/${execId}/resize`, { query: { w, h } }));
  return shellOn(command, async () => hangUp(client, Id, await command.pid), resize, options);
}

/**
 * `Engine.run` on Docker: a process whose two outputs come over one hijacked connection, in frames. `before` is
 * run first.
 */
export async function runInContainer(
  client: DockerClient,
  containers: Containers,
  id: string,
  words: readonly string[],
  signal: AbortSignal,
  before = '',
): Promise<RunningCommand> {
  const { Id } = await containers.mustRun(id);
  const attaching = attach(client, Id, { Tty: false, Cmd: runCommandWords(words, before) });
  return commandThatRuns(
    attaching.then((process) => streamsOf(client, Id, process, 'command')),
    signal,
  );
}

/** The streams of a process: of one on a terminal its one output comes as it is, else both come in frames. */
function streamsOf(
  client: DockerClient,
  dockerId: string,
  { execId, socket }: AttachedProcess,
  what: 'command' | 'shell',
): CommandStreams {
  const frames = new FrameDemuxer();
  const connection = {
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    write: (chunk: Buffer, taken: () => void) => {
      if (socket.writable) socket.write(chunk, () => taken());
      else taken();
    },
    endInput: () => void socket.end(),
    destroy: () => void socket.destroy(),
    howItEnded: () => howItEnded(client, execId),
    hangUp: (pid: number) => hangUp(client, dockerId, pid),
  };
  const streams = new CommandStreams(connection, what);
  // A lost connection ends the socket with an error, or without a word: the engine knows which it was.
  socket.on('error', (cause: Error) => streams.over(what === 'shell' ? cause : undefined));
  socket.once('end', () => streams.over()).once('close', () => streams.over());
  socket.on('data', (chunk: Buffer) => {
    if (what === 'shell') return streams.take(1, chunk);
    try {
      for (const { stream, data } of frames.push(chunk)) streams.take(stream, data);
    } catch {
      socket.destroy();
    }
  });
  return streams;
}

/** A process that was begun: its name at Docker, and the connection to its input and outputs. */
interface AttachedProcess {
  readonly execId: string;
  readonly socket: Duplex;
}

async function attach(
  client: DockerClient,
  dockerId: string,
  process: { readonly Tty: boolean; readonly Cmd: readonly string[]; readonly Env?: readonly string[] },
): Promise<AttachedProcess> {
  const body = { AttachStdin: true, AttachStdout: true, AttachStderr: true, User: '0', ...process };
  const { Id } = await client.json('POST', `/containers/${dockerId}/exec`, created, { body }).catch(explain);
  const socket = await client.hijack(`/exec/${Id}/start`, { Detach: false, Tty: process.Tty }).catch(explain);
  return { execId: Id, socket };
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
    await delay(25 * tries);
  }
  return undefined;
}

async function hangUp(client: DockerClient, dockerId: string, pid: number): Promise<void> {
  const body = { User: '0', Cmd: ['/bin/sh', '-c', hangUpScript(pid)] };
  const { Id } = await client.json('POST', `/containers/${dockerId}/exec`, created, { body });
  await client.call('POST', `/exec/${Id}/start`, { body: { Detach: true } });
}
