/** A shell in a container without an SSH server: what runs before it, and its stream. */
import { Duplex } from 'node:stream';
import type { ExecOptions } from '../../../proto/ports/engine.ts';
import { cells, type Shell, type ShellEnd } from '../../../proto/ports/shell.ts';
import type { CommandStreams } from './run.ts';

/** The login shell of root where it is bash, else `sh`, which every image with a shell has. */
const DEFAULT_COMMAND = ['sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l'];

/**
 * Runs before the command: gives the terminal its size, so that the command never sees another, and says the process's
 * number in the container between two control characters, because Docker has no way to end what it started but a signal
 * from inside.
 */
const PREAMBLE = 'stty cols "$1" rows "$2" 2>/dev/null; shift 2; printf "\\001%d\\002" "$$"; exec "$@"';

/** Ends the session of `pid` from inside: the shell hears a hang-up, as from a terminal that was switched off. */
export function hangUpScript(pid: number): string {
  return (
    `kill -HUP -${pid} ${pid} 2>/dev/null; for i in 1 2 3 4 5; do kill -0 ${pid} 2>/dev/null || exit 0; sleep 1; ` +
    `done; kill -KILL -${pid} ${pid} 2>/dev/null`
  );
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

/**
 * The shell of a command that runs on a terminal. `resize` tells the engine a size; `hangUp` ends the process, which
 * may go on when the connection to it was lost.
 */
export function shellOn(
  command: CommandStreams,
  hangUp: () => Promise<void>,
  resize: (cols: number, rows: number) => void,
  { cols, rows }: ExecOptions,
): Shell {
  const resizeTo = (cols: number, rows: number): void => resize(cells(cols), cells(rows));
  // Again, for images without stty.
  resizeTo(cols, rows);
  const stream = new TerminalStream(command, hangUp);
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

/** The output and the input of a command on a terminal, as a Shell's stream (proto/ports/shell.ts). */
class TerminalStream extends Duplex {
  readonly ended: Promise<ShellEnd>;
  readonly #command: CommandStreams;

  constructor(command: CommandStreams, hangUp: () => Promise<void>) {
    super({ allowHalfOpen: false });
    this.#command = command;
    this.ended = new Promise<void>((resolve) => this.once('close', resolve)).then(() => command.ended);
    // A terminal has one output.
    command.stderr.resume();
    command.stdout
      .on('data', (chunk: Buffer) => {
        if (!this.push(chunk)) command.stdout.pause();
      })
      .on('end', () => this.push(null))
      .on('error', (error) => {
        // When the container or the engine is gone, so is the process.
        hangUp().catch(() => {});
        this.destroy(error);
      });
  }

  override _read(): void {
    this.#command.stdout.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, taken: () => void): void {
    this.#command.stdin.write(chunk, () => taken());
  }

  override _final(done: () => void): void {
    // Whoever types no more has not hung up: a terminal has no half-closed state.
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#command.close();
    done(error);
  }
}
