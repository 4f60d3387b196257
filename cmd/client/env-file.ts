/**
 * Files of variables such as `.env`, read as docker compose and dotenv read them alike. What they read otherwise than
 * each other is refused, or kept as it stands and told. No message has a value: it may be a secret.
 */
import { ClientFailure } from './failure.ts';

/** What a file says. */
interface EnvFile {
  readonly values: Readonly<Record<string, string>>;
  /** What a person should know of values that others read in another way. */
  readonly notes: readonly string[];
}

/** NAME=, NAME: (with a blank behind it), both after `export` or not. */
const NAME = /^(?:export[ \t]+)?([A-Za-z_]\w*)(?:[ \t]*=|[ \t]*:(?=[ \t]|$))[ \t]*/;
/** What stands for one character between double quotes: for docker compose, and python-dotenv. */
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' };
/** What docker compose puts a value in the place of. */
const REFERENCE = /\$(?:[A-Za-z_{$])/;

/** `file`: how messages name it. Throws ClientFailure, with the line. */
export function parseEnvFile(text: string, file: string): EnvFile {
  const values = new Map<string, string>();
  const kept = { references: new Set<string>(), backticks: new Set<string>() };
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/);
  for (let at = 0; at < lines.length; at++) {
    const refuse = (why: string) => new ClientFailure('usage', `${file}, line ${at + 1}, ${why}`);
    const line = (lines[at] ?? '').trimStart();
    if (line === '' || line.startsWith('#')) continue;
    const [begin, name] = NAME.exec(line) ?? [];
    if (begin === undefined || name === undefined) throw refuse('is no variable such as PORT=8080.');
    const rest = line.slice(begin.length);
    if (rest.startsWith('"') || rest.startsWith("'")) {
      const { value, end } = quoted(rest, lines, at, refuse);
      if (rest.startsWith('"') && REFERENCE.test(value)) kept.references.add(name);
      values.set(name, value);
      at = end;
      continue;
    }
    if (/[ \t]$/.test(begin) && rest.startsWith('#'))
      throw refuse('has a # that some take for its value, and some for a comment: put quotes around the value.');
    const value = rest.replace(/[ \t]+#.*$/, '').trimEnd();
    if (REFERENCE.test(value)) kept.references.add(name);
    if (/^`.*`$/.test(value)) kept.backticks.add(name);
    values.set(name, value);
  }
  return { values: Object.fromEntries(values), notes: notesOn(kept) };
}

function notesOn({ references, backticks }: Record<'references' | 'backticks', ReadonlySet<string>>): string[] {
  const listed = (names: ReadonlySet<string>) => [...names].join(', ');
  const notes: string[] = [];
  if (references.size > 0) notes.push(`$ stands for itself, and for no other variable, in ${listed(references)}.`);
  if (backticks.size > 0) notes.push(`The backticks are part of the value of ${listed(backticks)}.`);
  return notes;
}

/** A value in quotes, which begins on the line `at` with `rest`, and the line on which it ends. */
function quoted(
  rest: string,
  lines: readonly string[],
  at: number,
  refuse: (why: string) => ClientFailure,
): { readonly value: string; readonly end: number } {
  const isDouble = rest.startsWith('"');
  const closing = isDouble ? /^((?:[^"\\]|\\.|\\$)*)"(.*)$/ : /^((?:[^'\\]|\\.|\\$)*)'(.*)$/;
  const inside: string[] = [];
  for (let end = at; end < lines.length; end++) {
    const line = end === at ? rest.slice(1) : (lines[end] ?? '');
    const [whole, last, after = ''] = closing.exec(line) ?? [];
    inside.push(last ?? line);
    if (whole === undefined) continue;
    if (!/^[ \t]*(#.*)?$/.test(after)) throw refuse('goes on after the closing quote.');
    const text = inside.join('\n');
    return { value: isDouble ? text.replace(/\\([nrt"\\])/g, (_, key: string) => ESCAPES[key] ?? key) : text, end };
  }
  throw refuse('has a quote that is not closed.');
}
