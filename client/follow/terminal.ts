/** A terminal in a container, whose shell is joined again after a lost connection. */
import type { ExecExit } from '../../proto/compute/exec.ts';
import { ENDPOINTS } from '../generated/endpoints.ts';
import { fill } from '../path.ts';
import type { Following } from '../socket.ts';
import { type ClientCore, type FollowOptions, message } from './core.ts';
import { aboutToRun } from './logs.ts';

/** A shell waits for 30 s, so its client does not pause for long. */
const BOUNDS = { minMs: 250, maxMs: 3000 };
/** How long a shell waits for its client, ms. */
const KEPT_MS = 30_000;
/** What is typed while there is no connection, bytes. */
const MOST_HELD = 4096;
/** A frame of the server takes 64 KiB. */
const FRAME_BYTES = 32_768;
/** Tells the server to keep the shell: 1000 hangs up. */
const COME_BACK = 4001;

/** Columns and rows. */
export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface TerminalFollowOptions extends FollowOptions {
  /** The container. */
  readonly id: string;
  /** 16 to 64 letters, digits, `_` or `-` at random; a new one unless given. With that of before, its shell returns. */
  readonly session?: string | undefined;
  readonly size?: TerminalSize;
  readonly onOutput: (bytes: Uint8Array) => void;
  /** The shell was joined again, and its last output follows: clear the screen. */
  readonly onReturn?: () => void;
}

/** A terminal. */
export interface Terminal extends Following {
  readonly session: string;
  /** How the shell ended, once it has; undefined where that is not known, as of platforms of before. */
  readonly exitCode: number | undefined;
  /** Types. Without a connection a little is kept until the shell is back. */
  write(data: string | Uint8Array): void;
  resize(size: TerminalSize): void;
  /** Leaves the shell, which waits for 30 s for another client with its session. */
  leave(): void;
  /** Hangs up: the shell ends. */
  close(): void;
}

export function followTerminal(core: ClientCore, options: TerminalFollowOptions): Terminal {
  const { id, session = crypto.randomUUID(), onOutput, onReturn, onState } = options;
  const encoder = new TextEncoder();
  let { size } = options;
  let exitCode: number | undefined;
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let lostAt = performance.now();
  const control = () => {
    if (size !== undefined) stream.send(JSON.stringify({ type: 'resize', cols: size.cols, rows: size.rows }));
  };
  const stream = core.stream({
    bounds: BOUNDS,
    path: () => fill(ENDPOINTS.terminal.slice('WS '.length), { id }, { session, exit: 'true' }),
    opened(again) {
      control();
      if (again) onReturn?.();
      // Of a shell that has given up waiting another has taken the place, which should not run what was meant for it.
      if (!again || performance.now() - lostAt < KEPT_MS) for (const bytes of held) stream.send(bytes);
      held = [];
      heldBytes = 0;
    },
    binary: onOutput,
    text(data) {
      const said = message<ExecExit>(data);
      if (said.type === 'exit') exitCode = said.code;
    },
    check: () => aboutToRun(core, id),
    onState(state) {
      if (state.state === 'waiting' && held.length === 0) lostAt = performance.now();
      onState?.(state);
    },
  });
  return {
    session,
    done: stream.done,
    get exitCode() {
      return exitCode;
    },
    write(data) {
      const bytes = typeof data === 'string' ? encoder.encode(data) : data;
      for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
        const frame = bytes.subarray(at, at + FRAME_BYTES);
        if (stream.isOpen) {
          stream.send(frame);
        } else if (heldBytes + frame.length <= MOST_HELD) {
          held.push(frame.slice());
          heldBytes += frame.length;
        }
      }
    },
    resize(to) {
      size = to;
      control();
    },
    leave: () => stream.close(COME_BACK),
    close: () => stream.close(),
  };
}
