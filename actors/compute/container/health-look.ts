/** One look at the health of a container, beside the mailbox of its actor: what its check finds, in a sentence. */
import type { Duplex } from 'node:stream';
import type { HealthCheck } from '../../../proto/compute/health.ts';
import { type Engine, EngineError } from '../../../proto/ports/engine.ts';
import type { ContainerRow } from '../../../storage/compute/containers.ts';
import { settingsOf } from '../../../storage/compute/settings.ts';
import type { ComputeDeps } from '../deps.ts';
import { hostnameOf } from '../views.ts';
import { lastLog } from './evidence.ts';
import { insideListeners, LISTENERS, listenersSentence } from './listeners.ts';
import { withoutSecrets } from './masking.ts';
import { boundedSentence, inOneLine, LATE_LIMIT_MS } from './rules.ts';

/** What a look found. `unknown`: nothing, as when the engine or the database is away. */
export type HealthFound =
  | { readonly type: 'well' }
  | { readonly type: 'unknown' }
  /** It is not well, and has had all its time: nothing was looked at. */
  | { readonly type: 'over' }
  | {
      readonly type: 'not-well';
      /** Whole sentences in one bounded line, without control characters. */
      readonly problem: string;
      /** What the check found, as the end of a sentence. */
      readonly answer: string;
      /** Of one that has a way back, once the grace is over: the end of its log. */
      readonly log?: readonly string[];
      /** The grace is over. */
      readonly isOver: boolean;
    };

/** How long a connection, and an answer over it, may take; and a command. */
const ANSWER_MS = 2000;
const COMMAND_MS = 10_000;
/** Most of an answer that is read, in bytes and in pieces: each piece is looked at together with those before. */
const MAX_HEAD_BYTES = 16 * 1024;
const MAX_PIECES = 64;
/** Most that is kept of what a command prints. */
const MAX_OUTPUT_BYTES = 4096;
const MAX_LISTENERS_BYTES = 256 * 1024;

/** Looks once. `since`: the begin of the grace. Never rejects. */
export async function lookAtHealth(
  deps: ComputeDeps,
  row: ContainerRow,
  since: Date,
  signal: AbortSignal,
): Promise<HealthFound> {
  const { engine, db, clock, sealKey, log } = deps;
  try {
    const settings = await settingsOf(db, row.id, sealKey);
    const health = settings?.health ?? null;
    if (settings === undefined || health === null) return { type: 'well' };
    const secrets = Object.values(settings.secrets);
    const graceMs = health.grace * 1000;
    const waitedMs = clock.now() - since.getTime();
    if (row.healthState === 'unhealthy' && waitedMs >= graceMs + LATE_LIMIT_MS) return { type: 'over' };
    const isOver = waitedMs >= graceMs;
    const hostname = hostnameOf(row.id, deps.containersDomain);
    const problem = await problemOf(engine, row.id, health, { hostname, secrets }, signal);
    if (problem === undefined) return { type: 'well' };
    const notWell = (found: string, log: readonly string[] = []): HealthFound => {
      return { type: 'not-well', problem: boundedSentence(found), answer: problem, isOver, log };
    };
    if (!isOver) return notWell(`Not healthy yet: ${problem}.`);
    // An engine that is away says nothing of the container.
    if ((await engine.inspect(row.id))?.phase !== 'running') return { type: 'unknown' };
    const log = row.formerImage === undefined ? [] : await lastLog(engine, row.id, secrets, signal);
    return notWell(await overSentence(engine, row.id, health, problem, signal), log);
  } catch (error) {
    if (!signal.aborted) log.warn({ containerId: row.id, err: error }, 'the health of a container could not be seen');
    return { type: 'unknown' };
  }
}

/** What is wrong when the grace is over, in whole sentences: with what listens inside, where that can be seen. */
export async function overSentence(
  engine: Engine,
  id: string,
  { http, tcp, grace }: HealthCheck,
  problem: string,
  signal: AbortSignal,
): Promise<string> {
  const found = `It was not healthy within ${grace} s: ${problem}.`;
  const port = http?.port ?? tcp?.port;
  const inside = port === undefined ? '' : await listeners(engine, id, port, signal);
  return inside === '' ? found : `${found} ${inside}`;
}

/** What is wrong, as the end of a sentence; undefined: nothing. Rejects when the container cannot be looked at. */
export async function problemOf(
  engine: Engine,
  id: string,
  { http, tcp, command }: HealthCheck,
  { hostname, secrets }: { readonly hostname: string; readonly secrets: readonly string[] },
  signal: AbortSignal,
): Promise<string | undefined> {
  if (command !== undefined) return commandProblem(engine, id, command, secrets, signal);
  const port = http?.port ?? tcp?.port ?? 0;
  let connection: Duplex;
  try {
    connection = await engine.dial(id, port, { timeoutMs: ANSWER_MS, signal });
  } catch (error) {
    signal.throwIfAborted();
    const isKnown = error instanceof EngineError && (error.code === 'no_listener' || error.code === 'unavailable');
    if (!isKnown) throw error;
    return error.code === 'no_listener' ? `nothing answers on port ${port}` : `port ${port} takes no connection`;
  }
  connection.on('error', () => undefined);
  try {
    if (http === undefined) return undefined;
    const status = await statusOf(connection, http.path, http.host ?? hostname, signal);
    if (status === undefined) return `no HTTP answer came on port ${port} within ${ANSWER_MS / 1000} s`;
    return status >= 200 && status <= 399 ? undefined : `it answers ${status} at ${http.path}`;
  } finally {
    connection.destroy();
  }
}

