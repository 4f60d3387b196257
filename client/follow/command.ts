/**
 * A command in a container, which its container keeps: it is joined again after a lost connection, where its output
 * goes on, and it is run once. Where the container cannot keep it, it ends with its connection.
 */
import type { ExecExit, ExecInput, ExecSession } from '../../proto/compute/exec.ts';
import { TroupeError } from '../errors.ts';
import { ENDPOINTS } from '../generated/endpoints.ts';
import { fill } from '../path.ts';
import type { StreamState } from '../socket.ts';
import type { CallReply } from '../types.ts';
import { InputToCommand } from './command-input.ts';
import { type ClientCore, type FollowOptions, message } from './core.ts';
import type { TerminalSize } from './terminal.ts';

/** A command waits for minutes, but whoever waits for it does not like to. */
const BOUNDS = { minMs: 250, maxMs: 5000 };
/** How long the platform keeps a command for a client that is away, ms, and a little more. */
const KEPT_MS = 630_000;
/** Without a word for so long the platform may be one of before sessions, which says nothing first, ms. */
const SILENT_MS = 2000;
/** Output that is confirmed together, bytes: with 1 MiB that is not, the command waits. */
const CONFIRM_BYTES = 128 * 1024;
/** What ends the input of a program on a terminal: Ctrl-D. */
const END_OF_TRANSMISSION = Uint8Array.of(4);

export interface CommandRunOptions extends FollowOptions {
  /** The container. */
  readonly id: string;
  /** One is a script for `/bin/sh`; several are a program and its arguments. */
  readonly command: readonly string[];
  /** It runs on a terminal of this size; without it, its two outputs are apart. */
  readonly size?: TerminalSize | undefined;
  /** The command runs, and input is taken from now on. Told once. */
  readonly onOpen?: () => void;
  /** 1: standard output, 2: standard error. */
  readonly onOutput: (bytes: Uint8Array, stream: 1 | 2) => void;
  /** So many bytes of output are lost. */
  readonly onGap?: (bytes: number) => void;
}

/** A command that was asked for. */
export interface CommandInContainer {
  /**
   * Its exit code; undefined if it was closed. Rejects with TroupeError, `unreachable` if the connection broke for
   * longer than the command is kept, or where it is not.
   */
  readonly done: Promise<number | undefined>;
  /** Bytes of input that the command has not taken, as far as is known. */
  readonly waitingBytes: number;
  write(bytes: Uint8Array): void;
  /** There is no more input. */
  end(): void;
  resize(size: TerminalSize): void;
  /** No output for now, where the transport can hold it up: the command waits. */
  pause(): void;
  resume(): void;
  /** Ends the command. */
  close(): void;
}

export function runCommand(core: ClientCore, options: CommandRunOptions): CommandInContainer {
  return new ReturningCommand(core, options);
}

class ReturningCommand implements CommandInContainer {
  readonly done: Promise<number | undefined>;
  readonly #options: CommandRunOptions;
  readonly #session = crypto.randomUUID();
  readonly #stream: ReturnType<ClientCore['stream']>;
  readonly #input: InputToCommand;
  #size: TerminalSize | undefined;
  #code: number | undefined;
  #lost: TroupeError | undefined;
  /** `asked`: it may run. `kept`: it runs, and can be joined. `plain`: it runs, and ends with its connection. */
  #phase: 'asked' | 'kept' | 'plain' = 'asked';
  /** Bytes of output that came, and that the platform knows of. */
  #cursor = 0;
  #confirmed = 0;
  #wasOpen = false;
  #lostAt: number | undefined;
  readonly #core: ClientCore;
  #silence: ReturnType<typeof setTimeout> | undefined;

