import { EngineError } from '../../../proto/ports/engine.ts';

/**
 * Docker's `since` parameter (`seconds.nanoseconds`, inclusive) for "later than this RFC 3339 stamp": one nanosecond
 * after it. Fractions past nanoseconds are cut. Throws EngineError `refused` when the stamp is none.
 */
export function afterStamp(stamp: string): string {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,18}))?(Z|[+-]\d\d:\d\d)$/i.exec(stamp);
  const seconds = match === null ? Number.NaN : Date.parse(`${match[1]}${match[3]}`) / 1000;
  if (match === null || !Number.isFinite(seconds)) {
    throw new EngineError('refused', `${JSON.stringify(stamp.slice(0, 64))} is not an RFC 3339 time.`);
  }
  const nanos = Number((match[2] ?? '').padEnd(9, '0').slice(0, 9)) + 1;
  const carry = nanos === 1_000_000_000;
  return `${seconds + (carry ? 1 : 0)}.${String(carry ? 0 : nanos).padStart(9, '0')}`;
}
