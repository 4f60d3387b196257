/**
 * What crosses between nodes: one JSON text in UTF-8 a message, on the subject `<prefix>.<node>.<verb>`. Every message
 * says the version of its format; a node reads its own version only, and whoever changes a format so that the version
 * before cannot read it counts up.
 */
import { isUtf8 } from 'node:buffer';
import { NODE_FORMAT, PlacementError } from '../../proto/ports/placement.ts';
import { ActorError, type ActorErrorCode } from '../errors.ts';
import { isTraceparent } from '../tracing.ts';
import { field, isWire, type JsonValue } from './codec.ts';

/** The version of the envelopes below. */
export const FORMAT = NODE_FORMAT;

/** A message to an entity. */
export interface TellEnvelope {
  readonly kind: string;
  readonly id: string;
  readonly from: string;
  readonly message: JsonValue;
  /** How often it was passed on. */
  readonly hops: number;
  /** The context of the trace that it belongs to. */
  readonly trace: string | undefined;
}

/** A message to an entity that is answered. Sent again, it has the same `ask`. */
export interface AskEnvelope extends Omit<TellEnvelope, 'hops'> {
  /** Unique among those of its sender. */
  readonly ask: number;
  /** How long ago it was sent for the first time, ms. */
  readonly age: number;
  /**
   * Set when it was sent before and nothing came back: only the owner under this epoch knows whether it was handled.
   */
  readonly epoch: number | undefined;
  /** How long the asker waits, ms. */
  readonly left: number;
  /** A cancel may follow. Versions before neither send nor read it. */
  readonly isCancellable: boolean;
}

/** The asker of an ask gave up. */
type CancelEnvelope = Pick<AskEnvelope, 'from' | 'ask'>;

/**
 * reply what the entity answered moved this node does not hold the shard: the message had no effect error an ask ended
 * without a reply
 */
export type Answer =
  | { readonly type: 'reply'; readonly reply: JsonValue }
  | { readonly type: 'moved' }
  | { readonly type: 'error'; readonly error: ActorError };

/** News about an exported ref: a message for it, that somebody holds it, or that it has ended. */
export interface RefNews {
  readonly ref: number;
  readonly from: string;
  readonly message: JsonValue | undefined;
  /** The context of the trace that the message belongs to. */
  readonly trace?: string | undefined;
}

/** An envelope as bytes. */
function pack(envelope: { readonly v: typeof FORMAT; readonly [key: string]: JsonValue | undefined }): Uint8Array {
  return Buffer.from(JSON.stringify(envelope));
}

/** The envelope in the bytes. Throws PlacementError `unknown_format`. */
function unpack(data: Uint8Array): object {
  let value: unknown;
  try {
    if (!isUtf8(data)) throw new TypeError('not UTF-8');
    value = JSON.parse(Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString());
  } catch (cause) {
    throw new PlacementError('unknown_format', 'a message between nodes is no JSON', { cause });
  }
  const version = field(value, 'v');
  if (typeof value !== 'object' || value === null || version !== FORMAT) {
    throw new PlacementError(
      'unknown_format',
      `a message between nodes has format ${typeof version === 'number' ? version : 'unknown'}, and this version ` +
        `of troupe reads ${FORMAT}`,
    );
  }
  return value;
}

export function packTell({ kind, id, from, message, hops, trace }: TellEnvelope): Uint8Array {
  return pack({ v: FORMAT, k: kind, i: id, f: from, m: message, h: hops, p: trace });
}

export function readTell(data: Uint8Array): TellEnvelope {
  const it = unpack(data);
  return { ...address(it), hops: whole(it, 'h') };
}

export function packAsk(envelope: AskEnvelope): Uint8Array {
  const { kind, id, from, message, ask, age, epoch, left, isCancellable, trace } = envelope;
  const c = isCancellable || undefined;
  return pack({ v: FORMAT, k: kind, i: id, f: from, m: message, n: ask, a: age, e: epoch, t: left, c, p: trace });
}

export function readAsk(data: Uint8Array): AskEnvelope {
  const it = unpack(data);
  const epoch = field(it, 'e') === undefined ? undefined : whole(it, 'e');
  const { kind, id, from, message, trace } = address(it);
  const isCancellable = field(it, 'c') === true;
  const [ask, age, left] = [whole(it, 'n'), whole(it, 'a'), whole(it, 't')];
  return { kind, id, from, message, ask, age, epoch, left, isCancellable, trace };
}

export function packCancel({ from, ask }: CancelEnvelope): Uint8Array {
  return pack({ v: FORMAT, f: from, n: ask });
}

export function readCancel(data: Uint8Array): CancelEnvelope {
  const it = unpack(data);
  return { from: words(it, 'f'), ask: whole(it, 'n') };
}

