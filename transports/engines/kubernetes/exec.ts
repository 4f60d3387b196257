import { Readable } from 'node:stream';
import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { EngineError, type ExecOptions } from '../../../proto/ports/engine.ts';
import { type RunningCommand, type Shell, terminalType } from '../../../proto/ports/shell.ts';
import { hangUpScript, shellCommand, shellOn } from '../common/exec.ts';
import { CommandStreams, commandThatRuns, runCommandWords } from '../common/run.ts';
import type { KubeClient } from './client.ts';
import type { KubeContainers } from './containers.ts';
import { KubeReplyError } from './errors.ts';
import { names } from './naming.ts';
import { type PodPlace, pathOf } from './pods.ts';

/** Channels of the remote command protocol (v4.channel.k8s.io). */
const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;
/** Ends a channel, in the version that can (v5.channel.k8s.io). */
const CLOSE_INPUT = Buffer.from([255, channel.stdin]);
const CAN_CLOSE = 'v5.channel.k8s.io';

const endStatus = z.object({
  status: z.string(),
  message: z.string().default(''),
  details: z
    .object({
      causes: z.array(z.object({ reason: z.string().default(''), message: z.string().default('') })).default([]),
    })
    .nullish(),
});

/** The exit code, or what is said of a process that was never started. Throws nothing: nobody catches it. */
function endOf(data: Buffer): { readonly code: number | undefined; readonly said: string } {
  const parsed = endStatus.safeParse(jsonOf(data.toString('utf8')));
  if (!parsed.success) return { code: undefined, said: '' };
  const exit = parsed.data.details?.causes.find(({ reason }) => reason === 'ExitCode');
  if (parsed.data.status === 'Success') return { code: 0, said: '' };
  return exit === undefined ? { code: undefined, said: parsed.data.message } : { code: Number(exit.message), said: '' };
}

/** The part of a WebSocket that is used. */
interface ExecSocket {
  readonly protocol: string;
  send(data: Buffer, done: (error?: Error) => void): void;
  pause(): void;
  resume(): void;
  terminate(): void;
  on(event: 'close' | 'error', listener: () => void): unknown;
}

/** What a process in a container prints, with the API server in between. */
export class RemoteProcess extends Readable {
  /** Exit code; undefined until it is known. */
  code: number | undefined;
  #socket: ExecSocket | undefined;
  #over = false;

