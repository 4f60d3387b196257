/**
 * The actor of one shell. Bytes go straight between the shell's SSH stream and the WebSocket of whoever looks at it,
 * with backpressure both ways; the actor hears of beginnings and ends.
 *
 * A shell that its container keeps (KeptShell of proto/ports/shell.ts) outlives this process: what was printed last is
 * there. Where the container cannot, the actor keeps that itself, and the shell ends with it.
 *
 *   opening --shell--> attached <--join / lost connection--> detached --30 s, token's end--> over
 *      any -- the shell, its connection or the container ends, the client says goodbye --> over
 */
import { withoutQueries } from '../../../lib/terminal-queries.ts';
import type { ExecExit } from '../../../proto/compute/exec.ts';
import { type Caller, remainingMs } from '../../../proto/endpoint.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { Socket } from '../../../proto/ports/http.ts';
import { exitCodeOf, type Shell, type ShellEnd } from '../../../proto/ports/shell.ts';
import { type AnyRef, type Context, dispatch, type Ref, spawn, stop } from '../../../supervision/index.ts';
import type { ConnectionEnd, ConnectionMessage } from '../../service/connection.ts';
import {
  NEVER,
  nextAttach,
  soonAttach,
  startTimers,
  stopTimers,
  type TimedConnection,
} from '../../service/connection-timers.ts';
import type { ComputeDeps } from '../deps.ts';
import { TerminalReplay } from './replay.ts';

/** The size a PTY begins with. */
const PTY = { term: 'xterm-256color', rows: 24, cols: 80 } as const;
/** Most input kept for a shell that does not read, or is not open yet. */
const MAX_INPUT_BYTES = 1024 * 1024;
/** How long a shell lives without a client, unless told otherwise. */
const LINGER_MS = 30_000;
/** Output shown again to a client that comes back. */
const REPLAY_BYTES = 64 * 1024;
/** What a shell may print without a client until it has to wait for one, so that nothing printed meanwhile is lost. */
const UNSEEN_BYTES = REPLAY_BYTES / 2;
/** Output is gathered within a turn of the event loop, up to this, and sent as one frame. */
const FRAME_BYTES = 64 * 1024;

const ATTACH = { type: 'attach' } as const;
/** Another connection came with the same session id. */
const TAKEN_OVER: ConnectionEnd = { code: 4000, reason: 'session taken over' };
const ENDED: ConnectionEnd = { code: 1000, reason: 'session ended' };
const CONTAINER_LOST: ConnectionEnd = { code: 1012, reason: 'connection to the container lost' };
/** Codes by which a connection ends on purpose: nobody will come back to the shell, or may. */
const FINAL_CODES: ReadonlySet<number> = new Set([1000, 1003, 1005, 1008, 1011]);

/** The connection that looks at a shell. */
export interface Viewer {
  readonly socket: Socket;
  readonly connection: Ref<ConnectionMessage>;
  readonly caller: Caller;
  /** It is told how the shell ended. */
  readonly tellsExit: boolean;
}

type SessionMessage =
  | ConnectionMessage
  | { readonly type: 'failed'; readonly error: unknown }
  | { readonly type: 'abandoned' };

/** What a session needs from its surroundings. */
interface SessionOptions {
  readonly containerId: string;
  /** Its container keeps the shell under this name; without one it waits for no client that lost its connection. */
  readonly keptAs: string | undefined;
  /** Registers the actor with the container's. */
  readonly attach: (self: Ref<ConnectionMessage>) => void;
  /** Follows the token of a client that is away. */
  readonly watchToken: (caller: Caller, onEnd: (reason: string) => void) => () => void;
  readonly onOver: () => void;
}

/** One shell. Connections call it directly, in the turn in which something happens. */
export class TerminalSession implements TimedConnection {
  place = -1;
  readonly endsAt = NEVER;
  attachAt = NEVER;
  readonly #deps: ComputeDeps;
  readonly #options: SessionOptions;
  readonly #replay: TerminalReplay | undefined;
  #ctx: Context<SessionMessage> | undefined;
  #self: Ref<SessionMessage> | undefined;
  #viewer: Viewer | undefined;
  #shell: Shell | undefined;
  #size: { cols: number; rows: number } | undefined;
  #early: Uint8Array[] = [];
  #earlyBytes = 0;
  #output: Buffer[] = [];
  #outputBytes = 0;
  #unseen = 0;
  /** Bytes that wait in the client's socket: those of a kept shell count as seen when it has drained. */
  #sent = 0;
  #isOver = false;
  /** The connection to the shell was lost since a client came last, and made anew. */
  #isRegained = false;
  /** What comes now was for the client before. */
  #isBetween = false;
  /** When its client left; undefined while it has one. */
  leftAt: number | undefined;
  /** Ends what was begun when the client left. */
  #cancelWait: (() => void) | undefined;

  constructor(deps: ComputeDeps, options: SessionOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#replay = options.keptAs === undefined ? undefined : new TerminalReplay(REPLAY_BYTES);
  }

