import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { EngineError, type ExecOptions } from '../../../proto/ports/engine.ts';
import { type RunningCommand, type Shell, terminalType } from '../../../proto/ports/shell.ts';
import {
  hangUpScript,
  isNoShell,
  lastSizeStands,
  noShell,
  orAborted,
  shellCommand,
  shellOn,
  untilItRuns,
} from '../common/exec.ts';
import { CommandStreams, commandThatRuns, runCommandWords } from '../common/run.ts';
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
  const end = (pid: number): Promise<void> => hangUp(client, Id, pid);
  const { execId, socket, pid } = await orAborted(begin(client, Id, options), signal, end);
  const resize = lastSizeStands((w, h) => client.call('POST', `/exec/${execId}/resize`, { query: { w, h } }));
  return shellOn(socket, { howItEnded: () => howItEnded(client, execId), hangUp: () => end(pid) }, resize, options);
}

/**
 * `Engine.run` on Docker: a process whose two outputs come over one hijacked connection, in frames. `before` is
 * run first.
 */
export async function runInContainer(
  client: DockerClient,
  containers: Containers,
  id: string,
  command: readonly string[],
  signal: AbortSignal,
  before = '',
): Promise<RunningCommand> {
  const { Id } = await containers.mustRun(id);
  return commandThatRuns(beginCommand(client, Id, runCommandWords(command, before)), signal);
}

async function beginCommand(client: DockerClient, dockerId: string, words: readonly string[]) {
  const body = {
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: false,
    User: '0',
    Cmd: words,
  };
  const { Id } = await client.json('POST', `/containers/${dockerId}/exec`, created, { body }).catch(explain);
  const socket = await client.hijack(`/exec/${Id}/start`, { Detach: false, Tty: false }).catch(explain);
  const frames = new FrameDemuxer();
  const streams = new CommandStreams({
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    write: (chunk, taken) => {
      if (socket.writable) socket.write(chunk, () => taken());
      else taken();
    },
    endInput: () => void socket.end(),
    destroy: () => void socket.destroy(),
    howItEnded: () => howItEnded(client, Id),
    hangUp: (pid) => hangUp(client, dockerId, pid),
  });
  // A lost connection ends the socket with an error, or without a word: the engine knows which it was.
  socket.on('error', () => {});
  socket.once('end', () => streams.over());
  socket.once('close', () => streams.over());
  socket.on('data', (chunk: Buffer) => {
    try {
      for (const { stream, data } of frames.push(chunk)) streams.take(stream, data);
    } catch {
      socket.destroy();
    }
  });
  return streams;
}

/** Resolves with its name at Docker, its terminal, and its number in the container. */
async function begin(client: DockerClient, dockerId: string, options: ExecOptions) {
  const execId = await createExec(client, dockerId, options);
  const socket = await client.hijack(`/exec/${execId}/start`, { Detach: false, Tty: true }).catch(explain);
  return { execId, socket, pid: await untilItRuns(socket) };
}

async function createExec(client: DockerClient, dockerId: string, options: ExecOptions): Promise<string> {
  const body = {
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: true,
    User: '0',
    Env: [`TERM=${terminalType(options.term)}`],
    Cmd: shellCommand(options, READ_ENVIRONMENT),
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
    await delay(25 * tries);
  }
  return undefined;
}

async function hangUp(client: DockerClient, dockerId: string, pid: number): Promise<void> {
  const body = { User: '0', Cmd: ['/bin/sh', '-c', hangUpScript(pid)] };
  const { Id } = await client.json('POST', `/containers/${dockerId}/exec`, created, { body });
  await client.call('POST', `/exec/${Id}/start`, { body: { Detach: true } });
}