/** The status of the answer to a GET, of which no more than the head is read; undefined when there is none in time. */
function statusOf(connection: Duplex, path: string, host: string, signal: AbortSignal): Promise<number | undefined> {
  return new Promise((resolve) => {
    let text = '';
    let pieces = 0;
    const settle = (status?: number): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', over);
      connection.removeListener('data', read);
      connection.pause();
      resolve(status);
    };
    const over = (): void => settle();
    const read = (data: Buffer): void => {
      text += data.toString('latin1');
      pieces += 1;
      // What comes before the answer proper (RFC 9110, 15.2) is passed over.
      text = text.replace(/^(?:HTTP\/1\.[01] 1[0-9]{2}[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n)+/, '');
      const found = /^HTTP\/1\.[01] ([2-9][0-9]{2})[ \r\n]/.exec(text)?.[1];
      if (found !== undefined) settle(Number(found));
      else if (text.length > MAX_HEAD_BYTES || pieces > MAX_PIECES) settle();
    };
    const timer = setTimeout(over, ANSWER_MS);
    signal.addEventListener('abort', over, { once: true });
    connection.on('data', read);
    connection.once('close', over);
    connection.once('end', over);
    connection.write(
      `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: troupe-health\r\nAccept: */*\r\nConnection: close\r\n\r\n`,
    );
  });
}

async function commandProblem(
  engine: Engine,
  id: string,
  command: readonly string[],
  secrets: readonly string[],
  signal: AbortSignal,
): Promise<string | undefined> {
  const name = `\`${inOneLine([` ${command.join(' ')}`]).slice(0, 100)}\``;
  const ended = await run(engine, id, command, MAX_OUTPUT_BYTES, signal).catch((error: unknown) => {
    // As where the image has no shell: that is what the container is.
    if (error instanceof EngineError && error.code === 'refused') return error;
    throw error;
  });
  if (ended instanceof EngineError) return `${name} cannot be run: ${ended.message.replace(/[.]$/, '')}`;
  if (ended === undefined) return `${name} did not end within ${COMMAND_MS / 1000} s`;
  if (ended.code === 0) return undefined;
  // It goes into notifications, webhooks, the audit trail and the log, whose readers may not know the secrets.
  const output = withoutSecrets(ended.output, secrets, ended.output.length === MAX_OUTPUT_BYTES);
  const said = inOneLine(output.split('\n').map((line) => ` ${line}`)).replace(/[.!?]+$/, '');
  const how = ended.code === null ? `${name} was ended` : `${name} ended with exit code ${ended.code}`;
  return said === '' ? how : `${how}, and said: ${said}`;
}

/** What listens inside, and what to do about it; empty when that cannot be known. */
async function listeners(engine: Engine, id: string, port: number, signal: AbortSignal): Promise<string> {
  const seen = await seenListeners(engine, id, signal);
  return seen === undefined ? '' : listenersSentence(seen, port);
}

/** The ports on which something listens inside; none when that cannot be known. */
export async function listeningPorts(engine: Engine, id: string, signal: AbortSignal): Promise<readonly number[]> {
  return ((await seenListeners(engine, id, signal)) ?? []).map(({ port }) => port);
}

async function seenListeners(
  engine: Engine,
  id: string,
  signal: AbortSignal,
): Promise<ReturnType<typeof insideListeners> | undefined> {
  try {
    const seen = await run(engine, id, ['/bin/sh', '-c', LISTENERS], MAX_LISTENERS_BYTES, signal);
    return seen && insideListeners(seen.output);
  } catch (error) {
    // Its image has no shell, it has just ended, or no command starts in it: what was found without this stands.
    if (error instanceof EngineError && !signal.aborted) return undefined;
    throw error;
  }
}

/**
 * Runs a command to its end; undefined when that does not come in time, be it that it does not even start. Rejects with
 * EngineError, and with the reason of `signal`.
 */
async function run(
  engine: Engine,
  id: string,
  command: readonly string[],
  maxBytes: number,
  signal: AbortSignal,
): Promise<{ readonly code: number | null; readonly output: string } | undefined> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(COMMAND_MS)]);
  const running = await engine.run(id, command, limit).catch((error: unknown) => {
    signal.throwIfAborted();
    if (limit.aborted && error instanceof EngineError) return undefined;
    throw error;
  });
  if (running === undefined) return undefined;
  let output = '';
  for (const stream of [running.stdout, running.stderr]) {
    stream.on('error', () => undefined);
    stream.on('data', (data: Buffer) => {
      if (output.length < maxBytes) output += data.toString();
    });
  }
  running.stdin.on('error', () => undefined);
  running.stdin.end();
  let onAbort = (): void => {};
  const isOver = new Promise<undefined>((resolve) => {
    onAbort = () => resolve(undefined);
    limit.addEventListener('abort', onAbort, { once: true });
    if (limit.aborted) onAbort();
  });
  try {
    const end = await Promise.race([running.ended, isOver]);
    signal.throwIfAborted();
    return end === undefined ? undefined : { code: end.code, output: output.slice(0, maxBytes) };
  } finally {
    limit.removeEventListener('abort', onAbort);
    running.close();
  }
}
