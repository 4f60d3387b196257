/** What the cache says of its part in an answer (RFC 9211). */
import type { Field } from '../../wire/h1/fields.ts';

/** The name of this cache, as the field has it. */
const NAME = 'troupe';
const TITLE = 'Cache-Status';

/** The origin was asked, why, and why its answer is not kept; as a line with its end. */
const forwarded = (why: string) => `${TITLE}: ${NAME}; fwd=${why}\r\n`;

/** Section 2.2 there. `request`: the client asked for a new answer; `bypass`: the request takes no part. */
export const FORWARDED = {
  bypass: forwarded('bypass'),
  method: forwarded('method'),
  request: forwarded('request'),
  miss: forwarded('miss'),
} as const;

/** Of an answer from memory: how many seconds it stays fresh. */
export function hitLine(ttl: number): string {
  return `${TITLE}: ${NAME}; hit; ttl=${ttl}\r\n`;
}

/** The field of an answer that came from the origin, and is kept, or not, for a reason: one of rules.ts, plain text. */
export function fieldOfMiss(isAsked: boolean, reason: string | undefined): Field {
  const kept = reason === undefined ? 'stored' : `detail="${reason}"`;
  const value = `${NAME}; fwd=${isAsked ? 'request' : 'miss'}; ${kept}`;
  return { name: TITLE.toLowerCase(), value, line: `${TITLE}: ${value}` };
}
