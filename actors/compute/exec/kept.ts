/**
 * A command with a session over a WebSocket: its container keeps it (proto/ports/kept-command.ts), so it outlives this
 * connection, this process and this node, and any of them may join it again. Nothing of it is kept here.
 *
 *   opening --held--> joined --exit code told, client closes with 1000--> forgotten
 *      |                 +--connection lost--> (in the container only) --10 min--> ended, forgotten
 *      +--the container cannot keep it--> asked --start--> a command without a session (exec.ts)
 */
import { jsonOf } from '../../../lib/input.ts';
import { type ExecExit, type ExecInput, type ExecSession, execControlSchema } from '../../../proto/compute/exec.ts';
import { type Caller, remainingMs } from '../../../proto/endpoint.ts';
import type { Socket } from '../../../proto/ports/http.ts';
import {
  FRAME_COST_BYTES,
  type InputProgress,
  type KeptCommand,
  KeptCommandError,
} from '../../../proto/ports/kept-command.ts';
import { dispatch, type Ref } from '../../../supervision/index.ts';
import type { Connection, ConnectionEnd, ConnectionMessage } from '../../service/connection.ts';
import type { ComputeDeps } from '../deps.ts';
import type { AbsentCommand, AbsentCommands } from './absent.ts';
import {
  COMMAND_ENDED,
  type ExecRequest,
  execConnection,
  isControl,
  MAX_INPUT_BYTES,
  NO_CONTROL,
  TOO_MUCH_INPUT,
  whyNot,
  wordsOf,
} from './exec.ts';
import { keptName } from './exec-handler.ts';

/** How long a command goes on, and its result is kept, without a client, unless told otherwise. */
const LINGER_MS = 600_000;
/** How long a client may take to close once it has the exit code. */
const GOODBYE_MS = 10_000;

const TAKEN_OVER: ConnectionEnd = { code: 4000, reason: 'session taken over' };
const LOST: ConnectionEnd = { code: 1012, reason: 'connection to the container lost' };
const GONE: ConnectionEnd = { code: 4404, reason: 'there is no such command any more' };
const NO_START: ConnectionEnd = { code: 1003, reason: 'start is the answer to "resumable":false, and to nothing else' };
/** Codes by which a connection ends for good: the command ends with it, and is forgotten. As for terminals. */
const FINAL_CODES: ReadonlySet<number> = new Set([1000, 1003, 1005, 1008, 1011]);

/** What a client asked for. */
interface KeptExecRequest extends ExecRequest {
  readonly caller: Caller;
  readonly session: string;
  /** Bytes of output that the client has; undefined when the command is to be begun, if it has not. */
  readonly since: number | undefined;
}

type KeptExecDeps = Pick<ComputeDeps, 'engine' | 'commands' | 'log' | 'clock' | 'commandLingerMs'> & {
  readonly absent: Pick<AbsentCommands, 'left' | 'joined'>;
};

/** The command that `request` names. `attach`: registers the connection with the container's actor. */
export function keptExecConnection(
  deps: KeptExecDeps,
  request: KeptExecRequest,
  attach: (self: Ref<ConnectionMessage>) => void,
): Connection {
  const exec = new KeptExec(deps, request);
  return {
    open: (socket, self, life) => exec.open(socket, self, life),
    isAnswered: true,
    attach,
    binary: (data) => exec.input(data),
    text: (text) => exec.control(text),
    drain: () => exec.drained(),
    closed: (code) => exec.closed(code),
    ended: () => exec.ended(),
  };
}

/** One connection to a command with a session. */
class KeptExec {
  readonly #deps: KeptExecDeps;
  readonly #request: KeptExecRequest;
  readonly #kept: AbsentCommand;
  #socket: Socket | undefined;
  #runPlainly: (() => Connection) | undefined;
  /** The client was told that the command cannot be kept, and may run it all the same. */
  #isOffered = false;
  #end: (end: ConnectionEnd) => void = () => {};
  #command: KeptCommand | undefined;
  /** In place of a command that cannot be kept, once the client wants it. */
  #plain: Connection | undefined;
  /** What was typed before there was a command, and what it takes. */
  #early: Uint8Array[] = [];
  #earlyCost = 0;
  #isInputOver = false;
  #size: { readonly cols: number; readonly rows: number } | undefined;
  /** Much of what was said waits for the command's holder. */
  #isFull = false;
  /** Bytes of input since the command began: passed on, and taken by the command. */
  #passed = 0;
  #written = 0;
  #goodbye: NodeJS.Timeout | undefined;
  #isDone = false;
  #closedWith: number | undefined;

  constructor(deps: KeptExecDeps, request: KeptExecRequest) {
    this.#deps = deps;
    this.#request = request;
    const { containerId, caller } = request;
    this.#kept = { containerId, caller, name: keptName(request), lingerMs: deps.commandLingerMs ?? LINGER_MS };
  }

