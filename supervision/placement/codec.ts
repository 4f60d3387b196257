/** How messages become bytes that another node, of this version or the one before, reads. */
import type { Ref } from '../common/ref.ts';

/** What JSON can say. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue | undefined };

/** Turns refs in a message into something that crosses. */
export interface RefsOut {
  /** `codec`: for the messages that will be sent to the ref over there. */
  out<Msg>(ref: Ref<Msg>, codec: Codec<Msg>): JsonValue;
}

/** Turns what crossed back into refs. */
export interface RefsIn {
  /** A ref to which messages can be sent, and that can be watched: it ends when its actor, or that one's node, does. */
  in<Msg>(wire: unknown, codec: Codec<Msg>): Ref<Msg>;
}

/**
 * Messages of one kind. `decode` checks what it gets (it came from outside) and throws when it is none of its messages.
 * Fields that are added must be optional in the version that adds them: nodes of the version before still send without.
 */
export interface Codec<Msg> {
  encode(message: Msg, refs: RefsOut): JsonValue;
  decode(wire: unknown, refs: RefsIn): Msg;
}

/** The codec of messages without refs that JSON can say as they are; `parse` throws for anything else. */
export function jsonCodec<Msg extends JsonValue>(parse: (value: unknown) => Msg): Codec<Msg> {
  return { encode: (message) => message, decode: (wire) => parse(wire) };
}

/** Deeper ones are left to JSON, which says so when they are too deep. */
const MAX_DEPTH = 32;

/**
 * What JSON makes of a value; one that is made of nothing else is returned as it is. Throws TypeError for what it
 * cannot say at all (undefined, a function, a circle, a bigint).
 */
export function toWire(value: unknown): JsonValue {
  // Most are, and to look costs a fraction of writing and reading them.
  if (isPlain(value, MAX_DEPTH)) return value;
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) throw new TypeError('JSON cannot say this value');
  const wire: unknown = JSON.parse(text);
  return isWire(wire) ? wire : null;
}

/** Whether JSON says all of it as it is. */
function isPlain(value: unknown, depth: number): value is JsonValue {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth === 0) return false;
  if (Array.isArray(value)) return value.every((item) => isPlain(item, depth - 1)) && !hasHoles(value);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  return Object.values(value).every((item) => item === undefined || isPlain(item, depth - 1));
}

/** `every` passes over them. */
function hasHoles(list: readonly unknown[]): boolean {
  for (let at = 0; at < list.length; at++) if (list[at] === undefined) return true;
  return false;
}

/** Whatever JSON.parse made is one. */
export function isWire(value: unknown): value is JsonValue {
  return value !== undefined && typeof value !== 'function';
}

/**
 * A property of something that crossed; undefined when it has none of that name. Not for names that every object has.
 */
export function field(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}

function isObject(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === 'object' && value !== null;
}
