import { Duplex } from 'node:stream';
import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { EngineError, type ExecOptions } from '../../../proto/ports/engine.ts';
import { type RunningCommand, type Shell, terminalType } from '../../../proto/ports/shell.ts';
import { hangUpScript, orAborted, shellCommand, shellOn, untilItRuns } from '../common/exec.ts';
import { CommandStreams, commandThatRuns, runCommandWords } from '../common/run.ts';
import type { KubeClient } from './client.ts';
import type { KubeContainers } from './containers.ts';
import { KubeReplyError } from './errors.ts';
import { names } from './naming.ts';

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

/** A process in a container: its input and output, with the API server in between. */
export class RemoteProcess extends Duplex {
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

  resize(cols: number, rows: number): void {
    this.#send(channel.resize, Buffer.from(JSON.stringify({ Width: cols, Height: rows })), () => undefined);
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.push(null);
  }

  #send(to: number, data: Buffer, done: () => void): void {
    if (this.#over || this.#socket === undefined) done();
    else this.#socket.send(Buffer.concat([Buffer.from([to]), data]), () => done());
  }

  override _read(): void {
    this.#socket?.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, taken: () => void): void {
    this.#send(channel.stdin, chunk, taken);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket?.terminate();
    done(error);
  }
}

/** Starts a command in a container. Rejects with EngineError. */
async function startProcess(
  client: KubeClient,
  namespace: string,
  command: readonly string[],
  hasTerminal: boolean,
): Promise<RemoteProcess> {
  const process = new RemoteProcess({ allowHalfOpen: true });
  const ways = hasTerminal ? ['stdin', 'stdout', 'tty'] : ['stdout', 'stderr'];
  process.attach(await connectExec(client, namespace, command, ways, (from, data) => process.heard(from, data)));
  return process;
}

/** Connects to a new process, with the `ways` of its input and output. Rejects with EngineError. */
async function connectExec(
  client: KubeClient,
  namespace: string,
  command: readonly string[],
  ways: readonly string[],
  heard: (from: number, data: Buffer) => void,
): Promise<ExecSocket> {
  const { Exec } = await import('@kubernetes/client-node');
  const query = new URLSearchParams({ container: names.container });
  for (const way of ways) query.append(way, 'true');
  for (const word of command) query.append('command', word);
  const path = `/api/v1/namespaces/${namespace}/pods/${names.pod}/exec?${query}`;
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
  namespace: string,
  command: readonly string[],
): Promise<{ code: number | undefined; output: string }> {
  const process = await startProcess(client, namespace, command, false);
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
  const namespace = await containers.mustRun(id);
  return commandThatRuns(beginCommand(client, namespace, command), signal);
}

async function beginCommand(client: KubeClient, namespace: string, command: readonly string[]) {
  let socket: ExecSocket | undefined;
  let code: number | undefined;
  let isClosed = false;
  const send = (data: Buffer, taken: () => void): void => {
    if (socket === undefined || isClosed) taken();
    else socket.send(data, () => taken());
  };
  const streams = new CommandStreams({
    pause: () => socket?.pause(),
    resume: () => socket?.resume(),
    write: (chunk, taken) => send(Buffer.concat([Buffer.from([channel.stdin]), chunk]), taken),
    endInput: () => {
      if (socket?.protocol === CAN_CLOSE) send(CLOSE_INPUT, () => undefined);
    },
    destroy: () => {
      isClosed = true;
      socket?.terminate();
    },
    howItEnded: async () => code,
    hangUp: (pid) => hangUp(client, namespace, pid),
  });
  const words = runCommandWords(command, `export HOME="\${HOME:-/root}"; `);
  socket = await connectExec(client, namespace, words, ['stdin', 'stdout', 'stderr'], (from, data) => {
    if (from === channel.stdout || from === channel.stderr) streams.take(from, data);
    if (from !== channel.status) return;
    const end = endOf(data);
    code = end.code;
    if (end.said !== '') streams.take(channel.stderr, Buffer.from(end.said));
    streams.over();
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    isClosed = true;
    streams.over();
  });
  if (isClosed) socket.terminate();
  return streams;
}

/** `Engine.exec` on Kubernetes. */
export async function execInPod(
  client: KubeClient,
  containers: KubeContainers,
  id: string,
  options: ExecOptions,
  signal: AbortSignal,
): Promise<Shell> {
  const namespace = await containers.mustRun(id);
  const command = shellCommand(options, `export TERM="$1" HOME="\${HOME:-/root}"; shift; `, [
    terminalType(options.term),
  ]);
  const begin = async () => {
    const process = await startProcess(client, namespace, command, true);
    return { socket: process, pid: await untilItRuns(process) };
  };
  const end = (pid: number): Promise<void> => hangUp(client, namespace, pid);
  const { socket: process, pid } = await orAborted(begin(), signal, end);
  const ending = { howItEnded: async () => process.code, hangUp: () => end(pid) };
  return shellOn(process, ending, (cols, rows) => process.resize(cols, rows), options);
}

async function hangUp(client: KubeClient, namespace: string, pid: number): Promise<void> {
  await runCommand(client, namespace, ['/bin/sh', '-c', hangUpScript(pid)]);
}