  attach(socket: ExecSocket): void {
    this.#socket = socket;
    socket.on('error', () => undefined);
    socket.on('close', () => this.#end());
    if (this.destroyed) socket.terminate();
  }

  /** Takes what came on a channel. */
  heard(from: number, data: Buffer): void {
    if (this.destroyed || this.#over) return;
    if (from === channel.stdout || from === channel.stderr) {
      if (data.length > 0 && !this.push(data)) this.#socket?.pause();
      return;
    }
    if (from !== channel.status) return;
    const { code, said } = endOf(data);
    this.code = code;
    // It was never started: what is said of it stands for its output.
    if (said !== '') this.push(Buffer.from(said));
    this.#end();
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.push(null);
  }

  override _read(): void {
    this.#socket?.resume();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket?.terminate();
    done(error);
  }
}

/** Connects to a new process, with the `ways` of its input and output. Rejects with EngineError. */
async function connectExec(
  client: KubeClient,
  place: PodPlace,
  command: readonly string[],
  ways: readonly string[],
  heard: (from: number, data: Buffer) => void,
): Promise<ExecSocket> {
  const { Exec } = await import('@kubernetes/client-node');
  const query = new URLSearchParams({ container: names.container });
  for (const way of ways) query.append(way, 'true');
  for (const word of command) query.append('command', word);
  const path = `${pathOf(place)}/exec?${query}`;
  try {
    const { handler } = new Exec(await client.credentials.config());
    return await handler.connect(path, null, (from, data) => {
      heard(from, Buffer.from(data));
      return true;
    });
  } catch (cause) {
    const message = typeof cause === 'object' && cause !== null && 'message' in cause ? String(cause.message) : '';
    const status = Number(/Unexpected server response: (\d+)/.exec(message)?.[1]);
    if (Number.isInteger(status)) throw new KubeReplyError(status, '', message);
    throw new EngineError('unavailable', `The container cannot be reached: ${message}`, { cause });
  }
}

/** Runs a command to its end; resolves with its code (undefined: lost) and the first 64 KiB of output. */
export async function runCommand(
  client: KubeClient,
  place: PodPlace,
  command: readonly string[],
): Promise<{ code: number | undefined; output: string }> {
  const process = new RemoteProcess();
  const ways = ['stdout', 'stderr'];
  process.attach(await connectExec(client, place, command, ways, (from, data) => process.heard(from, data)));
  let output = '';
  try {
    for await (const chunk of process) if (output.length < 65_536) output += String(chunk);
  } finally {
    process.destroy();
  }
  return { code: process.code, output };
}

/**
 * `Engine.run` on Kubernetes. Clusters before 1.30 cannot be told that the input has ended: there a command that reads
 * its input to the end waits.
 */
export async function runInPod(
  client: KubeClient,
  containers: KubeContainers,
  id: string,
  command: readonly string[],
  signal: AbortSignal,
): Promise<RunningCommand> {
  const place = await containers.mustRun(id);
  const words = runCommandWords(command, `export HOME="\${HOME:-/root}"; `);
  const begun = beginCommand(client, place, words, 'command');
  return commandThatRuns(
    begun.then(({ streams }) => streams),
    signal,
  );
}

/** Begins a command, on a terminal if it is a shell. `resize` is for that. */
async function beginCommand(
  client: KubeClient,
  place: PodPlace,
  words: readonly string[],
  what: 'command' | 'shell',
): Promise<{ streams: CommandStreams; resize: (cols: number, rows: number) => void }> {
  let socket: ExecSocket | undefined;
  let code: number | undefined;
  let isClosed = false;
  const send = (data: Buffer, taken: () => void): void => {
    if (socket === undefined || isClosed) taken();
    else socket.send(data, () => taken());
  };
  const say = (to: number, data: Buffer, taken: () => void): void =>
    send(Buffer.concat([Buffer.from([to]), data]), taken);
  const connection = {
    pause: () => socket?.pause(),
    resume: () => socket?.resume(),
    write: (chunk: Buffer, taken: () => void) => say(channel.stdin, chunk, taken),
    endInput: () => {
      if (socket?.protocol === CAN_CLOSE) send(CLOSE_INPUT, () => undefined);
    },
    destroy: () => {
      isClosed = true;
      socket?.terminate();
    },
    howItEnded: async () => code,
    hangUp: (pid: number) => hangUp(client, place, pid),
  };
  const streams = new CommandStreams(connection, what);
  const ways = what === 'shell' ? ['stdin', 'stdout', 'tty'] : ['stdin', 'stdout', 'stderr'];
  const connecting = connectExec(client, place, words, ways, (from, data) => {
    if (from === channel.stdout || from === channel.stderr) streams.take(from, data);
    if (from !== channel.status) return;
    const end = endOf(data);
    code = end.code;
    // It was never started: what is said of it stands for its output.
    if (end.said !== '') streams.take(what === 'shell' ? channel.stdout : channel.stderr, Buffer.from(end.said));
    streams.over();
  });
  socket = await connecting.catch((error: unknown) => {
    streams.close();
    throw error;
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    isClosed = true;
    streams.over();
  });
  if (isClosed) socket.terminate();
  const resize = (Width: number, Height: number): void =>
    say(channel.resize, Buffer.from(JSON.stringify({ Width, Height })), () => undefined);
  return { streams, resize };
}

/** `Engine.exec` on Kubernetes. */
export async function execInPod(
  client: KubeClient,
  containers: KubeContainers,
  id: string,
  options: ExecOptions,
  signal: AbortSignal,
): Promise<Shell> {
  const place = await containers.mustRun(id);
  const before = `export TERM="$1" HOME="\${HOME:-/root}"; shift; `;
  const begun = beginCommand(client, place, shellCommand(options, before, [terminalType(options.term)]), 'shell');
  const command = await commandThatRuns(
    begun.then(({ streams }) => streams),
    signal,
  );
  const { resize } = await begun;
  return shellOn(command, async () => hangUp(client, place, await command.pid), resize, options);
}

async function hangUp(client: KubeClient, place: PodPlace, pid: number): Promise<void> {
  await runCommand(client, place, ['/bin/sh', '-c', hangUpScript(pid)]);
}
