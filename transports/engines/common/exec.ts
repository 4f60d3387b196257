/** A shell in a container without an SSH server: what runs before it, how its first bytes are read, its stream. */
import { Duplex } from 'node:stream';
import { EngineError, type ExecOptions } from '../../../proto/ports/engine.ts';
import { cells, type Shell, type ShellEnd } from '../../../proto/ports/shell.ts';
import { cleanReason } from './calls.ts';

/** How long the first sign of the shell may take, in milliseconds. */
const START_MS = 15_000;
/** What a command that cannot be started may say, in bytes. */
const MAX_FAILURE_BYTES = 4096;

/** The login shell of root where it is bash, else `sh`, which every image with a shell has. */
const DEFAULT_COMMAND = ['sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l'];

/**
 * Runs before the command: gives the terminal its size, so that the command never sees another, and says the process's
 * number in the container between two control characters, because Docker has no way to end what it started but a signal
 * from inside.
 */
const PREAMBLE = 'stty cols "$1" rows "$2" 2>/dev/null; shift 2; printf "\\001%d\\002" "$$"; exec "$@"';
const PREAMBLE_START = '\u0001';
const PREAMBLE_END = '\u0002';

/** Ends the session of `pid` from inside: the shell hears a hang-up, as from a terminal that was switched off. */
export function hangUpScript(pid: number): string {
  return (
    `kill -HUP -${pid} ${pid} 2>/dev/null; for i in 1 2 3 4 5; do kill -0 ${pid} 2>/dev/null || exit 0; sleep 1; ` +
    `done; kill -KILL -${pid} ${pid} 2>/dev/null`
  );
}

/** A process that runs: its terminal, and its number in the container. */
interface OpenedExec {
  readonly socket: Duplex;
  readonly pid: number;
}

/** `opening`, unless `signal` aborts first. What comes about all the same has nobody to talk to, and is hung up. */
export function orAborted<E extends OpenedExec>(
  opening: Promise<E>,
  signal: AbortSignal,
  hangUp: (pid: number) => Promise<void>,
): Promise<E> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => {
      reject(new EngineError('unavailable', 'Given up.', { cause: signal.reason }));
      const drop = ({ socket, pid }: E): Promise<void> => {
        socket.on('error', () => undefined).destroy();
        return hangUp(pid);
      };
      opening.then(drop).catch(() => undefined);
    };
    if (signal.aborted) return aborted();
    signal.addEventListener('abort', aborted, { once: true });
    opening.then(resolve, reject).finally(() => signal.removeEventListener('abort', aborted));
  });
}

/** Whether that is what engines say when the image has no shell. */
export function isNoShell(said: string): boolean {
  return /OCI runtime exec failed|executable file not found|no such file or directory/i.test(said);
}

/** The refusal for it; what the engine said is its cause. */
export function noShell(said: string): EngineError {
  const message = 'The image of this container has no shell: a terminal needs /bin/sh, or an SSH server.';
  return new EngineError('refused', message, { cause: new Error(cleanReason(said)) });
}

/** Reads the preamble, leaves the rest. Rejects `refused` with what was said instead, and destroys the socket then. */
export function untilItRuns(socket: Duplex): Promise<number> {
  return new Promise((resolve, reject) => {
    let head: Buffer = Buffer.alloc(0);
    const settle = (): void => {
      clearTimeout(timer);
      socket.off('data', onData).off('end', onEnd).off('error', onError);
      socket.pause();
    };
    const fail = (error: EngineError): void => {
      settle();
      socket.on('error', () => undefined).destroy();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      head = Buffer.concat([head, chunk]);
      const text = head.toString('latin1');
      const end = text.indexOf(PREAMBLE_END);
      const pid = text.startsWith(PREAMBLE_START) && end !== -1 ? Number(text.slice(1, end)) : Number.NaN;
      if (Number.isInteger(pid)) {
        settle();
        if (head.length > end + 1) socket.unshift(head.subarray(end + 1));
        resolve(pid);
      } else if (head.length > MAX_FAILURE_BYTES) onEnd();
    };
    const onEnd = (): void => {
      const said = head.toString('utf8');
      const reason = cleanReason(said) || 'it ended at once';
      fail(
        isNoShell(said) ? noShell(said) : new EngineError('refused', `The container does not start a shell: ${reason}`),
      );
    };
    const onError = (cause: Error): void => {
      fail(new EngineError('unavailable', 'The connection to the container was lost.', { cause }));
    };
    const timer = setTimeout(() => fail(new EngineError('unavailable', 'The shell did not start in time.')), START_MS);
    socket.on('data', onData).on('end', onEnd).on('error', onError);
  });
}

