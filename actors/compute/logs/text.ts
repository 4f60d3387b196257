/** What there is of a log, as text: read from the engine at the pace of the reader, and never held. */
import { Readable } from 'node:stream';
import { DEFAULT_LOG_TAIL, readLogs } from '../../../proto/compute/logs.ts';
import type { CallOf, TransferReply, Upload } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { EngineError, type LogOptions } from '../../../proto/ports/engine.ts';
import { transferHandler } from '../../service/start-service.ts';
import { Transfers } from '../transfers.ts';
import { LogCursor, normalStamp } from './cursor.ts';
import type { Logs } from './sharing.ts';

/** Of one reply. Engines keep less; past it the reply breaks off. */
const MAX_BYTES = 256 * 1024 * 1024;
const HEADERS = [
  ['content-type', 'text/plain; charset=utf-8'],
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
] as const;

/** Which lines, with times as the stamps of lines are. */
interface Selection extends Pick<LogOptions, 'until' | 'stream'> {
  /** Newest lines of those that are chosen; Infinity for all. */
  readonly tail: number;
  /** Lines later than this. */
  readonly since: string | undefined;
}

/** The handler of the endpoint. `callContainer` asks the container's actor whether the caller may. */
export function logTexts(engine: Logs, callContainer: (call: CallOf<typeof readLogs>) => Promise<unknown>) {
  const transfers = new Transfers();
  return transferHandler(readLogs, async (call, upload, caller) => {
    await callContainer(call);
    return transfers.reading(caller, () => textOf(engine, call, upload));
  });
}

async function textOf(
  engine: Logs,
  { params: { id }, query: { tail, since, until, stream, timestamps } }: CallOf<typeof readLogs>,
  upload: Upload,
): Promise<TransferReply> {
  const usual = since === undefined ? DEFAULT_LOG_TAIL : Number.POSITIVE_INFINITY;
  const selection = {
    tail: tail === 'all' ? Number.POSITIVE_INFINITY : (tail ?? usual),
    since: since === undefined ? undefined : normalStamp(since),
    ...(until === undefined ? {} : { until: normalStamp(until) }),
    ...(stream === 'all' ? {} : { stream }),
  };
  const gone = new AbortController();
  const signal = AbortSignal.any([upload.signal, gone.signal]);
  const lines = selected(engine, id, selection, signal);
  // What the engine says at once is a refusal; later the reply can only break off.
  const first = await lines.next().catch(refuse);
  const bytes = Readable.from(inBytes(first, lines, timestamps === 'true'), { objectMode: false });
  bytes.once('close', () => {
    gone.abort();
    void lines.return().catch(() => {});
  });
  return { status: 200, headers: HEADERS, bytes };
}

async function* inBytes(
  first: IteratorResult<string[], void>,
  rest: AsyncGenerator<string[], void>,
  isStamped: boolean,
): AsyncGenerator<Buffer> {
  let size = 0;
  for (let next = first; next.done !== true; next = await rest.next()) {
    const shown = isStamped ? next.value : next.value.map((line) => line.slice(line.indexOf(' ') + 1));
    const bytes = Buffer.from(shown.map((line) => `${line}\n`).join(''));
    size += bytes.length;
    if (size > MAX_BYTES) throw new Error(`a log of more than ${MAX_BYTES} bytes`);
    yield bytes;
  }
}

/** The lines in batches. Engines count `tail` before they choose, so those to begin after are looked for first. */
async function* selected(
  engine: Logs,
  id: string,
  { tail, ...selection }: Selection,
  signal: AbortSignal,
): AsyncGenerator<string[], void> {
  if (tail === 0) return;
  if (tail === Number.POSITIVE_INFINITY || (selection.until === undefined && selection.stream === undefined)) {
    yield* stamped(engine, id, { ...selection, tail }, signal);
    return;
  }
  const all = { ...selection, tail: Number.POSITIVE_INFINITY };
  /** Stamps of the last lines, one more than are wanted, round and round. */
  const stamps: string[] = [];
  let count = 0;
  for await (const lines of stamped(engine, id, all, signal))
    for (const line of lines) stamps[count++ % (tail + 1)] = line.slice(0, line.indexOf(' '));
  const begin = count > tail ? stamps[count % (tail + 1)] : selection.since;
  yield* stamped(engine, id, { ...all, since: begin }, signal);
}

/** The lines as sockets send them, too: with stamps that increase (cursor.ts). */
async function* stamped(
  engine: Logs,
  id: string,
  { since, until, ...options }: Selection,
  signal: AbortSignal,
): AsyncGenerator<string[], void> {
  const cursor = new LogCursor(since);
  const { engineSince } = cursor;
  const times = {
    ...(engineSince === undefined ? {} : { since: engineSince }),
    ...(until === undefined ? {} : { until }),
  };
  for await (const lines of engine.logs(id, { ...options, ...times, follow: false, signal })) {
    const taken = lines
      .flatMap((line) => cursor.take(line) ?? [])
      .filter((line) => until === undefined || line < until);
    if (taken.length > 0) yield taken;
  }
}

/** A container that the engine does not have yet, or any more, has no log: that is empty. */
function refuse(error: unknown): IteratorResult<string[], void> {
  if (!(error instanceof EngineError)) throw error;
  if (error.code === 'not_found') return { done: true, value: undefined };
  throw new Refusal(error.code === 'unavailable' ? 'unavailable' : 'conflict', {
    ...(error.code === 'unavailable' ? {} : { message: error.message }),
    cause: error,
  });
}
