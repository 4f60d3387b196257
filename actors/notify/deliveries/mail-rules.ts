/** Which notifications a mail holds, when it may be sent, and how it reads. */
import { createHash, createHmac, type KeyObject, randomInt, timingSafeEqual } from 'node:crypto';
import { MAIL_CODE_DIGITS } from '../../../proto/notify/mail.ts';
import type { Mail } from '../../../proto/ports/mailer.ts';
import type { ClaimedMail, MailItem, MailPlan } from '../../../storage/notify/mail-tries.ts';

/** Mails that a user gets in an hour at most. */
const MAILS_AN_HOUR = 20;
export const HOUR_MS = 3_600_000;
/** Codes that a user may have sent in an hour, guesses at one, and how long it is good. */
export const CODES_AN_HOUR = 5;
export const CODE_TRIES = 5;
export const CODE_MS = 15 * 60_000;
/** What waits longer than this did not wait for its turn alone. */
const LATE_MS = 60_000;
const MAX_SUBJECT = 120;
/** Of each notification in a mail of several. */
const MAX_EXCERPT = 400;

/**
 * What the next mail is: one notification, as long as each of those that wait may have a mail of its own; else all of
 * them, once the hour has room for a mail. What had to wait comes in one mail, too. `oldest`: since when the first one
 * waits.
 */
export function planMail(sentAt: readonly Date[], waiting: number, oldest: Date, now: number): MailPlan {
  const recent = sentAt.map((at) => at.getTime()).filter((at) => at > now - HOUR_MS);
  const room = MAILS_AN_HOUR - recent.length;
  if (room <= 0) return { notBefore: new Date(Math.min(...recent) + HOUR_MS) };
  const isLate = now - oldest.getTime() > LATE_MS;
  return { take: waiting <= room && !isLate ? 1 : waiting };
}

/** One line without control characters, as a header takes it. */
export function headerText(text: string): string {
  const line = text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' ')
    .replace(/ +/g, ' ')
    .trim();
  return line.length > MAX_SUBJECT ? `${line.slice(0, MAX_SUBJECT - 1).replace(/[\ud800-\udbff]$/, '')}…` : line;
}

/** Text without control characters but line feeds. */
function plainText(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(/[^\P{Cc}\n]/gu, ' ');
}

/** The mail. `domain`: the platform's. Its id is the same at each try. */
export function mailOf({ userId, batch, address, items }: ClaimedMail, domain: string): Mail {
  const [first] = items;
  const single = items.length === 1 ? first : undefined;
  const subject = single === undefined ? `${items.length} notifications from ${domain}` : headerText(single.title);
  const body = single === undefined ? items.map(excerpt).join('\n\n') : whole(single);
  const text = `${body}\n\n-- \nYou get this mail because you asked ${domain} for notifications by mail.\n`;
  return { to: address, subject, text, id: createHash('sha256').update(`${userId}/${batch}`).digest('hex') };
}

function whole({ message, link }: MailItem): string {
  return plainText(link === '' ? message : `${message}\n\n${link}`);
}

function excerpt({ title, message, createdAt }: MailItem): string {
  const when = createdAt.toISOString().slice(0, 16).replace('T', ' ');
  const cut = message.length > MAX_EXCERPT ? `${message.slice(0, MAX_EXCERPT - 1)}…` : message;
  return `${headerText(title)} (${when} UTC)\n${plainText(cut)}`;
}

/** A code that proves an address. */
export function newCode(): string {
  return String(randomInt(10 ** MAIL_CODE_DIGITS)).padStart(MAIL_CODE_DIGITS, '0');
}

/** What is kept of it. */
export function codeHash(key: KeyObject, userId: string, code: string): string {
  return createHmac('sha256', key).update(`notification_mail/${userId}/${code}`).digest('base64url');
}

/** Whether two hashes are one. */
export function isSameHash(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The mail that holds the code. */
export function codeMail(address: string, code: string, domain: string, id: string): Mail {
  const minutes = CODE_MS / 60_000;
  return {
    to: address,
    subject: `${code} is your code for ${domain}`,
    text:
      `Somebody, you we hope, wants notifications of ${domain} to be sent to this address.\n` +
      `The code is ${code}. It is good for ${minutes} minutes.\n\n` +
      'If it was not you, there is nothing to do: without the code nothing more is sent.\n',
    id,
  };
}
