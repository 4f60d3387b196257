/** A terminal at the other end of an SSH session: what the line discipline of a kernel does for one that is here. */
import { Readable, Writable } from 'node:stream';
import type { CommandInput, CommandOutput } from '../place.ts';

/** Longest line that is typed, bytes (as MAX_CANON of Linux), and what may wait for a command. */
const MOST_OF_LINE = 4095;
const MOST_WAITING = 64 * 1024;

const INTERRUPT = 0x03;
const END = 0x04;
const BACKSPACE = 0x08;
const RETURN = 0x0d;
const NEWLINE = 0x0a;
const KILL = 0x15;
const DELETE = 0x7f;
const BLANK = 0x20;
const EOL = '\r\n';

interface TerminalActions {
  readonly echo: (bytes: Uint8Array) => void;
  /** Ctrl-C, unless it is read as it is. */
  readonly interrupt: () => void;
}

/** What is typed: line by line with an echo, or as it is (`setRawMode`). Its source is read as long as it lives. */
export class TerminalInput extends Readable implements CommandInput {
  readonly isTTY = true;
  readonly #source: Readable;
  readonly #actions: TerminalActions;
  #isRaw = false;
  #isOver = false;
  #line: number[] = [];
  /** What is to be shown of what was typed. */
  readonly #echoed: Buffer[] = [];
  #asking: ((line: string | undefined) => void) | undefined;

  constructor(source: Readable, actions: TerminalActions) {
    super({ highWaterMark: MOST_WAITING });
    this.#source = source;
    this.#actions = actions;
    source.on('data', (chunk: Buffer) => this.#take(chunk));
    source.on('end', () => this.#end());
  }

  setRawMode(isRaw: boolean): void {
    this.#isRaw = isRaw;
    this.#line = [];
    this.#source.resume();
  }

  /** The next line; undefined at Ctrl-C, at Ctrl-D, and when nobody is there any more. */
  readLine(): Promise<string | undefined> {
    if (this.#isOver || this.#source.destroyed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#asking = resolve;
    });
  }

  /** Nobody types any more. */
  leave(): void {
    this.#answer(undefined);
    this.#end();
  }

  override _read(): void {
    this.#source.resume();
  }

  #end(): void {
    this.#answer(undefined);
    if (this.#isOver || this.destroyed) return;
    this.#isOver = true;
    this.push(null);
  }

  #answer(line: string | undefined): boolean {
    const asking = this.#asking;
    this.#asking = undefined;
    asking?.(line);
    return asking !== undefined;
  }

  #take(chunk: Buffer): void {
    if (this.#isOver || this.destroyed) return;
    if (this.#isRaw) {
      if (!this.push(chunk)) this.#source.pause();
      return;
    }
    for (const byte of chunk) this.#type(byte);
    // Together: a packet for each key of a pasted text would be many.
    if (this.#echoed.length > 0) this.#actions.echo(Buffer.concat(this.#echoed.splice(0)));
  }

  #echo(text: string | Uint8Array): void {
    this.#echoed.push(Buffer.from(text));
  }

  #type(byte: number): void {
    if (byte === INTERRUPT) {
      this.#echo(`^C${EOL}`);
      this.#line = [];
      if (!this.#answer(undefined)) this.#actions.interrupt();
    } else if (byte === END) {
      if (this.#line.length > 0) this.#deliver('');
      // It ends what a command reads, and means nothing where none does.
      else if (!this.#answer(undefined) && (this.readableFlowing || this.listenerCount('readable') > 0)) this.#end();
    } else if (byte === RETURN || byte === NEWLINE) {
      this.#echo(EOL);
      this.#deliver('\n');
    } else if (byte === DELETE || byte === BACKSPACE) {
      if (this.#line.length === 0) return;
      // A character has one byte that does not continue another.
      while (((this.#line.pop() ?? 0) & 0xc0) === 0x80) {}
      this.#echo('\b \b');
    } else if (byte === KILL) {
      const characters = this.#line.filter((each) => (each & 0xc0) !== 0x80).length;
      this.#echo('\b \b'.repeat(characters));
      this.#line = [];
    } else if (byte >= BLANK && this.#line.length < MOST_OF_LINE) {
      this.#line.push(byte);
      this.#echo(Uint8Array.of(byte));
    }
  }

  #deliver(end: string): void {
    const text = Buffer.from(this.#line);
    this.#line = [];
    if (this.#answer(text.toString('utf8'))) return;
    // As a kernel does: what nobody reads is lost past a bound.
    if (this.readableLength < MOST_WAITING) this.push(Buffer.concat([text, Buffer.from(end)]));
  }
}

/** An output of a command. For a terminal, ends of lines go to the beginning of the next one. */
export class AccountOutput extends Writable implements CommandOutput {
  readonly isTTY: boolean;
  readonly #target: Writable;
  readonly #size: () => { readonly cols: number; readonly rows: number } | undefined;
  #last = 0;

  constructor(target: Writable, size: () => { readonly cols: number; readonly rows: number } | undefined) {
    super({ decodeStrings: true });
    this.#target = target;
    this.#size = size;
    this.isTTY = size() !== undefined;
  }

  get columns(): number {
    return this.#size()?.cols ?? 80;
  }

  get rows(): number {
    return this.#size()?.rows ?? 24;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const bytes = this.isTTY ? this.#withReturns(chunk) : chunk;
    this.#target.write(bytes, done);
  }

  #withReturns(chunk: Buffer): Buffer {
    const parts: Uint8Array[] = [];
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) {
      const before = at === 0 ? this.#last : chunk[at - 1];
      if (before === RETURN) continue;
      parts.push(chunk.subarray(from, at), Buffer.from(EOL));
      from = at + 1;
    }
    this.#last = chunk.at(-1) ?? this.#last;
    return from === 0 ? chunk : Buffer.concat([...parts, chunk.subarray(from)]);
  }
}
