/** `troupe dead-letters list|show|replay|discard`: messages that a consumer of the bus gave up. */
import { decodeNotification } from '../../proto/notify/notification.ts';
import type { StoredDeadLetter } from '../../proto/ports/bus-store.ts';
import {
  type DeadLetterChoice,
  discardDeadLetters,
  findDeadLetter,
  listDeadLetters,
  replayDeadLetters,
} from '../../storage/bus/dead-letters.ts';
import { CliError } from '../config/cli-error.ts';
import { type CommandOptions, onDatabase, print, tableLines } from './command.ts';

/** Which letters a command means: those of its arguments, or with `all` those of `stream`, or of every stream. */
export interface ChoiceOptions extends CommandOptions {
  readonly all?: boolean;
  readonly again?: boolean;
  readonly stream?: string;
}

/** Which are listed. */
export interface ListOptions extends CommandOptions {
  readonly stream?: string;
  readonly limit: number;
}

/** Prints the newest, one a line. */
export async function deadLettersList(options: ListOptions): Promise<void> {
  const limit = Math.min(Math.max(options.limit, 1), 10_000);
  const letters = await onDatabase(options, (db) => listDeadLetters(db, options.stream, limit));
  const rows = letters.map((letter) => {
    const { id, subject, durable, deliveries, replayedAt, reason } = letter;
    const state = replayedAt === undefined ? '' : 'replayed';
    return [String(id), time(letter.at), subject, durable, `${deliveries}x`, state, oneLine(reason)];
  });
  const heads = ['ID', 'GIVEN UP', 'SUBJECT', 'CONSUMER', 'TRIED', '', 'REASON'];
  print(options, letters.map(headOf), () =>
    letters.length === 0 ? 'There are no dead letters.' : tableLines(heads, rows).join('\n'),
  );
}

/** Prints one with its content: a notification's fields, text as it is, other bytes in base64. */
export async function deadLettersShow(id: string, options: CommandOptions): Promise<void> {
  const letter = await onDatabase(options, (db) => findDeadLetter(db, idOf(id)));
  if (letter === undefined)
    throw new CliError(`There is no dead letter ${id}: \`troupe dead-letters list\` shows them.`);
  const content = contentOf(letter);
  print(options, { ...headOf(letter), ...content, data_base64: Buffer.from(letter.data).toString('base64') }, () =>
    [
      `Dead letter ${letter.id} of ${letter.stream}, message ` +
        `${letter.seq}${letter.msgId === undefined ? '' : ` (${oneLine(letter.msgId)})`}`,
      `  subject   ${letter.subject}`,
      `  consumer  ${letter.durable}, tried ${letter.deliveries} times`,
      `  stored    ${time(letter.storedAt)}`,
      `  given up  ${time(letter.at)}: ${oneLine(letter.reason)}`,
      ...(letter.replayedAt === undefined ? [] : [`  replayed  ${time(letter.replayedAt)}`]),
      '',
      content.notification === undefined
        ? (content.text ?? Buffer.from(letter.data).toString('base64'))
        : JSON.stringify(content.notification, null, 2),
    ].join('\n'),
  );
}

/** Sends messages to their streams again, through the outbox of the platform: once, unless `again`. */
export async function deadLettersReplay(ids: readonly string[], options: ChoiceOptions): Promise<void> {
  const choice = choiceOf(ids, options, 'replay');
  const replayed = await onDatabase(options, (db) => replayDeadLetters(db, choice, options.again === true));
  print(options, { replayed }, () => {
    if (replayed.length > 0)
      return `Replayed ${replayed.join(', ')}. The running platform sends them, else the next one.`;
    return options.again
      ? 'There are no such dead letters.'
      : 'Nothing to replay: they were replayed before (--again), or are gone.';
  });
}

/** Deletes dead letters for good. */
export async function deadLettersDiscard(ids: readonly string[], options: ChoiceOptions): Promise<void> {
  const choice = choiceOf(ids, options, 'discard');
  const discarded = await onDatabase(options, (db) => discardDeadLetters(db, choice));
  print(options, { discarded }, () => `Discarded ${discarded}.`);
}

function choiceOf(ids: readonly string[], { all, stream }: ChoiceOptions, verb: string): DeadLetterChoice {
  if (ids.length > 0 && !all && stream === undefined) return { ids: ids.map(idOf) };
  if (ids.length === 0 && (all || stream !== undefined)) return { stream };
  throw new CliError(`Say which: \`troupe dead-letters ${verb} ID...\`, or --stream NAME, or --all.`);
}

function idOf(text: string): number {
  if (!/^[1-9][0-9]{0,14}$/.test(text)) throw new CliError(`${text} is not the id of a dead letter: it is a number.`);
  return Number(text);
}

/** What there is to say without the content, as JSON names it. */
function headOf({ id, stream, durable, seq, subject, deliveries, reason, ...rest }: StoredDeadLetter) {
  return {
    id,
    stream,
    consumer: durable,
    seq,
    subject,
    deliveries,
    reason,
    message_id: rest.msgId ?? null,
    stored_at: new Date(rest.storedAt).toISOString(),
    given_up_at: new Date(rest.at).toISOString(),
    replayed_at: rest.replayedAt === undefined ? null : new Date(rest.replayedAt).toISOString(),
    bytes: rest.data.byteLength,
  };
}

/** What can be read of the content. */
function contentOf({ subject, data }: StoredDeadLetter): { notification?: object; text?: string } {
  if (subject.startsWith('notify.')) {
    try {
      return { notification: decodeNotification(data) };
    } catch {
      // That may be why it is here.
    }
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(data);
    // Nothing that would move a terminal's cursor.
    return /^[\t\n\P{Cc}]*$/u.test(text) ? { text } : {};
  } catch {
    return {};
  }
}

function time(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
}

/** A reason may quote what a message says. */
function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ');
}
