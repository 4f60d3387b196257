import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { EngineError, type ExecOptions, type Shell } from '../../proto/ports.ts';
import type { DockerClient } from './client.ts';
import type { Containers } from './containers.ts';
import { cleanReason, isReply } from './errors.ts';
import { ExecStream } from './exec-stream.ts';

const created = z.object({ Id: z.string() });
/** Names of terminal types (terminfo(5)). */
export const TERM = /^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$/;
/** Largest terminal, each way. */
const maxCells = 1000;
/** How long the first sign of the shell may take, in milliseconds. */
const startMs = 15_000;
/** What a command that cannot be started may say, in bytes. */
const maxFailureBytes = 4096;

/** The login shell of root where it is bash, else `sh`, which every image with a shell has. */
export const defaultCommand = ['sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l'];

/**
 * Runs before the command: gives the terminal its size, so that the command never sees another, and says the process's number in the
 * container between two control characters, because Docker has no way to end what it started but a signal from inside.
 */
export const preamble = 'stty cols "$1" rows "$2" 2>/dev/null; shift 2; printf "\\001%d\\002" "$$"; exec "$@"';
const preambleStart = '\u0001';
const preambleEnd = '\u0002';

/**
 * `Engine.exec` on Docker: a process on a terminal of its own, over a hijacked connection. Closing the connection alone would leave
 * the process running, so closing the shell also sends SIGHUP to its session, and SIGKILL to what is left after a moment.
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
interface Opened {
  readonly execId: string;
  readonly socket: Duplex;
  readonly pid: number;
}

async function begin(client: DockerClient, dockerId: string, options: ExecOptions): Promise<Opened> {
  const execId = await createExec(client, dockerId, options);
  const socket = await client.hijack(`/exec/${execId}/start`, { Detach: false, Tty: true }).catch(explain);
  try {
    return { execId, socket, pid: await untilItRuns(socket) };
  } catch (error) {
    socket.on('error', () => undefined).destroy();
    throw error;
  }
}

/** `promise`, unless `signal` aborts first. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => reject(new EngineError('unavailable', 'Given up.', { cause: signal.reason }));
    if (signal.aborted) aborted();
    else signal.addEventListener('abort', aborted, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', aborted));
  });
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
      preamble,
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

function isNoShell(said: string): boolean {
  return /OCI runtime exec failed|executable file not found|no such file or directory/i.test(said);
}

function noShell(said: string): EngineError {
  const message = 'The image of this container has no shell: a terminal needs /bin/sh, or an SSH server.';
  return new EngineError('refused', message, { cause: new Error(cleanReason(said)) });
}

/** Reads the preamble and leaves the rest on the socket. Rejects `refused` with what was said instead of it. */
export function untilItRuns(socket: Duplex): Promise<number> {
  return new Promise((resolve, reject) => {
    let head: Buffer = Buffer.alloc(0);
    const settle = (): void => {
      clearTimeout(timer);
      socket.off('data', onData).off('end', onEnd).off('error', onError);
      socket.pause();
    };
    const fail = (error: EngineError): void => {
      settle();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      head = Buffer.concat([head, chunk]);
      const text = head.toString('latin1');
      const end = text.indexOf(preambleEnd);
      const pid = text.startsWith(preambleStart) && end !== -1 ? Number(text.slice(1, end)) : Number.NaN;
      if (Number.isInteger(pid)) {
        settle();
        if (head.length > end + 1) socket.unshift(head.subarray(end + 1));
        resolve(pid);
      } else if (head.length > maxFailureBytes) onEnd();
    };
    const onEnd = (): void => {
      const said = head.toString('utf8');
      const reason = cleanReason(said) || 'it ended at once';
      fail(
        isNoShell(said) ? noShell(said) : new EngineError('refused', `The container does not start a shell: ${reason}`),
      );
    };
    const onError = (cause: Error): void => {
      fail(new EngineError('unavailable', 'The connection to the container was lost.', { cause }));
    };
    const timer = setTimeout(() => fail(new EngineError('unavailable', 'The shell did not start in time.')), startMs);
    socket.on('data', onData).on('end', onEnd).on('error', onError);
  });
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
  const script = `kill -HUP -${pid} ${pid} 2>/dev/null; for i in 1 2 3 4 5; do kill -0 ${pid} 2>/dev/null || exit 0; sleep 1; done; kill -KILL -${pid} ${pid} 2>/dev/null`;
  const body = { User: '0', Cmd: ['/bin/sh', '-c', script] };
  const { Id } = await client.json('POST', `/containers/${dockerId}/exec`, created, { body });
  await client.call('POST', `/exec/${Id}/start`, { body: { Detach: true } });
}

/** Whole numbers a terminal can have. */
export function cells(count: number): number {
  return Number.isNaN(count) ? 1 : Math.min(maxCells, Math.max(1, Math.trunc(count)));
}
