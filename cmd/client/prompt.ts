/** Questions to the person at the terminal. Nobody else is ever asked. */
import { createInterface } from 'node:readline/promises';
import { ClientFailure } from './failure.ts';
import type { Output } from './output.ts';

/** Asks on standard error, so that the answer to a redirected command is data alone. */
export async function askPerson(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const ended = new Promise<string>((_, reject) => {
    for (const end of ['SIGINT', 'close'])
      lines.on(end, () => reject(new ClientFailure('interrupted', 'Interrupted.')));
  });
  try {
    return (await Promise.race([lines.question(question), ended])).trim();
  } finally {
    lines.close();
  }
}

/** The same without an echo. */
export async function askSecret(question: string): Promise<string> {
  process.stderr.write(question);
  const { stdin } = process;
  stdin.setRawMode(true);
  stdin.resume();
  stdin.setEncoding('utf8');
  let text = '';
  try {
    for await (const chunk of stdin.iterator({ destroyOnReturn: false })) {
      for (const character of String(chunk)) {
        if (character === '\r' || character === '\n') return text;
        if (character === '\x03' || character === '\x04') throw new ClientFailure('interrupted', 'Interrupted.');
        if (character === '\x7f' || character === '\b') text = text.slice(0, -1);
        else if (character === '\x15') text = '';
        else if (character >= ' ') text += character;
      }
    }
    return text;
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    process.stderr.write('\n');
  }
}

/**
 * A secret: typed by a person, or a line of standard input. Throws ClientFailure with `otherwise` where neither can be:
 * at a terminal whose questions nobody would see.
 */
export async function takeSecret(out: Output, question: string, otherwise: string): Promise<string> {
  if (out.canAsk) return askSecret(question);
  if (process.stdin.isTTY) throw new ClientFailure('usage', otherwise);
  return readLine();
}

/** Whether a person says yes; `fallback` is the answer of Enter. */
export async function confirm(question: string, fallback: boolean): Promise<boolean> {
  const answer = (await askPerson(`${question} [${fallback ? 'Y/n' : 'y/N'}] `)).toLowerCase();
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
  const number = Number(await askPerson('Number: '));
  if (!Number.isInteger(number) || number < 1 || number > labels.length) throw new ClientFailure('usage', otherwise);
  return number - 1;
}

/**
 * The first line of standard input, for secrets that are piped in: whoever writes it may keep the pipe open, and what
 * follows is not read. All of it where it has no line end.
 */
export async function readLine(): Promise<string> {
  const { stdin } = process;
  stdin.setEncoding('utf8');
  let text = '';
  // Leaving the loop closes it: an open pipe would keep the program.
  for await (const chunk of stdin) {
    text += String(chunk);
    if (text.includes('\n')) break;
  }
  return text.split('\n', 1)[0]?.replace(/\r$/, '') ?? '';
}

/** All of standard input, for keys and bodies that are piped in; without the newline at its end. */
export async function readInput(): Promise<string> {
  let text = '';
  for await (const chunk of process.stdin) text += String(chunk);
  return text.replace(/\r?\n$/, '');
}
