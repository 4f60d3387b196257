/**
 * A command in a container over a WebSocket. Bytes go straight between the command's streams and the socket, with
 * backpressure both ways; the actor of the connection hears of the end only.
 */
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { type ExecExit, execControlSchema } from '../../../proto/compute/exec.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { Socket } from '../../../proto/ports/http.ts';
import { FRAME_COST_BYTES } from '../../../proto/ports/kept-command.ts';
import type { RunningCommand, Shell } from '../../../proto/ports/shell.ts';
import { dispatch, type Ref } from '../../../supervision/index.ts';
import type { Connection, ConnectionEnd, ConnectionMessage } from '../../service/connection.ts';
import type { ComputeDeps } from '../deps.ts';

/** Most input kept for a command that does not read, or does not run yet (there, with what its frames cost). */
export const MAX_INPUT_BYTES = 1024 * 1024;
const TERM = 'xterm-256color';
/** What ends the input of a program on a terminal: Ctrl-D. */
const END_OF_TRANSMISSION = Buffer.from([4]);

export const COMMAND_ENDED: ConnectionEnd = { code: 1000, reason: 'command ended' };
const LOST: ConnectionEnd = { code: 1011, reason: 'connection to the container lost' };
export const TOO_MUCH_INPUT: ConnectionEnd = { code: 1013, reason: 'too much input' };
export const NO_CONTROL: ConnectionEnd = {
  code: 1003,
  reason: 'text frames are control messages: send input as binary frames',
};

const typed = z.looseObject({ type: z.string() });

/** What a client asked for. */
export interface ExecRequest {
  readonly containerId: string;
  readonly command: readonly string[];
  /** Undefined without a terminal. */
  readonly terminal: { readonly cols: number; readonly rows: number } | undefined;
}

/** The command that `request` asks for. `attach`: registers the connection with the container's actor. */
export function execConnection(
  deps: Pick<ComputeDeps, 'engine' | 'log'>,
  request: ExecRequest,
  attach: (self: Ref<ConnectionMessage>) => void,
): Connection {
  let exec: Exec | undefined;
  return {
    open(socket, self, { signal }) {
      const begun = new Exec(socket, (end) => {
        if (!signal.aborted) dispatch(self, { type: 'close', ...end });
      });
      exec = begun;
      signal.addEventListener('abort', () => begun.close(), { once: true });
      begin(deps.engine, request, signal).then(
        (command) => begun.run(command),
        (error: unknown) => {
          if (signal.aborted) return;
          deps.log.warn({ containerId: request.containerId, err: error }, 'command could not be started');
          dispatch(self, { type: 'close', ...whyNot(error) });
        },
      );
    },
    isAnswered: true,
    attach,
    binary: (data) => exec?.input(data),
    text: (text) => exec?.control(text),
    drain: () => exec?.drained(),
  };
}

/** A command as a connection sees it, with a terminal or without. */
interface Command {
  readonly streams: Pick<RunningCommand, 'stdin' | 'ended' | 'close'>;
  /** The number of each output is its place here and one. */
  readonly outputs: readonly Readable[];
  resize(cols: number, rows: number): void;
  endInput(): void;
}

/** The program and its arguments: one word is a script. */
export function wordsOf(command: readonly string[]): readonly string[] {
  const [script = ''] = command;
  return command.length === 1 ? ['/bin/sh', '-c', script] : command;
}

/** Whether a text from a client is a control message, be it one that this version knows or not. */
export function isControl(value: unknown): boolean {
  return typed.safeParse(value).success;
}

async function begin(
  engine: ComputeDeps['engine'],
  { containerId, command, terminal }: ExecRequest,
  signal: AbortSignal,
): Promise<Command> {
  const words = wordsOf(command);
  if (terminal !== undefined)
    return onTerminal(await engine.exec(containerId, { ...terminal, term: TERM, command: words }, signal));
  const streams = await engine.run(containerId, words, signal);
  return {
    streams,
    outputs: [streams.stdout, streams.stderr],
    resize: () => {},
    endInput: () => streams.stdin.end(),
  };
}

function onTerminal(shell: Shell): Command {
  return {
    streams: { stdin: shell.stream, ended: shell.ended, close: () => shell.close() },
    outputs: [shell.stream],
    resize: (cols, rows) => shell.resize(cols, rows),
    endInput: () => void shell.stream.write(END_OF_TRANSMISSION),
  };
}

