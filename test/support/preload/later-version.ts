/**
 * Loaded into a process under test (`node --import`), it makes it one of a version to come: whatever it sends to other nodes has fields that
 * this version does not know, in the envelope, in the message, in an answer.
 */
import { NODE_FORMAT } from '../../../proto/ports/placement.ts';

const LATER = { later: 'a field of a version to come' };
const write = JSON.stringify.bind(JSON);

/** Of an object that JSON was made of: `value` with the field. */
function withLater(value: unknown): unknown {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value, ...LATER } : value;
}

Object.defineProperty(JSON, 'stringify', {
  value(value: unknown, ...rest: []): string {
    const isEnvelope = typeof value === 'object' && value !== null && 'v' in value && value.v === NODE_FORMAT;
    if (!isEnvelope) return write(value, ...rest);
    // m: the message; r: the reply, or the number of a ref; x: an error.
    const parts = Object.entries(value).map(([key, part]) => [
      key,
      ['m', 'r', 'x'].includes(key) ? withLater(part) : part,
    ]);
    return write({ ...Object.fromEntries(parts), ...LATER });
  },
});
