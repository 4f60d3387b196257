/** `troupe shell`: a terminal in a container, which comes back after a lost connection. */
import type { Container } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import { containerOf } from './names.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

export interface ShellOptions extends ClientCommandOptions {
  /** The session of a shell that was left. */
  readonly session?: string;
}

const CLEAR = '\x1b[0m\x1b[2J\x1b[3J\x1b[H';
/**
 * What a program may have left on: the other screen, the mouse, a hidden cursor, bracketed paste. Not 1049: where no
 * program is on the other screen, that moves the cursor to the top, over what is written there.
 */
const RESTORE = '\x1b[?1047l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?25h\x1b[?2004l\x1b[0m';
const END_OF_INPUT = '\x04';
/**
 * A shell that was not reading keys yet takes the end of the input for a character of its line. So the line is cleared
 * and the end is typed again, until the shell has ended.
 */
const END_AGAIN = '\x15\x04';
const END_AGAIN_MS = 500;

const ESCAPES = `
Typed at the beginning of a line:
  ~.  hang up: the shell ends
  ~d  leave; the shell waits for 30 s
  ~~  a ~
  ~?  this list
`.replaceAll('\n', '\r\n');

/** Opens a shell in a container. */
export async function shell(name: string | undefined, options: ShellOptions): Promise<void> {
  const session = openSession(options);
  await openShell(session, await containerOf(session, name), options);
}

/** The same in a container that is known. */
export async function openShell(
  { client, out }: ClientSession,
  { id, name }: Container,
  options: Pick<ShellOptions, 'session'>,
): Promise<void> {
  const { stdin, stdout, stderr } = out.place;
  const isTerminal = stdin.isTTY === true && stdout.isTTY === true;
  const sizeNow = () => ({ cols: stdout.columns || 80, rows: stdout.rows || 24 });
  let isLost = false;
  let isOpened = false;
  const say = (text: string) => stderr.write(isTerminal ? `\r\n\x1b[2m[${text}]\x1b[0m\r\n` : `${text}\n`);
  const terminal = client.follow.terminal({
    id,
    session: options.session,
    size: sizeNow(),
    onOutput: (bytes) => stdout.write(bytes),
    onReturn: () => isTerminal && stdout.write(CLEAR),
    onState(state) {
      if (state.state === 'open' && isTerminal && !isOpened)
        out.note(`${out.paint(`${name}  (~? lists what ~ does)`, 'dim')}\r`);
      isOpened ||= state.state === 'open';
      if (state.state === 'waiting' && !isLost) say('the connection is lost: trying again, ~. gives up');
      isLost = state.state === 'waiting' || (isLost && state.state === 'connecting');
    },
  });
  const keys = new EscapeKeys({
    type: (bytes) => terminal.write(bytes),
    hangUp: () => terminal.close(),
    leave: () => terminal.leave(),
    help: () => stdout.write(ESCAPES),
  });
  let left = false;
  const onData = (data: Buffer) => {
    if (!isTerminal) terminal.write(data);
    else if (keys.take(data) === 'leave') left = true;
  };
  const onResize = () => terminal.resize(sizeNow());
  if (isTerminal) {
    stdin.setRawMode?.(true);
    stdout.on('resize', onResize);
  }
  stdin.on('data', onData);
  let ending: NodeJS.Timeout | undefined;
  const onEnd = () => {
    terminal.write(END_OF_INPUT);
    ending = setInterval(() => terminal.write(END_AGAIN), END_AGAIN_MS);
  };
  stdin.on('end', onEnd);
  stdin.resume();
  try {
    const { error, how, reason } = await terminal.done;
    if (isTerminal && isOpened) stdout.write(`${RESTORE}\r\n`);
    if (how === 'taken') throw new ClientFailure('failed', 'Another client has this shell now.');
    if (error !== undefined) throw error;
    if (left) out.note(`The shell waits for 30 s: \`troupe shell ${name} --session ${terminal.session}\`.`);
    else if (reason !== '' && reason !== 'session ended') out.note(`The shell has ended: ${reason}.`);
    out.place.exitWith(terminal.exitCode ?? 0);
  } finally {
    stdin.off('data', onData);
    stdin.off('end', onEnd);
    clearInterval(ending);
    stdout.off('resize', onResize);
    if (isTerminal) stdin.setRawMode?.(false);
    stdin.pause();
    stdin.unref?.();
  }
}

