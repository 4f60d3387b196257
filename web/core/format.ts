/** Figures and times as people read them. */
const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const exact = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
});
const minute = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const date = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' });
const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'long', day: 'numeric', month: 'long' });

export const count = (value: number): string => whole.format(value);

/** `318 MB`, `1.9 GB`. */
function bytes(value: number): string {
  return value >= GIB ? `${tenths.format(value / GIB)} GB` : `${whole.format(value / MIB)} MB`;
}

/** `318 of 512 MB`: both in the unit of the second. */
export function bytesOf(value: number, most: number): string {
  const [unit, name] = most >= GIB ? [GIB, 'GB'] : [MIB, 'MB'];
  return `${tenths.format(round(value / unit))} of ${tenths.format(most / unit)} ${name}`;
}

function round(value: number): number {
  return value >= 10 ? Math.round(value) : value;
}

export const megabytes = (mb: number): string => bytes(mb * MIB);
export const gigabytes = (gb: number): string => `${tenths.format(gb)} GB`;

/** A share of 1. */
export const percent = (share: number): string => `${whole.format(share * 100)} %`;

/** `40 s`, `12 min`, `3 h`, `6 days`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < MINUTE) return `${seconds} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  const days = Math.floor(seconds / DAY);
  return days === 1 ? '1 day' : `${days} days`;
}

/** `2 min 41 s`: two units of it. */
export function spanExactly(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const units: [number, string][] = [
    [DAY, 'd'],
    [HOUR, 'h'],
    [MINUTE, 'min'],
    [1, 's'],
  ];
  const at = Math.max(
    0,
    units.findIndex(([unit]) => seconds >= unit),
  );
  let rest = seconds;
  const parts = units.slice(at, at + 2).flatMap(([unit, name]) => {
    const value = Math.floor(rest / unit);
    rest -= value * unit;
    return value === 0 ? [] : [`${value} ${name}`];
  });
  return parts.join(' ') || '0 s';
}

/** `must not be empty` as `Must not be empty.` */
export function sentenceOf(message: string): string {
  const text = message.trim();
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}

/** How long ago, short: `12 min`, then the day. */
export function ago(time: number, at: number): string {
  const age = at - time;
  if (age < MINUTE * 1000) return 'now';
  return age < 7 * DAY * 1000 ? span(age) : day.format(time);
}

/** `2030-01-31T12:00`, by the clock of this browser: what a field for a date and a time holds. */
export function minuteOf(time: number): string {
  return new Date(time - new Date(time).getTimezoneOffset() * MINUTE * 1000).toISOString().slice(0, 16);
}

/** With the zone: `31 Jan 2030, 12:00:07 UTC`. */
export const exactTime = (time: number): string => exact.format(time);
/** `31 Jan 2030, 12:00`. */
export const minuteTime = (time: number): string => minute.format(time);
export const clockTime = (time: number): string => clock.format(time);
export const decimal = (value: number): string => tenths.format(value);
export const dateOf = (time: number): string => date.format(time);
export const dayOf = (time: number): string => weekday.format(time);
