/** What client commands print: data on standard output, everything else on standard error. */
import { clean, ESCAPE } from './clean.ts';
import { ClientFailure } from './failure.ts';
import type { CommandPlace } from './place.ts';

/** Options that shape the output. */
export interface OutputOptions {
  /** Set before every command (main.ts). */
  readonly place: CommandPlace;
  readonly json?: boolean;
  readonly color?: string;
  readonly columns?: string;
  readonly quiet?: boolean;
}

type Colour = 'green' | 'yellow' | 'red' | 'dim' | 'bold';
const SGR: Readonly<Record<Colour, readonly [number, number]>> = {
  green: [32, 39],
  yellow: [33, 39],
  red: [31, 39],
  dim: [2, 22],
  bold: [1, 22],
};

/** A shape and a colour for each status, so that neither has to be seen. */
const STATUS: Readonly<Record<string, readonly [shape: string, colour: Colour]>> = {
  running: ['●', 'green'],
  verified: ['●', 'green'],
  ok: ['●', 'green'],
  serving: ['●', 'green'],
  pending: ['◌', 'yellow'],
  initializing: ['◐', 'yellow'],
  retrying: ['◐', 'yellow'],
  stopped: ['■', 'dim'],
  disabled: ['■', 'dim'],
  failed: ['▲', 'red'],
  failing: ['▲', 'red'],
};

const GAP = '  ';
const NARROWEST = 6;
/** Of `--columns`, which may repeat them: cutting very many to a width takes long. */
const MOST_COLUMNS = 50;

/** Where a command prints. */
export class Output {
  readonly json: boolean;
  readonly place: CommandPlace;
  /** Whether people read it: tables are aligned and cut, there are shapes. */
  readonly isTerminal: boolean;
  readonly #isColoured: boolean;
  readonly #columns: readonly string[] | undefined;
  readonly #quiet: boolean;

  constructor({ place, json = false, color = 'auto', columns, quiet = false }: OutputOptions) {
    this.place = place;
    this.json = json;
    this.isTerminal = place.stdout.isTTY === true;
    this.#isColoured = isColoured(color, this.isTerminal, place.environment);
    this.#columns = columns?.split(',').map((name) => name.trim().toUpperCase());
    this.#quiet = quiet;
  }

  /** Whether a person is there who can be asked. */
  get canAsk(): boolean {
    const { stdin, stderr } = this.place;
    return stdin.isTTY === true && stderr.isTTY === true && !this.json;
  }

  line(text: string): void {
    this.place.stdout.write(`${text}\n`);
  }

  /** What a person should know beside the data. */
  note(text: string): void {
    this.place.stderr.write(`${text}\n`);
  }

  paint(text: string, colour: Colour): string {
    const [on, off] = SGR[colour];
    return this.#isColoured ? `\x1b[${on}m${text}\x1b[${off}m` : text;
  }

  /** A status with its shape on a terminal, bare elsewhere. */
  status(status: string): string {
    const [shape, colour] = STATUS[status] ?? ['·', 'dim'];
    return this.isTerminal ? this.paint(`${shape} ${status}`, colour) : status;
  }

  /** When something was: as an age on a terminal, as a time elsewhere. */
  when(time: string | number): string {
    const at = typeof time === 'number' ? time * 1000 : Date.parse(time);
    return this.isTerminal ? age(Date.now() - at) : new Date(at).toISOString();
  }

  /** Done: the answer as JSON, or a sentence. A sentence is no data. */
  done(answer: unknown, text: string): void {
    if (this.json) this.line(JSON.stringify(answer ?? null));
    else this.note(text);
  }

  /** What is shown only now: the answer as JSON, or the secret alone, so that it can be piped. `what`: its name. */
  secret(answer: unknown, what: string, secret: string): void {
    if (!this.json && this.isTerminal) this.note(`${what}, shown only now:`);
    this.line(this.json ? JSON.stringify(answer) : secret);
  }

