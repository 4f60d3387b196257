/** A command in a container: what runs before it, and its streams over one connection. */
import { Readable, Writable } from 'node:stream';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { RunningCommand, ShellEnd } from '../../../proto/ports/shell.ts';
import { cleanReason } from './calls.ts';

/** How long the first sign of the command may take, in milliseconds. */
const START_MS = 15_000;
/** What a command that cannot be started may say, in bytes. */
const MAX_FAILURE_BYTES = 4096;
const STDOUT = 1;

/** Says the process's number between two control characters, and becomes the command. `before`: run first. */
export function runCommandWords(command: readonly string[], before = ''): string[] {
  return ['/bin/sh', '-c', `${before}printf "\\001%d\\002" "$$"; exec "$@"`, 'sh', ...command];
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

/** What the streams of a command ask of the connection and the process behind them. */
interface CommandConnection {
  pause(): void;
  resume(): void;
  /** Says more of the input. */
  write(chunk: Buffer, taken: () => void): void;
  /** Says that there is no more input. */
  endInput(): void;
  destroy(): void;
  /** The exit code of a command whose output ended; undefined when it still runs, so that the connection was lost. */
  howItEnded(): Promise<number | undefined>;
  /** Ends the process. */
  hangUp(pid: number): Promise<void>;
}

/** The two outputs of a command share a connection: it waits while either is full. */
export class CommandStreams implements RunningCommand {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly ended: Promise<ShellEnd>;
  /** The command's number in the container. Rejects `refused` with what was said in its place, and `unavailable`. */
  readonly pid: Promise<number>;
  readonly #connection: CommandConnection;
  readonly #what: 'command' | 'shell';
  readonly #full = new Set<Readable>();
  #start: { resolve(pid: number): void; reject(error: EngineError): void } | undefined;
  #timer: NodeJS.Timeout;
  #number: number | undefined;
  #head: Buffer = Buffer.alloc(0);
  #said: Buffer = Buffer.alloc(0);
  #isOver = false;
  #code: number | null = null;

  /** `what`: how it is called. */
  constructor(connection: CommandConnection, what: 'command' | 'shell' = 'command') {
    this.#connection = connection;
    this.#what = what;
    this.stdout = this.#output();
    this.stderr = this.#output();
    this.stdin = new Writable({
      write: (chunk: Buffer, _encoding, taken) => {
        // After the end nobody is left to say it to.
        if (this.#isOver) taken();
        else connection.write(chunk, taken);
      },
      final: (done) => {
        if (!this.#isOver) connection.endInput();
        done();
      },
    });
    this.stdin.on('error', () => {});
    this.pid = new Promise((resolve, reject) => {
      this.#start = { resolve, reject };
    });
    this.pid.catch(() => {});
    this.#timer = setTimeout(
      () => this.#failStart(new EngineError('unavailable', `The ${what} did not start in time.`)),
      START_MS,
    );
    const closed = [this.stdout, this.stderr].map((output) => new Promise<void>((done) => output.once('close', done)));
    this.ended = Promise.all(closed).then(() => ({ code: this.#code, signal: null }));
  }

  /** Some of an output came: 1 stdout, 2 stderr. */
  take(stream: 1 | 2, data: Buffer): void {
    if (this.#isOver) return;
    const rest = this.#start === undefined ? data : this.#beginning(stream, data);
    const output = stream === STDOUT ? this.stdout : this.stderr;
    if (rest.length === 0 || output.destroyed || output.push(rest)) return;
    this.#full.add(output);
    this.#connection.pause();
  }

  /** The connection is over. `cause`: why it was lost. */
  over(cause?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#start !== undefined) {
      if (cause !== undefined) {
        this.#failStart(lost(cause));
        return;
      }
      const said = Buffer.concat([this.#head, this.#said]).toString('utf8');
      const reason = cleanReason(said) || 'it ended at once';
      const message = `The container does not start a ${this.#what}: ${reason}`;
      this.#failStart(isNoShell(said) ? noShell(said) : new EngineError('refused', message));
      return;
    }
    this.#connection.howItEnded().then(
      (code) => {
        if (code === undefined) return this.#lost();
        this.#code = code;
        for (const output of [this.stdout, this.stderr]) if (!output.destroyed) output.push(null);
      },
      (cause: unknown) => this.#lost(cause),
    );
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#isOver = true;
    this.#connection.destroy();
    if (this.stdout.destroyed && this.stderr.destroyed) return;
    if (this.#code === null && this.#number !== undefined) this.#connection.hangUp(this.#number).catch(() => {});
    this.stdout.destroy();
    this.stderr.destroy();
  }

  #output(): Readable {
    const output: Readable = new Readable({
      read: () => {
        if (this.#full.delete(output) && this.#full.size === 0) this.#connection.resume();
      },
      destroy: (error, done) => {
        this.#full.delete(output);
        done(error);
      },
    });
    return output.on('error', () => {});
  }

  /** Reads the number of the process; what of `data` comes after it. */
  #beginning(stream: 1 | 2, data: Buffer): Buffer {
    if (stream !== STDOUT) {
      this.#said = Buffer.concat([this.#said, data]).subarray(0, MAX_FAILURE_BYTES);
      return data;
    }
    this.#head = Buffer.concat([this.#head, data]);
    const end = this.#head.indexOf(2);
    const pid = this.#head[0] === 1 && end > 0 ? Number(this.#head.toString('latin1', 1, end)) : Number.NaN;
    if (Number.isInteger(pid)) {
      clearTimeout(this.#timer);
      this.#number = pid;
      this.#start?.resolve(pid);
      this.#start = undefined;
      return this.#head.subarray(end + 1);
    }
    if (this.#head.length > MAX_FAILURE_BYTES) this.over();
    return Buffer.alloc(0);
  }

  #failStart(error: EngineError): void {
    this.#start?.reject(error);
    this.close();
  }

  #lost(cause?: unknown): void {
    const error = lost(cause);
    this.#connection.destroy();
    this.stdout.destroy(error);
    this.stderr.destroy(error);
  }
}

function lost(cause?: unknown): EngineError {
  return new EngineError('unavailable', 'The connection to the container was lost.', { cause });
}

/**
 * The command once it runs, unless `signal` aborts first. One that says its number only then is ended then. Rejects
 * with EngineError.
 */
export function commandThatRuns(opening: Promise<CommandStreams>, signal: AbortSignal): Promise<CommandStreams> {
  return new Promise((resolve, reject) => {
    const givenUp = (): void => {
      reject(new EngineError('unavailable', 'Given up.', { cause: signal.reason }));
      const drop = async (command: CommandStreams) => {
        await command.pid;
        command.close();
      };
      opening.then(drop).catch(() => undefined);
    };
    if (signal.aborted) return givenUp();
    signal.addEventListener('abort', givenUp, { once: true });
    opening
      .then(async (command) => {
        await command.pid;
        resolve(command);
      })
      .catch(reject)
      .finally(() => signal.removeEventListener('abort', givenUp));
  });
}
