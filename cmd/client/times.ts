/** How people say a time: by how far it is from now, or as it is. */
import { ClientFailure } from './failure.ts';

/** Seconds. */
const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** A time that an option says as an age, such as `15m`, or as a time. Throws ClientFailure. */
export function timeOf(option: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const otherwise = `${option} ${text} is no age such as 15m, and no time such as 2026-01-31T12:00:00Z.`;
  return said(text, -1, otherwise);
}

/** When a container expires: `--expires` is `2h` from now, or a time; null: never. Throws ClientFailure. */
export function expiryOf(text: string | undefined): string | null | undefined {
  if (text === undefined) return undefined;
  const otherwise =
    `--expires ${text} is not understood: give a number with s, m, h or d, such as 2h or 14d, ` +
    'a time such as 2030-01-31T12:00:00Z, or never.';
  return text === 'never' ? null : said(text, 1, otherwise);
}

function said(text: string, direction: 1 | -1, otherwise: string): string {
  const [, number, unit = ''] = /^(\d{1,7})([smhd])$/.exec(text) ?? [];
  const ms = Number(number) * (UNITS[unit] ?? 1) * 1000;
  if (number !== undefined) return new Date(Date.now() + direction * ms).toISOString();
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(Date.parse(text))) throw new ClientFailure('usage', otherwise);
  return /T[^T]*(Z|[+-]\d\d:\d\d)$/.test(text) ? text : new Date(text).toISOString();
}
