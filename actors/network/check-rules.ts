/**
 * When a mapping is looked at, what its resolvers' answers mean, and how that is told to its user: as pure functions.
 */
import type { TxtAnswer } from '../../proto/ports/dns.ts';

/** How long a mapping waits for its record, ms, and what its user is told then. */
export const EXPIRY_MS = 7 * 24 * 3_600_000;
export const EXPIRED = 'not verified within 7 days';
/** A name that was proven by a record is looked at again so often: it may have been sold. */
export const RECHECK_MS = 7 * 24 * 3_600_000;
/** One whose proof is missing is looked at more often, and lapses when it has been missing so long. */
export const RECHECK_UNPROVEN_MS = 24 * 3_600_000;
export const GRACE_MS = 14 * 24 * 3_600_000;
/** A look that could not find anything out is repeated. */
export const RECHECK_FAILED_MS = 3_600_000;
const FIRST_MS = 30_000;
const LONGEST_MS = 600_000;
/** Checks at the first pace: five minutes, in which most people make their record. */
const AT_FIRST = 10;

/** How long to wait after the `checks`th check, ms: 30 s at first, growing to 10 min. */
function pauseAfter(checks: number): number {
  return Math.min(LONGEST_MS, Math.round(FIRST_MS * 1.5 ** Math.max(0, checks - AT_FIRST)));
}

/** When a pending mapping is looked at next, Unix ms: in its pace, but for certain when it expires. */
export function nextCheck(now: number, checks: number, pendingSince: number): number {
  return Math.max(now + 1, Math.min(now + pauseAfter(checks), Math.max(pendingSince + EXPIRY_MS, now + FIRST_MS)));
}

/** What the resolvers said. */
type Answers = readonly { readonly resolver: string; readonly answer: TxtAnswer }[];

/**
 * Whether the record is proven: at least half of the resolvers answered, and more than half of those that did saw the
 * token. One that lies, or that an attacker has poisoned, is outvoted; one that is down does not stop the others.
 */
export function isProven(answers: Answers, token: string): boolean {
  const answered = answers.filter(({ answer }) => answer.kind !== 'failed');
  const agreeing = answered.filter(({ answer }) => answer.kind === 'records' && answer.records.includes(token));
  return answered.length * 2 >= answers.length && agreeing.length * 2 > answered.length;
}

/** What was looked up, where, and what was found, for the user. */
export function detailOf(name: string, token: string, answers: Answers): string {
  const said = answers.map(({ resolver, answer }) => `${resolver}: ${found(answer, token)}`);
  // Who heard nothing from anybody has nothing to mend.
  const advice = answers.some(({ answer }) => answer.kind !== 'failed')
    ? 'Make that record, or wait if you have: resolvers remember for a while what they found before'
    : 'It is looked for again by itself';
  return `looked for the TXT record ${name} with the value ${token}; ${said.join('; ')}. ${advice}`;
}

/** Records are quoted short: they are anybody's text. */
const SHOWN = 3;
const SHOWN_LENGTH = 60;

function found(answer: TxtAnswer, token: string): string {
  switch (answer.kind) {
    case 'failed':
      return `not looked up (${answer.reason})`;
    case 'alias':
      return `the name is an alias (CNAME) of ${clean(answer.target)}, and the record must stand at the name itself`;
    case 'records': {
      const { records } = answer;
      if (records.includes(token)) return 'found';
      if (records.length === 0) return 'no TXT record';
      const shown = records.slice(0, SHOWN).map((record) => `"${clean(record)}"`);
      const more = records.length > SHOWN ? ` and ${records.length - SHOWN} more` : '';
      return `other values: ${shown.join(', ')}${more}`;
    }
  }
}

function clean(text: string): string {
  const visible = text.replace(/[^\x20-\x7e]+/g, '?');
  return visible.length > SHOWN_LENGTH ? `${visible.slice(0, SHOWN_LENGTH)}...` : visible;
}