  /** Spawns the actor, for its first client. Throws ActorError when the parent takes no more children. */
  start(parent: AnyRef, viewer: Viewer): void {
    this.#viewer = viewer;
    this.#self = spawn<undefined, SessionMessage>(parent, (_state, message) => this.#handle(message), {
      kind: 'compute/terminal-session',
      initialStateFunc: (ctx) => {
        this.#ctx = ctx;
        startTimers(this);
        this.#attachTo(ctx.self);
        this.#open(ctx);
        return undefined;
      },
      // Only news if the actor failed, or the service stops.
      afterStop: () => this.#over({ code: 1012, reason: 'terminal restarts' }, true),
    });
  }

  /** A client is there: it sees what was printed last, and then all that comes. The client before it is closed. */
  join(viewer: Viewer): void {
    const before = this.#viewer;
    this.#settle();
    this.#viewer = viewer;
    this.#isRegained = false;
    this.#cancelWait?.();
    this.#cancelWait = undefined;
    this.leftAt = undefined;
    if (before !== undefined) dispatch(before.connection, { type: 'close', ...TAKEN_OVER });
    this.#sent = 0;
    const kept = this.#shell?.kept;
    if (kept !== undefined) {
      this.#isBetween = true;
      kept.look(this.#times(viewer));
      this.#isBetween = false;
      this.#shell?.stream.resume();
      return;
    }
    const shown = this.#shownAgain();
    if (shown.length === 0 || viewer.socket.send(shown)) this.#shell?.stream.resume();
    else this.#shell?.stream.pause();
  }

  /** What was printed last. What no client was shown has its questions yet. */
  #shownAgain(): Buffer {
    const replay = this.#replay?.contents() ?? Buffer.alloc(0);
    const at = Math.max(0, replay.length - this.#unseen);
    this.#unseen = 0;
    return Buffer.concat([withoutQueries(replay.subarray(0, at)), replay.subarray(at)]);
  }

  /** A client is gone. */
  leave(viewer: Viewer, code: number): void {
    if (viewer !== this.#viewer) return;
    this.#settle();
    this.#viewer = undefined;
    const { caller } = viewer;
    const now = this.#deps.clock.now();
    const { lingerMs, lifeMs } = this.#times(viewer);
    const left = Math.min(lingerMs, lifeMs);
    if (this.#options.keptAs === undefined || FINAL_CODES.has(code) || left <= 0) {
      this.end();
      return;
    }
    this.leftAt = now;
    this.#unseen = 0;
    const cancelTimer = this.#ctx?.after(left, { type: 'abandoned' });
    const unwatch = this.#options.watchToken(caller, (reason) => {
      if (this.#self !== undefined) dispatch(this.#self, { type: 'close', code: 1008, reason });
    });
    this.#cancelWait = () => {
      cancelTimer?.();
      unwatch();
    };
    this.#shell?.kept?.wait();
    this.#shell?.stream.resume();
  }

  input(viewer: Viewer, data: Uint8Array): void {
    if (viewer !== this.#viewer) return;
    const stream = this.#shell?.stream;
    if (stream === undefined) {
      this.#earlyBytes += data.byteLength;
      if (this.#earlyBytes > MAX_INPUT_BYTES) viewer.socket.close(1013, 'too much input');
      else this.#early.push(data);
      return;
    }
    if (!stream.writable) return;
    if (!stream.write(data)) viewer.socket.pause();
    // Not every server can stop reading a WebSocket: past the bound the session ends.
    if (stream.writableLength > MAX_INPUT_BYTES) viewer.socket.close(1013, 'too much input');
  }

  resize(viewer: Viewer, size: { cols: number; rows: number }): void {
    if (viewer !== this.#viewer) return;
    this.#size = size;
    this.#shell?.resize(size.cols, size.rows);
  }

  /** The client read what waited for it. */
  drained(viewer: Viewer): void {
    if (viewer !== this.#viewer) return;
    this.#shell?.kept?.seen(this.#sent);
    this.#sent = 0;
    this.#shell?.stream.resume();
  }

  /** Tells the container's actor again that it is there. */
  attach(): void {
    if (this.#self !== undefined) dispatch(this.#self, ATTACH);
  }

  /** Hangs up: what runs in the shell gets SIGHUP. */
  end(): void {
    this.#over(ENDED);
  }

  #handle(message: SessionMessage): undefined {
    switch (message.type) {
      case 'failed': {
        const { error } = message;
        this.#deps.log.warn({ containerId: this.#options.containerId, err: error }, 'terminal could not be opened');
        const reason = error instanceof EngineError ? error.message : 'the shell could not be opened';
        return this.#over({ code: 1011, reason });
      }
      case 'close':
        return this.#over(message);
      case 'abandoned':
        if (this.#viewer === undefined) this.end();
        return;
      case 'attach':
        if (this.#self !== undefined) this.#attachTo(this.#self);
        return;
      case 'attached':
        this.attachAt = nextAttach();
        this.#ctx?.watch(message.by, () => ATTACH);
        return;
    }
  }

  /** The container's actor answers: without its word this is repeated soon. */
  #attachTo(self: Ref<SessionMessage>): void {
    this.attachAt = soonAttach();
    this.#options.attach(self);
  }

  #open({ self, signal }: Context<SessionMessage>): void {
    const { containerId, keptAs } = this.#options;
    const keeping = keptAs === undefined ? undefined : { name: keptAs, ...this.#times(this.#viewer) };
    this.#deps.shells.open(containerId, { ...PTY, ...this.#size }, signal, keeping).then(
      // Not by a message: one to an actor that just ended would be lost, and the shell with it.
      (shell) => this.#take(shell),
      (error: unknown) => {
        if (!signal.aborted) dispatch(self, { type: 'failed', error });
      },
    );
  }

  /** How long the shell waits without a client, and how long the token of this one is good. */
  #times(viewer: Viewer | undefined): { readonly lingerMs: number; readonly lifeMs: number } {
    const lingerMs = this.#deps.lingerMs ?? LINGER_MS;
    const lifeMs = viewer === undefined ? Number.POSITIVE_INFINITY : remainingMs(viewer.caller, this.#deps.clock.now());
    return { lingerMs, lifeMs };
  }

  #take(shell: Shell): void {
    if (this.#isOver) {
      shell.close();
      return;
    }
    this.#shell = shell;
    if (this.#viewer === undefined) shell.kept?.wait();
    if (this.#size !== undefined) shell.resize(this.#size.cols, this.#size.rows);
    const { stream } = shell;
    let end: ConnectionEnd = ENDED;
    stream.on('data', (chunk: Buffer) => {
      if (!this.#isBetween) this.#print(chunk);
    });
    stream.on('drain', () => this.#viewer?.socket.resume());
    // An error is followed by 'close'.
    stream.on('error', (error) => {
      this.#deps.log.debug({ containerId: this.#options.containerId, err: error }, 'terminal stream failed');
      end = CONTAINER_LOST;
    });
    // The end of what it prints is the end of a shell, although what is typed could still be taken.
    stream.on('end', () => stream.destroy());
    stream.on('close', () => {
      this.#settle();
      if (shell.kept?.isTaken === true) end = TAKEN_OVER;
      else if (end === CONTAINER_LOST && shell.kept !== undefined && !this.#isRegained) return this.#regain();
      const over = () => this.#self !== undefined && dispatch(this.#self, { type: 'close', ...end });
      if (end !== ENDED) return over();
      void shell.ended.then((how) => {
        this.#tellExit(how);
        over();
      });
    });
    for (const chunk of this.#early) stream.write(chunk);
    this.#early = [];
  }

  #tellExit(end: ShellEnd): void {
    const code = exitCodeOf(end);
    const viewer = this.#viewer;
    if (code === undefined || viewer?.tellsExit !== true) return;
    const exit: ExecExit = { type: 'exit', code };
    viewer.socket.send(JSON.stringify(exit));
  }

  /**
   * The shell may go on without us. Its client is to come back, to see what it missed; until then somebody has to hear
   * when its token ends, so the connection is made anew, once.
   */
  #regain(): void {
    const [viewer, ctx] = [this.#viewer, this.#ctx];
    if (this.#isOver || ctx === undefined) return;
    this.#isRegained = true;
    this.#shell = undefined;
    if (viewer !== undefined) {
      this.leave(viewer, CONTAINER_LOST.code);
      dispatch(viewer.connection, { type: 'close', ...CONTAINER_LOST });
    }
    if (!this.#isOver) this.#open(ctx);
  }

  #print(chunk: Buffer): void {
    if (this.#outputBytes === 0) queueMicrotask(() => this.#settle());
    this.#output.push(chunk);
    this.#outputBytes += chunk.length;
    if (this.#outputBytes >= FRAME_BYTES) this.#settle();
  }

  /** Sends what was gathered. */
  #settle(): void {
    if (this.#outputBytes === 0) return;
    const [only] = this.#output;
    const data = this.#output.length === 1 && only !== undefined ? only : Buffer.concat(this.#output);
    this.#output = [];
    this.#outputBytes = 0;
    const kept = this.#shell?.kept;
    if (kept === undefined) this.#replay?.push(data);
    if (this.#viewer !== undefined) {
      if (this.#viewer.socket.send(data)) kept?.seen(data.length);
      else {
        this.#sent += data.length;
        this.#shell?.stream.pause();
      }
      return;
    }
    if (kept !== undefined) return; // It will come again.
    this.#unseen += data.length;
    if (this.#unseen >= UNSEEN_BYTES) this.#shell?.stream.pause();
  }

  /** `isLeft`: the shell may go on where it is kept. */
  #over(end: ConnectionEnd, isLeft = false): undefined {
    if (this.#isOver) return undefined;
    this.#isOver = true;
    const viewer = this.#viewer;
    this.#viewer = undefined;
    this.#cancelWait?.();
    stopTimers(this);
    this.#options.onOver();
    if (isLeft && this.#shell?.kept !== undefined) this.#shell.kept.leave();
    else this.#shell?.close();
    if (viewer !== undefined) dispatch(viewer.connection, { type: 'close', code: end.code, reason: end.reason });
    if (this.#self !== undefined) stop(this.#self);
    return undefined;
  }
}
