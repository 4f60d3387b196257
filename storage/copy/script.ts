/** Parts as a script of SQL in a file, which psql runs too. */
import { CopyError, type CopyPart } from './parts.ts';

const FIRST_LINE = '-- A dump of a Troupe database, format 1';
const LAST_LINE = '-- End of the dump';
const COPY = /^COPY (\S+) \((.*)\) FROM stdin;$/;
const NEWLINE = 0x0a;
/** What ends the rows of a table, a line of its own. */
const END = Buffer.from('\\.\n');
const END_AFTER_ROW = Buffer.from('\n\\.\n');

/** One transaction, so that a script that fails changes nothing. */
export async function* writeScript(parts: AsyncIterable<CopyPart>): AsyncGenerator<Buffer> {
  yield Buffer.from(`${FIRST_LINE}\nbegin;\nset local search_path to public;\n`);
  for await (const part of parts) {
    if (part.kind === 'sql') {
      yield Buffer.from(`${part.text}\n`);
      continue;
    }
    yield Buffer.from(`COPY ${part.table} (${part.columns}) FROM stdin;\n`);
    yield* part.data;
    yield END;
  }
  yield Buffer.from(`commit;\n${LAST_LINE}\n`);
}

/**
 * The parts of a script, without its `begin` and `commit`. Rejects CopyError `not_a_dump`, or `cut_off` where its end
 * is missing.
 */
export async function* readScript(source: AsyncIterable<Buffer>): AsyncGenerator<CopyPart> {
  const reader = new ScriptReader(source);
  if ((await reader.line()) !== FIRST_LINE || (await reader.line()) !== 'begin;')
    throw new CopyError('not_a_dump', 'This is no dump that `troupe database dump` wrote.');
  let statements: string[] = [];
  let last: string | undefined;
  for (;;) {
    const line = await reader.line();
    if (line === undefined) throw cutOff();
    if (line === LAST_LINE && last === 'commit;') break;
    const [, table, columns] = COPY.exec(line) ?? [];
    if (last !== undefined) statements.push(last);
    last = line;
    if (table === undefined || columns === undefined) continue;
    yield { kind: 'sql', text: statements.join('\n') };
    [statements, last] = [[], undefined];
    yield { kind: 'rows', table, columns, data: reader.rows() };
  }
  yield { kind: 'sql', text: statements.join('\n') };
}

function cutOff(): CopyError {
  return new CopyError('cut_off', 'The dump ends in its middle: it was not written or copied to its end.');
}

class ScriptReader {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** The next line without its end; undefined after the last. */
  async line(): Promise<string | undefined> {
    let end = this.#rest.indexOf(NEWLINE);
    while (end < 0) {
      const from = this.#rest.length;
      if (!(await this.#more())) return undefined;
      end = this.#rest.indexOf(NEWLINE, from);
    }
    const line = this.#rest.toString('utf8', 0, end);
    this.#rest = this.#rest.subarray(end + 1);
    return line;
  }

  /** The rows up to the line that ends them. */
  async *rows(): AsyncGenerator<Buffer> {
    while (this.#rest.length < END.length) if (!(await this.#more())) throw cutOff();
    if (this.#rest.subarray(0, END.length).equals(END)) {
      this.#rest = this.#rest.subarray(END.length);
      return;
    }
    for (;;) {
      const end = this.#rest.indexOf(END_AFTER_ROW);
      if (end >= 0) {
        const rows = this.#rest.subarray(0, end + 1);
        this.#rest = this.#rest.subarray(end + END_AFTER_ROW.length);
        yield rows;
        return;
      }
      // The end may have begun in what is there.
      const whole = Math.max(0, this.#rest.length - END_AFTER_ROW.length);
      const rows = this.#rest.subarray(0, whole);
      this.#rest = this.#rest.subarray(whole);
      if (rows.length > 0) yield rows;
      if (!(await this.#more())) throw cutOff();
    }
  }

  async #more(): Promise<boolean> {
    const { value, done } = await this.#source.next();
    if (done === true) return false;
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
    return true;
  }
}
