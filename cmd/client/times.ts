/** How people say a time: by how far it is from now, or as it is. */
import { ClientFailure } from './failure.ts';

/** Seconds. */
const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** A time that an option says as an age, such as `15m`, or as a time. Throws ClientFailure. */
export function timeOf(option: string, text: string | undefined): string | undefined {
  return text === undefined ? undefined : said(option, text, -1, 'age such as 15m');
}

/** When a container expires: `--expires` is `2h` from now, or a time; null: never. Throws ClientFailure. */
export function expiryOf(text: string | undefined): string | null | undefined {
  if (text === undefined) return undefined;
  return text === 'never' ? null : said('--expires', text, 1, 'while such as 2h or 7d');
}

function said(option: string, text: string, direction: 1 | -1, relative: string): string {
  const [, number, unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? [];
  const ms = Number(number) * (UNITS[unit] ?? 1) * 1000;
  if (number !== undefined) return new Date(Date.now() + direction * ms).toISOString();
  if (Number.isNaN(Date.parse(text)))
    throw new ClientFailure('usage', `${option} ${text} is no ${relative}, and no time such as 2026-01-31T12:00:00Z.`);
  return /T[^T]*(Z|[+-]\d\d:\d\d)$/.test(text) ? text : new Date(text).toISOString();
}