/** The words that run a shell, or what was asked for, on a terminal. `before`: run first, with `words` as its own. */
export function shellCommand(
  { command, cols, rows }: ExecOptions,
  before = '',
  words: readonly string[] = [],
): string[] {
  const size = [String(cells(cols)), String(cells(rows))];
  return ['/bin/sh', '-c', before + PREAMBLE, 'sh', ...words, ...size, ...(command ?? DEFAULT_COMMAND)];
}

/** The shell of a process that runs; takes its paused socket over. `resize` tells the engine a size. */
export function shellOn(
  socket: Duplex,
  process: ExecProcess,
  resize: (cols: number, rows: number) => void,
  { cols, rows }: ExecOptions,
): Shell {
  const resizeTo = (cols: number, rows: number): void => resize(cells(cols), cells(rows));
  // Again, for images without stty.
  resizeTo(cols, rows);
  const stream = new ExecStream(socket, process);
  return { stream, resize: resizeTo, close: () => void stream.destroy(), ended: stream.ended };
}

/**
 * Sends sizes of a terminal one after the other: requests that are under way together may be served in any order, and
 * the last size must stand. Of those that come meanwhile only the last is sent. `send` may reject: a process that ended
 * in between has no size.
 */
export function lastSizeStands(
  send: (cols: number, rows: number) => Promise<unknown>,
): (cols: number, rows: number) => void {
  let wanted: readonly [cols: number, rows: number] | undefined;
  let isSending = false;
  const sendAll = async () => {
    isSending = true;
    while (wanted !== undefined) {
      const [cols, rows] = wanted;
      wanted = undefined;
      await send(cols, rows).catch(() => undefined);
    }
    isSending = false;
  };
  return (cols, rows) => {
    wanted = [cols, rows];
    if (!isSending) void sendAll();
  };
}

/** What a stream asks of the process behind it. */
interface ExecProcess {
  /** The exit code of a process whose output ended; undefined when it still runs, so that the connection was lost. */
  howItEnded(): Promise<number | undefined>;
  /** Ends the process. */
  hangUp(): Promise<void>;
}

/**
 * The terminal of a process over a hijacked connection, as a Shell's stream (proto/ports/shell.ts). What waits is
 * bounded by the socket's own buffers both ways. Takes the socket over; it must have been paused.
 */
class ExecStream extends Duplex {
  readonly ended: Promise<ShellEnd>;
  readonly #socket: Duplex;
  readonly #process: ExecProcess;
  #resolveEnded: (end: ShellEnd) => void = () => {};
  #over = false;
  #code: number | null = null;

  constructor(socket: Duplex, process: ExecProcess) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#process = process;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    socket.on('data', (chunk: Buffer) => {
      if (!this.destroyed && !this.push(chunk)) socket.pause();
    });
    // A lost connection ends the socket with an error, or without a word: the engine knows which it was.
    socket.on('error', () => {});
    socket.once('end', () => this.#outputEnded());
    socket.once('close', () => this.#outputEnded());
  }

  #outputEnded(): void {
    if (this.#over || this.destroyed) return;
    this.#over = true;
    this.#process.howItEnded().then(
      (code) => {
        if (this.destroyed) return;
        if (code === undefined) return this.#lost();
        this.#code = code;
        this.push(null);
      },
      (cause: unknown) => this.#lost(cause),
    );
  }

  #lost(cause?: unknown): void {
    this.destroy(new EngineError('unavailable', 'The connection to the container was lost.', { cause }));
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, taken: () => void): void {
    // After the end nobody is left to type to.
    if (this.#over || !this.#socket.writable) taken();
    else this.#socket.write(chunk, () => taken());
  }

  override _final(done: () => void): void {
    // Whoever types no more has not hung up: a terminal has no half-closed state.
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    // When the container or the engine is gone, so is the process.
    if (this.#code === null) this.#process.hangUp().catch(() => {});
    this.#resolveEnded({ code: this.#code, signal: null });
    done(error);
  }
}