/** One command and its socket. */
class Exec {
  readonly #socket: Socket;
  readonly #onEnd: (end: ConnectionEnd) => void;
  #command: Command | undefined;
  #early: Uint8Array[] = [];
  #earlyBytes = 0;
  #isInputOver = false;
  #size: { readonly cols: number; readonly rows: number } | undefined;
  #isClosed = false;

  constructor(socket: Socket, onEnd: (end: ConnectionEnd) => void) {
    this.#socket = socket;
    this.#onEnd = onEnd;
  }

  run(command: Command): void {
    const { streams, outputs } = command;
    if (this.#isClosed) {
      streams.close();
      return;
    }
    this.#command = command;
    for (const [at, output] of outputs.entries()) {
      // A lost connection has no exit code, which says it.
      output.on('error', () => {});
      output.on('data', (chunk: Buffer) => this.#print(at + 1, chunk));
    }
    streams.stdin.on('drain', () => this.#socket.resume());
    void streams.ended.then(({ code }) => {
      if (code === null) return this.#onEnd(LOST);
      const exit: ExecExit = { type: 'exit', code };
      this.#socket.send(JSON.stringify(exit));
      this.#onEnd(COMMAND_ENDED);
    });
    if (this.#size !== undefined) command.resize(this.#size.cols, this.#size.rows);
    let isReady = true;
    for (const chunk of this.#early) isReady = streams.stdin.write(chunk);
    this.#early = [];
    if (isReady) this.#socket.resume();
    if (this.#isInputOver) command.endInput();
  }

  input(data: Uint8Array): void {
    if (this.#isInputOver || data.byteLength === 0) return;
    const stdin = this.#command?.streams.stdin;
    if (stdin === undefined) {
      this.#earlyBytes += data.byteLength + FRAME_COST_BYTES;
      this.#socket.pause();
      if (this.#earlyBytes > MAX_INPUT_BYTES) this.#socket.close(TOO_MUCH_INPUT.code, TOO_MUCH_INPUT.reason);
      else this.#early.push(data);
      return;
    }
    if (!stdin.writable) return;
    stdin.write(data);
    this.#holdUp(stdin);
  }

  control(text: string): void {
    const value = jsonOf(text);
    if (!isControl(value)) {
      this.#socket.close(NO_CONTROL.code, NO_CONTROL.reason);
      return;
    }
    const { data: control } = execControlSchema.safeParse(value);
    if (control?.type === 'resize') {
      this.#size = control;
      this.#command?.resize(control.cols, control.rows);
    } else if (control?.type === 'eof' && !this.#isInputOver) {
      // A terminal has no end: what is typed after Ctrl-D is read by whoever reads next.
      if (this.#command === undefined || this.#command.outputs.length > 1) this.#isInputOver = true;
      this.#command?.endInput();
      if (this.#command !== undefined) this.#holdUp(this.#command.streams.stdin);
    }
  }

  drained(): void {
    for (const output of this.#command?.outputs ?? []) output.resume();
  }

  close(): void {
    this.#isClosed = true;
    this.#command?.streams.close();
  }

  /** Holds up a client whose input waits. */
  #holdUp({ writableNeedDrain, writableLength }: Command['streams']['stdin']): void {
    if (writableNeedDrain) this.#socket.pause();
    // Not every server can stop reading a WebSocket: past the bound the command ends.
    if (writableLength > MAX_INPUT_BYTES) this.#socket.close(TOO_MUCH_INPUT.code, TOO_MUCH_INPUT.reason);
  }

  #print(stream: number, chunk: Buffer): void {
    const frame = Buffer.allocUnsafe(chunk.length + 1);
    frame[0] = stream;
    frame.set(chunk, 1);
    if (this.#socket.send(frame)) return;
    for (const output of this.#command?.outputs ?? []) output.pause();
  }
}

/** How a connection ends whose command could not be started. */
export function whyNot(error: unknown): ConnectionEnd {
  if (!(error instanceof EngineError)) return { code: 1011, reason: 'the command could not be started' };
  if (error.code === 'unavailable') return { code: 1013, reason: 'engine not available, try again' };
  return { code: 1011, reason: error.message };
}
