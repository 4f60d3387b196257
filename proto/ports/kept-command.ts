/** Commands that a container keeps: their connection may be lost, left and opened anew, from any process. */
import { CodedError } from '../../lib/errors.ts';

/** How much input there is, in bytes since the command began. */
export interface InputProgress {
  /** What came so far: it need not be sent again. */
  readonly received: number;
  /** What the command took of that. */
  readonly written: number;
}

/** What a frame that waits is charged besides its bytes: many small ones must not take more than large ones. */
export const FRAME_COST_BYTES = 256;

/**
 * Why nothing more comes: the connection is lost, another one has taken the command over, or more was said than the
 * command's keeper reads.
 */
export type KeptCommandEnd = 'lost' | 'taken' | 'full';

/** Who is told what a kept command does. */
export interface KeptCommandListener {
  /** The number of the stream (1 stdout, 2 stderr; 1 of a terminal), and what was printed there. */
  output(frame: Uint8Array): void;
  input(progress: InputProgress): void;
  /** All output was told before. Told once. */
  exit(code: number): void;
  /** Whether much of what was said waits: whoever says more should be held up until that is over. */
  full(isFull: boolean): void;
  over(why: KeptCommandEnd): void;
}

/** A connection to a kept command. Nothing is told before `listen`. */
export interface KeptCommand {
  /** Bytes of output, of both streams together, before what is told: more than the client has if some are lost. */
  readonly cursor: number;
  readonly input: InputProgress;
  listen(listener: KeptCommandListener): void;
  /** So much of the output is with the client. With 1 MiB that is not, the command waits. The newest word counts. */
  acknowledge(cursor: number): void;
  /** At most 1 MiB may be with the holder that the command did not take. */
  write(data: Uint8Array): void;
  endInput(): void;
  resize(cols: number, rows: number): void;
  /** Holds output up. */
  pause(): void;
  resume(): void;
  /** Ends the command (SIGHUP, and SIGKILL after 5 s), and forgets it. Idempotent. */
  cancel(): void;
  /** Ends the connection; the command goes on. Idempotent. */
  leave(): void;
}

/** A command that is to be joined, and begun if there is none. */
export interface KeptCommandRequest {
  /** Letters and digits, at most 64: the same name is the same command, and has one client at a time. */
  readonly name: string;
  /** Bytes of output that the client has. */
  readonly since: number;
  /** How long the command goes on, and its result is kept, while nobody is there. */
  readonly lingerMs: number;
  /** How long it may go on in any case; may be infinite. */
  readonly lifeMs: number;
  /** Without it, only one that there is. */
  readonly start?: {
    readonly words: readonly string[];
    /** Undefined without a terminal. */
    readonly terminal: { readonly cols: number; readonly rows: number } | undefined;
  };
}

export type KeptCommandErrorCode =
  | 'gone' // there is no such command
  | 'unable'; // this container cannot keep a command: nothing was begun

/** Why there is no kept command; `message` is fit for users. */
export class KeptCommandError extends CodedError<KeptCommandErrorCode> {}

/** Opens kept commands. */
export interface KeptCommands {
  /**
   * Rejects with KeptCommandError, and with EngineError as `Engine.run` does. It takes at most 40 s. Once `signal`
   * aborts nothing is begun any more; what may have begun has 3 s to be joined, so that it can be left or ended.
   */
  open(containerId: string, request: KeptCommandRequest, signal: AbortSignal): Promise<KeptCommand>;
}