  constructor(core: ClientCore, options: CommandRunOptions) {
    this.#core = core;
    this.#options = options;
    this.#size = options.size;
    this.#stream = core.stream({
      bounds: BOUNDS,
      path: () => this.#path(),
      text: (data) => this.#hear(message<ExecSession | ExecInput | ExecExit>(data)),
      binary: (frame) => this.#output(frame),
      onState: (state) => this.#state(state),
    });
    this.#input = new InputToCommand((frame) => this.#stream.send(frame));
    this.done = this.#stream.done.then(({ error }) => {
      clearTimeout(this.#silence);
      this.#input.over();
      if (this.#code === undefined && error?.code === 'not_found' && this.#phase === 'kept')
        throw noResult(error.message);
      const failure = this.#lost ?? error;
      if (failure !== undefined && this.#code === undefined) throw failure;
      return this.#code;
    });
  }

  get waitingBytes(): number {
    return this.#input.waitingBytes + (this.#phase === 'plain' ? this.#stream.waitingBytes : 0);
  }

  write(bytes: Uint8Array): void {
    this.#input.write(bytes);
  }

  end(): void {
    // On a terminal it is typed, and counted.
    if (this.#options.size === undefined) this.#input.end();
    else this.#input.write(END_OF_TRANSMISSION);
  }

  resize(size: TerminalSize): void {
    this.#size = size;
    this.#stream.send(JSON.stringify({ type: 'resize', cols: size.cols, rows: size.rows }));
  }

  pause(): void {
    this.#stream.hold(true);
  }

  resume(): void {
    this.#stream.hold(false);
  }

  close(): void {
    this.#stream.close();
  }

  #path(): string {
    const { id, command } = this.#options;
    const session = this.#session;
    const size = this.#size;
    const terminal = size === undefined ? undefined : { tty: true, cols: size.cols, rows: size.rows };
    const query = this.#phase === 'kept' ? { session, since: this.#cursor } : { command, session, ...terminal };
    return fill(EXEC_PATH, { id }, query);
  }

  #hear(said: ExecSession | ExecInput | ExecExit): void {
    if (said.type === 'session') this.#begun(said);
    else if (said.type === 'input') this.#input.progress(said.received, said.written);
    else {
      this.#code = said.code;
      // The platform may forget it now.
      this.#stream.close();
    }
  }

  #begun(said: ExecSession): void {
    clearTimeout(this.#silence);
    if (this.#phase === 'plain') {
      // A platform that is being renewed gave two answers: which input it counts is not known.
      this.#lost = noResult('the platform was renewed meanwhile');
      this.#stream.close();
      return;
    }
    const isFirst = this.#phase === 'asked';
    this.#lostAt = undefined;
    if (!said.resumable) {
      this.#stream.send('{"type":"start"}');
      this.#plainly();
      return;
    }
    this.#phase = 'kept';
    if (said.gap > 0) this.#options.onGap?.(said.gap);
    this.#cursor = said.cursor;
    this.#confirmed = said.cursor;
    if (!isFirst && this.#size !== undefined) this.resize(this.#size);
    this.#input.joined(said.input.received, said.input.written);
    if (isFirst) this.#options.onOpen?.();
  }

  /** The command may wait for input, and we for a word that a platform of before sessions does not have. */
  async #afterSilence(): Promise<void> {
    const knowsSessions = await this.#core.call('showPlatformApi').then(
      hasSessions,
      (error: unknown) =>
        // One that has no such document is of before. Of others nothing is learned.
        !(error instanceof TroupeError && error.status === 404),
    );
    if (!knowsSessions && this.#phase === 'asked' && this.#lostAt === undefined) this.#plainly();
  }

  /** It runs without being kept. */
  #plainly(): void {
    this.#phase = 'plain';
    this.#input.unbounded();
    this.#options.onOpen?.();
  }

  #output(frame: Uint8Array): void {
    // A platform of before sessions says nothing first.
    if (this.#phase === 'asked') this.#plainly();
    this.#cursor += frame.length - 1;
    this.#options.onOutput(frame.subarray(1), frame[0] === 2 ? 2 : 1);
    if (this.#phase !== 'kept' || this.#cursor - this.#confirmed < CONFIRM_BYTES) return;
    this.#confirmed = this.#cursor;
    this.#stream.send(JSON.stringify({ type: 'ack', cursor: this.#cursor }));
  }

  #state(state: StreamState): void {
    clearTimeout(this.#silence);
    if (state.state === 'open') {
      this.#wasOpen = true;
      if (this.#phase === 'asked') this.#silence = setTimeout(() => void this.#afterSilence(), SILENT_MS);
    }
    if (state.state === 'waiting' && this.#code === undefined) {
      this.#input.away();
      this.#lostAt ??= performance.now();
      // Nothing has begun before the first connection; later it is not known, so that it is asked for under its name.
      const isHope = this.#wasOpen && this.#phase !== 'plain' && performance.now() - this.#lostAt < KEPT_MS;
      if (!isHope) {
        this.#lost = noResult(state.reason || 'the connection broke');
        this.#stream.close();
        return;
      }
    }
    this.#options.onState?.(state);
  }
}

const EXEC_PATH = ENDPOINTS.execContainer.slice('WS '.length);

/** Whether the document of a platform knows commands with a session. */
function hasSessions({ paths }: CallReply<'showPlatformApi'>): boolean {
  const inPaths: unknown = typeof paths === 'object' && paths !== null ? Reflect.get(paths, EXEC_PATH) : undefined;
  return JSON.stringify(inPaths ?? '').includes('"name":"session"');
}

function noResult(why: string): TroupeError {
  return new TroupeError('unreachable', `The command has no result: ${why}.`);
}