  open(socket: Socket, self: Ref<ConnectionMessage>, life: { readonly signal: AbortSignal }): void {
    const { commands, clock, log } = this.#deps;
    const { containerId, caller, terminal, since } = this.#request;
    const { name, lingerMs } = this.#kept;
    this.#socket = socket;
    this.#end = (end) => {
      if (this.#closedWith !== undefined) return;
      // Whatever a client sends until it is closed, it is closed once.
      this.#end = () => {};
      dispatch(self, { type: 'close', ...end });
    };
    this.#runPlainly = () => {
      const plain = execConnection(this.#deps, this.#request, () => {});
      plain.open(socket, self, life);
      return plain;
    };
    const lifeMs = remainingMs(caller, clock.now());
    const start = since === undefined ? { start: { words: wordsOf(this.#request.command), terminal } } : {};
    commands.open(containerId, { name, since: since ?? 0, lingerMs, lifeMs, ...start }, life.signal).then(
      (command) => this.#joined(command),
      (error: unknown) => {
        if (this.#closedWith !== undefined) return;
        if (error instanceof KeptCommandError) {
          this.#refused(error);
          return;
        }
        log.warn({ containerId, err: error }, 'command could not be started');
        this.#end(whyNot(error));
      },
    );
  }

  input(data: Uint8Array): void {
    if (this.#plain !== undefined) {
      this.#plain.binary?.(data);
      return;
    }
    // Where nothing has begun, nothing is kept for it.
    if (data.byteLength === 0 || this.#isOffered) return;
    if (this.#command === undefined) {
      this.#earlyCost += data.byteLength + FRAME_COST_BYTES;
      this.#socket?.pause();
      if (this.#earlyCost > MAX_INPUT_BYTES) this.#end(TOO_MUCH_INPUT);
      else this.#early.push(data);
      return;
    }
    this.#passed += data.byteLength;
    // A client that waits for its input to be taken stays far below; this one may come back and do so.
    if (this.#passed - this.#written > MAX_INPUT_BYTES) this.#end(TOO_MUCH_INPUT);
    else this.#command.write(data);
  }

  control(text: string): void {
    const command = this.#command;
    const value = jsonOf(text);
    if (this.#plain !== undefined) this.#plain.text?.(text);
    else if (!isControl(value)) this.#end(NO_CONTROL);
    else {
      const { data: control } = execControlSchema.safeParse(value);
      if (control?.type === 'start') this.#start();
      else if (control?.type === 'ack') command?.acknowledge(control.cursor);
      else if (control?.type === 'eof') {
        this.#isInputOver = true;
        command?.endInput();
      } else if (control?.type === 'resize') {
        this.#size = control;
        command?.resize(control.cols, control.rows);
      }
    }
  }

  drained(): void {
    this.#plain?.drain?.();
    this.#command?.resume();
  }

  /** The socket is gone, whoever closed it. */
  closed(code: number): void {
    // An exit code that was not answered may not have arrived: it is kept for whoever comes back.
    const isOurs = this.#isDone && this.#closedWith === 1000;
    this.#closedWith = isOurs ? 1001 : code;
    this.#part();
  }

  ended(): void {
    clearTimeout(this.#goodbye);
    this.#closedWith ??= 1001;
    this.#part();
    this.#plain?.ended?.();
  }

  #joined(command: KeptCommand): void {
    this.#command = command;
    if (this.#closedWith !== undefined) {
      this.#part();
      return;
    }
    this.#deps.absent.joined(this.#kept);
    const { session, since = 0 } = this.#request;
    const { cursor, input } = command;
    this.#say({ type: 'session', session, resumable: true, cursor, gap: Math.max(0, cursor - since), input });
    this.#passed = input.received;
    this.#took(input.written);
    command.listen({
      output: (frame) => {
        if (this.#socket?.send(frame) === false) command.pause();
      },
      input: ({ received, written }: InputProgress) => {
        this.#took(written);
        if (!this.#say({ type: 'input', received, written })) command.pause();
      },
      exit: (code) => {
        this.#isDone = true;
        this.#say({ type: 'exit', code });
        this.#goodbye = setTimeout(() => this.#leaveDone(), GOODBYE_MS);
      },
      full: (isFull) => {
        this.#isFull = isFull;
        if (isFull) this.#socket?.pause();
        else this.#socket?.resume();
      },
      over: (why) => {
        if (why === 'taken') this.#end(TAKEN_OVER);
        else if (why === 'full') this.#end(TOO_MUCH_INPUT);
        else if (this.#isDone) this.#leaveDone();
        else this.#end(LOST);
      },
    });
    if (this.#size !== undefined) command.resize(this.#size.cols, this.#size.rows);
    const early = this.#early;
    this.#forgetEarly();
    for (const data of early) this.input(data);
    if (this.#isInputOver) command.endInput();
    if (!this.#isFull) this.#socket?.resume();
  }

  /** Of what was passed on, the command took so much: it may not have taken more. */
  #took(written: number): void {
    this.#written = Math.min(written, this.#passed);
  }

  #forgetEarly(): void {
    this.#early = [];
    this.#earlyCost = 0;
  }

  /** The command has ended, and nobody said that this is known. */
  #leaveDone(): void {
    this.#end(COMMAND_ENDED);
    this.#closedWith = 1000;
  }

  #refused(error: KeptCommandError): void {
    const { session, since } = this.#request;
    this.#forgetEarly();
    if (since !== undefined || error.code === 'gone') {
      this.#end(GONE);
      return;
    }
    this.#isOffered = true;
    this.#say({ type: 'session', session, resumable: false, reason: error.message });
    this.#socket?.resume();
  }

  /**
   * Runs the command as one without a session, which cannot be lost and run again: the client knows which it is. Only
   * where that was offered: there its entry is in the audit trail, and nothing of it runs.
   */
  #start(): void {
    if (this.#isOffered && this.#runPlainly !== undefined) this.#plain = this.#runPlainly();
    else this.#end(NO_START);
  }

  #part(): void {
    const code = this.#closedWith;
    if (code === undefined) return;
    const command = this.#command;
    this.#command = undefined;
    if (command === undefined) return;
    if (FINAL_CODES.has(code)) command.cancel();
    else {
      command.leave();
      if (code !== TAKEN_OVER.code) this.#deps.absent.left(this.#kept);
    }
  }

  /** False when bytes wait for a client that reads slowly. */
  #say(message: ExecSession | ExecInput | ExecExit): boolean {
    return this.#socket?.send(JSON.stringify(message)) ?? true;
  }
}
