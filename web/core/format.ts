/**
 * Figures and times as people read them. They are written here, not by `Intl`: the first formatter of a new page takes
 * as long as the rest of its script (docs/engineering/trials.md, "Console").
 */
import { t } from '../text/text.ts';

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `1,234`: rounded to so many digits after the point, of which a lone 0 is left out. */
function figure(value: number, digits: number): string {
  const [whole = '', part = '0'] = value.toFixed(digits).split('.');
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
  return part === '0' ? grouped : `${grouped}.${part}`;
}

export const count = (value: number): string => figure(value, 0);

/** `318 MB`, `1.9 GB`. */
function bytes(value: number): string {
  return value >= GIB ? `${decimal(value / GIB)} GB` : `${figure(value / MIB, 0)} MB`;
}

/** `318 of 512 MB`: both in the unit of the second. */
export function bytesOf(value: number, most: number): string {
  const [unit, name] = most >= GIB ? [GIB, 'GB'] : [MIB, 'MB'];
  return `${decimal(round(value / unit))} of ${decimal(most / unit)} ${name}`;
}

function round(value: number): number {
  return value >= 10 ? Math.round(value) : value;
}

export const megabytes = (mb: number): string => bytes(mb * MIB);
export const gigabytes = (gb: number): string => `${decimal(gb)} GB`;

/** A share of 1. */
export const percent = (share: number): string => `${figure(share * 100, 0)} %`;

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
  return age < 7 * DAY * 1000 ? span(age) : dayAndMonth(new Date(time));
}

/** `2030-01-31T12:00`, by the clock of this browser: what a field for a date and a time holds. */
export function minuteOf(time: number): string {
  return new Date(time - new Date(time).getTimezoneOffset() * MINUTE * 1000).toISOString().slice(0, 16);
}

/** `31 Jan 2030, 12:00:07 UTC`: by the clock of this browser, with its zone. */
export function exactTime(time: number): string {
  const at = new Date(time);
  return `${dateOf(time)}, ${clockTime(time)}:${two(at.getSeconds())} ${zone(at)}`;
}

/** `31 Jan 2030, 12:00`. */
export const minuteTime = (time: number): string => `${dateOf(time)}, ${clockTime(time)}`;

/** `12:00`. */
export function clockTime(time: number): string {
  const at = new Date(time);
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** With one digit after the point, unless it is 0. */
export const decimal = (value: number): string => figure(value, 1);

/** `31 Jan 2030`. */
export function dateOf(time: number): string {
  const at = new Date(time);
  return `${dayAndMonth(at)} ${at.getFullYear()}`;
}

/** `Thursday 31 January`. */
export function dayOf(time: number): string {
  const at = new Date(time);
  return `${t.calendar.days[at.getDay()]} ${at.getDate()} ${t.calendar.months[at.getMonth()]}`;
}

const dayAndMonth = (at: Date): string => `${at.getDate()} ${t.calendar.shortMonths[at.getMonth()]}`;

/** `UTC`, `UTC+1`, `UTC-3:30`. */
function zone(at: Date): string {
  const ahead = -at.getTimezoneOffset();
  if (ahead === 0) return 'UTC';
  const minutes = Math.abs(ahead);
  const part = minutes % 60;
  return `UTC${ahead < 0 ? '-' : '+'}${Math.floor(minutes / 60)}${part === 0 ? '' : `:${two(part)}`}`;
}

const two = (value: number): string => String(value).padStart(2, '0');
