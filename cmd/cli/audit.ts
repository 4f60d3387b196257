/** `troupe audit`: the audit trail, one line an entry. */
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { type AuditFilter, type AuditRow, readAudit } from '../../storage/audit.ts';
import type { Db } from '../../storage/db.ts';
import { CliError } from '../config/cli-error.ts';
import { type CommandOptions, onDatabase } from './command.ts';

/** As commander gives them. */
export interface AuditOptions extends CommandOptions {
  readonly user?: string;
  readonly action?: string;
  readonly since?: string;
  readonly limit: string;
  readonly follow?: true;
}

const MAX_LIMIT = 100_000;
const FOLLOW_EVERY_MS = 500;
/** So many of the latest ids are looked at again: entries are committed in another order than they get their ids. */
const LOOK_BACK = 1000;
const HEADER = line('AT', 'WHO', 'ACTION', 'TARGET', 'ADDRESS', 'DETAIL');

/** Prints the entries that fit; with `follow` goes on until it is interrupted or nobody reads any more. */
export async function showAudit(options: AuditOptions): Promise<void> {
  const filter = auditFilter(options, Date.now());
  const end = new AbortController();
  const stop = () => end.abort();
  process.stdout.on('error', stop);
  const print = async (rows: readonly AuditRow[]) => {
    const text = rows.map((row) => `${options.json ? auditJson(row) : auditLine(row)}\n`).join('');
    if (text !== '' && !process.stdout.write(text))
      await once(process.stdout, 'drain', { signal: end.signal }).catch(() => {});
  };
  await onDatabase(options, async (db) => {
    if (options.follow) for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);
    if (!options.json) process.stdout.write(`${HEADER}\n`);
    if (options.follow) await follow(db, filter, print, end.signal);
    else await print(await readAudit(db, filter));
  });
}

/** Prints what fits and what comes, each entry once, until the signal. */
export async function follow(
  db: Db,
  filter: AuditFilter,
  print: (rows: readonly AuditRow[]) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const newest = async () => (await readAudit(db, { limit: 1 }))[0]?.id ?? 0;
  let highest = await newest();
  // Those that do not fit into the limit are old, too.
  const rows = await readAudit(db, { ...filter, limit: Math.max(filter.limit, LOOK_BACK) });
  const seen = new Set(rows.map(({ id }) => id));
  await print(rows.slice(-filter.limit));
  while (!signal.aborted) {
    await delay(FOLLOW_EVERY_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const now = await newest();
    const fresh = await readAudit(db, { ...filter, afterId: highest - LOOK_BACK, limit: MAX_LIMIT });
    await print(fresh.filter(({ id }) => !seen.has(id)));
    for (const { id } of fresh) seen.add(id);
    highest = Math.max(highest, now);
    for (const id of seen) if (id <= highest - LOOK_BACK) seen.delete(id);
  }
}

/** The filter that the options ask for. Throws CliError that says what is wrong. `now`: unix ms. */
export function auditFilter(options: Omit<AuditOptions, 'data'>, now: number): AuditFilter {
  const { user, action, since, limit } = options;
  if (action !== undefined && !/^[a-z_]+(\.[a-z_]+)?$/.test(action))
    throw new CliError('--action must be a noun or noun.verb, such as token or token.create.');
  if (!/^[0-9]+$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_LIMIT)
    throw new CliError(`--limit must be a whole number from 1 to ${MAX_LIMIT}.`);
  return {
    ...(user === undefined ? {} : { username: user }),
    ...(action === undefined ? {} : { action }),
    ...(since === undefined ? {} : { since: timeOf(since, now) }),
    limit: Number(limit),
  };
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

function timeOf(text: string, now: number): Date {
  const [, count, unit = ''] = /^([0-9]{1,9})([smhdw])$/.exec(text) ?? [];
  if (count !== undefined) return new Date(Math.max(0, now - Number(count) * (UNITS[unit] ?? 1) * 1000));
  const at = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at))
    throw new CliError('--since must be a time such as 30m, 24h, 7d, or a date such as 2026-01-31T12:00Z.');
  return new Date(at);
}

/** An entry as one line of columns; what is empty is `-`. What a terminal would obey is spelt out. */
export function auditLine({ at, username, action, target, address, detail }: AuditRow): string {
  const pairs = Object.entries(detail).map(([key, value]) => {
    return `${key}=${typeof value === 'string' && /^[\w.:/@-]+$/.test(value) ? value : JSON.stringify(value)}`;
  });
  return line(at.toISOString(), username || '-', action, target || '-', address || '-', pairs.join(' ') || '-');
}

function line(at: string, who: string, action: string, target: string, address: string, detail: string): string {
  const cells = [at.padEnd(24), who.padEnd(16), action.padEnd(24), target.padEnd(12), address.padEnd(15), detail];
  const unsafe = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;
  return cells.join('  ').replace(unsafe, (char) => `\\u{${char.codePointAt(0)?.toString(16) ?? ''}}`);
}

/** An entry as JSON. */
export function auditJson({ userId, requestId, at, ...row }: AuditRow): string {
  const { id, username, action, target, address, detail } = row;
  const who = { user_id: userId, username };
  return JSON.stringify({ id, at, ...who, action, target, address, request_id: requestId, detail });
}
