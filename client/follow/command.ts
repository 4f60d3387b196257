/** A command in a container, over one connection: another attempt would run it again. */
import { TroupeError } from '../errors.ts';
import { ENDPOINTS } from '../generated/endpoints.ts';
import { fill } from '../path.ts';
import { type ClientCore, message } from './core.ts';
import type { TerminalSize } from './terminal.ts';

/** A frame of the server takes 64 KiB. */
const FRAME_BYTES = 32_768;

export interface CommandRunOptions {
  /** The container. */
  readonly id: string;
  /** One is a script for `/bin/sh`; several are a program and its arguments. */
  readonly command: readonly string[];
  /** It runs on a terminal of this size; without it, its two outputs are apart. */
  readonly size?: TerminalSize | undefined;
  /** Input is taken from now on. */
  readonly onOpen?: () => void;
  /** 1: standard output, 2: standard error. */
  readonly onOutput: (bytes: Uint8Array, stream: 1 | 2) => void;
}

/** A command that was asked for. */
export interface CommandInContainer {
  /** Its exit code; undefined if it was closed. Rejects with TroupeError, `unreachable` if the connection broke. */
  readonly done: Promise<number | undefined>;
  /** Bytes of input that wait to be sent. */
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
  const { id, command, size, onOpen, onOutput } = options;
  let code: number | undefined;
  let lost: TroupeError | undefined;
  const terminal = size === undefined ? undefined : { tty: true, cols: size.cols, rows: size.rows };
  const stream = core.stream({
    path: () => fill(ENDPOINTS.execContainer.slice('WS '.length), { id }, { command, ...terminal }),
    opened: () => onOpen?.(),
    text(data) {
      code = message<{ readonly code: number }>(data).code;
    },
    binary: (frame) => onOutput(frame.subarray(1), frame[0] === 2 ? 2 : 1),
    onState(state) {
      if (state.state !== 'waiting' || code !== undefined) return;
      lost = new TroupeError('unreachable', `The command has no result: ${state.reason || 'the connection broke'}.`);
      stream.close();
    },
  });
  return {
    done: stream.done.then(({ error }) => {
      const failure = lost ?? error;
      if (failure !== undefined && code === undefined) throw failure;
      return code;
    }),
    get waitingBytes() {
      return stream.waitingBytes;
    },
    write(bytes) {
      for (let at = 0; at < bytes.length; at += FRAME_BYTES) stream.send(bytes.subarray(at, at + FRAME_BYTES));
    },
    end: () => stream.send(JSON.stringify({ type: 'eof' })),
    resize: ({ cols, rows }) => stream.send(JSON.stringify({ type: 'resize', cols, rows })),
    pause: () => stream.hold(true),
    resume: () => stream.hold(false),
    close: () => stream.close(),
  };
}