  /**
   * The answer of an endpoint as JSON, or a table. The last column is the id, which alone is printed with -q. On a
   * terminal columns are aligned, and the widest gives way; elsewhere they are whole and a tab apart. `onlyNamed`:
   * those that are shown if `--columns` names them.
   */
  table(
    answer: unknown,
    heads: readonly string[],
    rows: readonly (readonly string[])[],
    none: string,
    onlyNamed: readonly string[] = [],
  ): void {
    if (this.json) {
      this.line(JSON.stringify(answer));
      return;
    }
    if (this.#quiet) {
      for (const row of rows) this.line(row.at(-1) ?? '');
      return;
    }
    if (rows.length === 0 && this.isTerminal) {
      this.note(none);
      return;
    }
    const shown = this.#columns ?? heads.filter((name) => !onlyNamed.includes(name));
    const order = shown.map((name) => heads.indexOf(name));
    if (order.includes(-1) || order.length > MOST_COLUMNS)
      throw new ClientFailure('usage', `The columns are ${heads.join(', ').toLowerCase()}.`);
    const picked = [heads, ...rows].map((row) => order.map((at) => clean(row[at] ?? '')));
    if (!this.isTerminal) {
      for (const row of picked) this.line(row.join('\t'));
      return;
    }
    const widths = fitted(picked, this.place.stdout.columns || 80);
    for (const [at, row] of picked.entries()) {
      const text = row
        .map((cell, column) => padded(cell, widths[column] ?? 0))
        .join(GAP)
        .trimEnd();
      this.line(at === 0 ? this.paint(text, 'dim') : text);
    }
  }

  /** One thing: names and values, one a line. Those without a value are left out. */
  details(answer: unknown, pairs: readonly (readonly [string, string | undefined])[]): void {
    if (this.json) {
      this.line(JSON.stringify(answer));
      return;
    }
    const known = pairs.filter(([, value]) => value !== undefined && value !== '');
    const width = Math.max(...known.map(([name]) => name.length));
    for (const [name, value = ''] of known) {
      if (!this.isTerminal) this.line(`${name}\t${clean(value)}`);
      else this.line(`${this.paint(name.padEnd(width), 'dim')}${GAP}${clean(value)}`);
    }
  }
}

function isColoured(color: string, isTerminal: boolean, environment: CommandPlace['environment']): boolean {
  if (color !== 'auto') return color === 'always';
  const { NO_COLOR, FORCE_COLOR, TERM } = environment;
  if (NO_COLOR) return false;
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== '0') return true;
  return isTerminal && TERM !== 'dumb';
}

/** How long ago, in its two largest letters: `5s`, `3m`, `2h`, `4d`. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** Characters of East Asian scripts and pictures take two columns. */
const WIDE = new RegExp(
  '[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|' +
    '\\p{Emoji_Presentation}',
  'u',
);

function widthOf(text: string): number {
  let width = 0;
  for (const character of text.replace(ESCAPE, ''))
    width += WIDE.test(character) ? 2 : /\p{M}/u.test(character) ? 0 : 1;
  return width;
}

function fitted(rows: readonly (readonly string[])[], columns: number): number[] {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => widthOf(row[at] ?? ''))));
  const total = () => widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
  while (total() > columns) {
    const widest = widths.indexOf(Math.max(...widths));
    const width = widths[widest] ?? 0;
    if (width <= NARROWEST) break;
    widths[widest] = width - 1;
  }
  return widths;
}

/** The text in just so many columns. */
export function padded(cell: string, width: number): string {
  const own = widthOf(cell);
  return own <= width ? cell + ' '.repeat(width - own) : cut(cell, width);
}

/** The text in so many columns, with an ellipsis. Its colours go. */
export function cut(text: string, width: number): string {
  const bare = text.replace(ESCAPE, '');
  if (widthOf(bare) <= width) return bare;
  let kept = '';
  let used = 0;
  for (const character of bare) {
    used += widthOf(character);
    if (used > width - 1) break;
    kept += character;
  }
  return `${kept}…${' '.repeat(Math.max(0, width - widthOf(kept) - 1))}`;
}
