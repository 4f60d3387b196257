/** Questions to the person at the terminal. Nobody else is ever asked. */
import { StringDecoder } from 'node:string_decoder';
import { firstLineOf } from '../../lib/first-line.ts';
import { ClientFailure } from './failure.ts';
import type { Output } from './output.ts';
import type { CommandPlace } from './place.ts';

/** Longest secret that is typed, and most that is read of standard input, in characters. */
const MOST_TYPED = 4096;
const MOST_READ = 1024 * 1024;
const TOO_LONG = 'Standard input is longer than 1 MiB.';

/** Asks without an echo. */
export async function askSecret({ stdin, stderr }: CommandPlace, question: string): Promise<string> {
  // Before the question: what is typed at once must not be shown either.
  stdin.setRawMode?.(true);
  stderr.write(question);
  stdin.resume();
  const decoder = new StringDecoder('utf8');
  let text = '';
  try {
    for await (const chunk of stdin.iterator({ destroyOnReturn: false })) {
      for (const character of decoder.write(Buffer.from(chunk))) {
        if (character === '\r' || character === '\n') return text;
        if (character === '\x03' || character === '\x04') throw new ClientFailure('interrupted', 'Interrupted.');
        if (character === '\x7f' || character === '\b') text = text.slice(0, -1);
        else if (character === '\x15') text = '';
        else if (character >= ' ' && text.length < MOST_TYPED) text += character;
      }
    }
    return text;
  } finally {
    stdin.setRawMode?.(false);
    stdin.pause();
    stderr.write('\n');
  }
}

/**
 * A secret: typed by a person, or a line of standard input. Throws ClientFailure with `otherwise` where neither can be:
 * at a terminal whose questions nobody would see.
 */
export async function takeSecret(out: Output, question: string, otherwise: string): Promise<string> {
  if (out.canAsk) return askSecret(out.place, question);
  if (out.place.stdin.isTTY) throw new ClientFailure('usage', otherwise);
  return readLine(out.place);
}

/** Whether a person says yes; `fallback` is the answer of Enter. */
export async function confirm(out: Output, question: string, fallback: boolean): Promise<boolean> {
  const answer = (await out.place.ask(`${question} [${fallback ? 'Y/n' : 'y/N'}] `)).toLowerCase();
  return answer === '' ? fallback : answer.startsWith('y');
}

/** The place of what a person chooses. Throws ClientFailure with `otherwise` where nobody can be asked. */
export async function choose(
  out: Output,
  question: string,
  labels: readonly string[],
  otherwise: string,
): Promise<number> {
  if (!out.canAsk) throw new ClientFailure('usage', otherwise);
  out.note(question);
  for (const [at, label] of labels.entries()) out.note(`  ${at + 1}  ${label}`);
  const number = Number(await out.place.ask('Number: '));
  if (!Number.isInteger(number) || number < 1 || number > labels.length) throw new ClientFailure('usage', otherwise);
  return number - 1;
}

/**
 * The first line of standard input, for secrets that are piped in: whoever writes it may keep the pipe open, and what
 * follows is not read. All of it where it has no line end.
 */
export async function readLine({ stdin }: CommandPlace): Promise<string> {
  const line = await firstLineOf(stdin, MOST_READ);
  if (line === undefined) throw new ClientFailure('usage', TOO_LONG);
  return line;
}

/** All of standard input, for keys and bodies that are piped in; without the newline at its end. */
export async function readInput({ stdin }: CommandPlace): Promise<string> {
  const decoder = new StringDecoder('utf8');
  let text = '';
  for await (const chunk of stdin) {
    text += decoder.write(Buffer.from(chunk));
    if (text.length > MOST_READ) throw new ClientFailure('usage', TOO_LONG);
  }
  return (text + decoder.end()).replace(/\r?\n$/, '');
}
