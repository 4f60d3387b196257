import { Duplex } from 'node:stream';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { ShellEnd } from '../../../proto/ports/shell.ts';

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
export class ExecStream extends Duplex {
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