interface KeyActions {
  type(bytes: Uint8Array): void;
  hangUp(): void;
  leave(): void;
  help(): void;
}

const TILDE = 0x7e;
const RETURN = 0x0d;
const NEWLINE = 0x0a;
const ESCAPE = 0x1b;
const BELL = 0x07;

/** Last letters of what a terminal answers by itself: place of the cursor, kind, state, focus, modes (xterm). */
const REPORTS = new Set([...'RcntIOy'].map((letter) => letter.charCodeAt(0)));

/** `[` begins an answer that ends with its letter, `]` and `P` one of a text. Anything else is a key. */
const AFTER_ESCAPE = new Map<number, 'control' | 'text'>([
  [0x5b, 'control'],
  [0x5d, 'text'],
  [0x50, 'text'],
]);

/**
 * Knows what a terminal answers to questions of a program, among what is typed: some shells ask for the place of the
 * cursor at every prompt, and the answer begins no line.
 */
class TerminalReports {
  #state: 'none' | 'escape' | 'control' | 'text' | 'text end' = 'none';

  /** What a byte is: the beginning or a part of an answer or a key, the end of an answer, or typed. */
  take(byte: number): 'begin' | 'part' | 'report' | 'typed' {
    if (byte === RETURN || byte === NEWLINE) this.#state = 'none';
    const before = this.#state;
    if (before === 'none' && byte !== ESCAPE) return 'typed';
    if (before === 'none') {
      this.#state = 'escape';
      return 'begin';
    }
    if (before === 'escape') this.#state = AFTER_ESCAPE.get(byte) ?? 'none';
    else if (before === 'control' && byte >= 0x40 && byte <= 0x7e) return this.#end(REPORTS.has(byte));
    else if (before === 'text' && byte === BELL) return this.#end(true);
    else if (before === 'text') this.#state = byte === ESCAPE ? 'text end' : 'text';
    else if (before === 'text end') return this.#end(true);
    return 'part';
  }

  #end(isReport: boolean): 'part' | 'report' {
    this.#state = 'none';
    return isReport ? 'report' : 'part';
  }
}

/** Finds `~` at the beginning of a line, and what follows it, as ssh does. */
export class EscapeKeys {
  readonly #actions: KeyActions;
  readonly #reports = new TerminalReports();
  #isLineStart = true;
  /** Before the answer of the terminal that comes now. */
  #wasLineStart = true;
  #isEscaped = false;

  constructor(actions: KeyActions) {
    this.#actions = actions;
  }

  take(data: Uint8Array): 'leave' | undefined {
    const typed: number[] = [];
    const flush = () => {
      if (typed.length > 0) this.#actions.type(Uint8Array.from(typed.splice(0)));
    };
    for (const byte of data) {
      if (this.#isEscaped) {
        this.#isEscaped = false;
        const character = String.fromCharCode(byte);
        if (character === '.') {
          flush();
          this.#actions.hangUp();
          return undefined;
        }
        if (character === 'd') {
          flush();
          this.#actions.leave();
          return 'leave';
        }
        if (character === '?') {
          flush();
          this.#actions.help();
          this.#isLineStart = true;
          continue;
        }
        typed.push(TILDE);
        if (byte === TILDE) {
          this.#isLineStart = false;
          continue;
        }
      } else if (byte === TILDE && this.#isLineStart) {
        this.#isEscaped = true;
        continue;
      }
      typed.push(byte);
      this.#note(byte);
    }
    flush();
    return undefined;
  }

  #note(byte: number): void {
    const what = this.#reports.take(byte);
    if (what === 'begin') this.#wasLineStart = this.#isLineStart;
    this.#isLineStart = what === 'report' ? this.#wasLineStart : byte === RETURN || byte === NEWLINE;
  }
}
