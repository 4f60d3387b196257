/** Shells in containers, and who opens them. */
import { constants } from 'node:os';
import type { Duplex, Readable, Writable } from 'node:stream';

/** How a shell ended. Both are null when it was closed from this side, or its connection was lost. */
export interface ShellEnd {
  /** Exit status of the shell; null when a signal ended it. */
  readonly code: number | null;
  /** `SIGHUP` and the like; null when it exited. */
  readonly signal: string | null;
}

const SIGNALS: ReadonlyMap<string, number> = new Map(Object.entries(constants.signals));

/** The exit code as a shell has it: 128 and the number of a signal. Undefined when it is not known. */
export function exitCodeOf({ code, signal }: ShellEnd): number | undefined {
  if (code !== null) return code;
  // SSH names signals without `SIG`.
  const number = signal === null ? undefined : (SIGNALS.get(signal) ?? SIGNALS.get(`SIG${signal}`));
  return number === undefined ? undefined : 128 + number;
}

/** A running shell in a container: bytes in and out, a window size, and an end with a reason. */
export interface Shell {
  /**
   * What the shell prints, and what is typed into it. Ends when the shell does; is destroyed with an EngineError
   * `unavailable` when the connection is lost. Reading slowly slows the shell down.
   */
  readonly stream: Duplex;
  /** Whole numbers 1..1000; others are brought into that range. */
  resize(cols: number, rows: number): void;
  /** Hangs up: the shell gets SIGHUP and the connection ends. Idempotent. */
  close(): void;
  /** Resolves, and never rejects, when the shell is over and its output was read, or when it was closed. */
  readonly ended: Promise<ShellEnd>;
  /** For a shell that is kept in its container and outlives its connection. */
  readonly kept?: KeptShell;
}

/** A command that runs in a container without a terminal. */
export interface RunningCommand {
  /** Its end is the end of the command's input. What comes after the command ended is dropped. */
  readonly stdin: Writable;
  /**
   * Both end when the command does, and are destroyed with an EngineError `unavailable` when the connection is lost.
   * Both are to be read: when either is not, the other waits, too, and then the command.
   */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Ends the command: SIGHUP, and SIGKILL after 5 s. Idempotent. */
  close(): void;
  /** Resolves, and never rejects, when the command is over and its output was read, or when it was closed or lost. */
  readonly ended: Promise<ShellEnd>;
}

/** How a shell is kept: the connection may be lost, left and opened anew, from any process. */
export interface ShellKeeping {
  /** Letters and digits, at most 64. Whoever opens the same name in a container is in the same shell, alone. */
  readonly name: string;
  /** How long it waits when nobody looks. */
  readonly lingerMs: number;
  /** How long it may live, whether or not somebody looks; may be infinite. */
  readonly lifeMs: number;
}

/**
 * The other half of a shell that is kept. Somebody looks when it is opened: what was printed last comes first, 64 KiB
 * or all that was not said to be seen, if that is more. The shell pauses when 256 KiB were not, and when 32 KiB were
 * printed while nobody looks.
 */
export interface KeptShell {
  /**
   * Somebody else looks: what was printed last comes again. What the stream holds unread is emitted during the call,
   * and is to be dropped: it will come again.
   */
  look(times: Pick<ShellKeeping, 'lingerMs' | 'lifeMs'>): void;
  /** Nobody looks any more: nothing comes until somebody does. */
  wait(): void;
  /** So many bytes more of what came are with whoever looks. */
  seen(bytes: number): void;
  /** Ends the connection and lets the shell wait. Idempotent. */
  leave(): void;
  /** Whether its stream closed because another connection took it over. */
  readonly isTaken: boolean;
}

/** Opens shells in containers: through their SSH with the platform's key, or through the engine. */
export interface Shells {
  /**
   * Rejects with EngineError: `no_listener` without an SSH server, `not_running`, `refused` when the key is not
   * accepted. With `keeping` the shell is kept where the container can; it is a plain one where it cannot.
   */
  open(
    containerId: string,
    size: { cols: number; rows: number; term: string },
    signal: AbortSignal,
    keeping?: ShellKeeping,
  ): Promise<Shell>;
}

/** Names of terminal types (terminfo(5)). */
const TERMINAL_TYPE = /^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$/;
/** Largest terminal, each way. */
const MAX_CELLS = 1000;

/** The type of a terminal, or a usual one in place of what is no name of one. */
export function terminalType(term: string): string {
  return TERMINAL_TYPE.test(term) ? term : 'xterm-256color';
}

/** Columns or rows, brought into the range that a terminal can have. */
export function cells(count: number): number {
  return Number.isNaN(count) ? 1 : Math.min(MAX_CELLS, Math.max(1, Math.trunc(count)));
}