/** Which nodes are gone. Comes with a message to look, whose contents versions before do not read. */
export function packGone(ids: readonly string[]): Uint8Array {
  return pack({ v: FORMAT, g: [...ids] });
}

export function readGone(data: Uint8Array): string[] {
  const ids = field(unpack(data), 'g');
  if (Array.isArray(ids) && ids.every((id) => typeof id === 'string')) return ids;
  throw new PlacementError('unknown_format', 'a message between nodes has no list g');
}

/** How errors of the application cross as themselves, when they are the cause of a crash. Others become RemoteError. */
export interface CauseCodec {
  /** What JSON says of the error; undefined for one that it does not know. */
  encode(cause: Error): JsonValue | undefined;
  /** The error again; undefined for what `encode` did not write. Must not throw: the value came from outside. */
  decode(wire: unknown): Error | undefined;
}

export function packAnswer(answer: Answer, causes?: CauseCodec): Uint8Array {
  if (answer.type === 'reply') return pack({ v: FORMAT, r: answer.reply });
  if (answer.type === 'moved') return pack({ v: FORMAT, moved: true });
  return pack({ v: FORMAT, x: errorOut(answer.error, causes) });
}

export function readAnswer(data: Uint8Array, causes?: CauseCodec): Answer {
  const it = unpack(data);
  if (field(it, 'moved') === true) return { type: 'moved' };
  const error = field(it, 'x');
  return error === undefined
    ? { type: 'reply', reply: wireOf(field(it, 'r')) }
    : { type: 'error', error: errorIn(error, causes) };
}

export function packRefNews({ ref, from, message, trace }: RefNews): Uint8Array {
  return pack({ v: FORMAT, r: ref, f: from, m: message, p: trace });
}

export function readRefNews(data: Uint8Array): RefNews {
  const it = unpack(data);
  const message = field(it, 'm');
  return {
    ref: whole(it, 'r'),
    from: words(it, 'f'),
    message: message === undefined ? undefined : wireOf(message),
    trace: traceIn(it),
  };
}

/** An error that was thrown on another node: its name, code and message. */
export class RemoteError extends Error {
  readonly code: string | undefined;
  constructor(name: string, code: string | undefined, message: string) {
    super(message);
    this.name = name;
    this.code = code;
  }
}

function errorOut({ code, message, begun, cause }: ActorError, causes: CauseCodec | undefined): JsonValue {
  return { c: code, m: message, b: begun, cause: cause instanceof Error ? causeOut(cause, causes) : undefined };
}

function causeOut(cause: Error, causes: CauseCodec | undefined): JsonValue {
  const known = causes?.encode(cause);
  if (known !== undefined) return known;
  const code = field(cause, 'code');
  return { n: cause.name, c: typeof code === 'string' ? code : undefined, m: cause.message };
}

const ACTOR_CODES: readonly ActorErrorCode[] = [
  'timeout',
  'overloaded',
  'stopped',
  'crashed',
  'not_found',
  'cancelled',
];

function errorIn(value: unknown, causes: CauseCodec | undefined): ActorError {
  const given = field(value, 'c');
  const code = ACTOR_CODES.find((known) => known === given) ?? 'crashed';
  const cause = field(value, 'cause');
  return new ActorError(code, String(field(value, 'm')), {
    begun: field(value, 'b') === true,
    ...(cause === undefined ? {} : { cause: causes?.decode(cause) ?? remoteError(cause) }),
  });
}

function remoteError(value: unknown): RemoteError {
  const code = field(value, 'c');
  return new RemoteError(
    String(field(value, 'n')),
    typeof code === 'string' ? code : undefined,
    String(field(value, 'm')),
  );
}

function address(it: object): Omit<TellEnvelope, 'hops'> {
  return {
    kind: words(it, 'k'),
    id: words(it, 'i'),
    from: words(it, 'f'),
    message: wireOf(field(it, 'm')),
    trace: traceIn(it),
  };
}

/** Absent in what a node without a tracer sends, or one of a version without traces. */
function traceIn(it: object): string | undefined {
  const trace = field(it, 'p');
  return isTraceparent(trace) ? trace : undefined;
}

function words(it: object, name: string): string {
  const value = field(it, name);
  if (typeof value === 'string') return value;
  throw new PlacementError('unknown_format', `a message between nodes has no text ${name}`);
}

function whole(it: object, name: string): number {
  const value = field(it, name);
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new PlacementError('unknown_format', `a message between nodes has no number ${name}`);
}

/** Whatever JSON.parse made is a Wire. */
function wireOf(value: unknown): JsonValue {
  return isWire(value) ? value : null;
}
