/** A WebSocket on a wire: a connection of Troupe's own server after 101. An idle one is this and its wire. */
import type { Socket, SocketHandlers, SocketWatch, Watched } from '../../proto/ports/http.ts';
import type { Deadlines, Timed } from '../wire/deadlines.ts';
import type { Wire, WireReader } from '../wire/wire.ts';
import { type FrameReader, type FrameSink, giveReader, takeReader } from './frame-reader.ts';
import { closeFrame, isOwn, messageFrame, PING_FRAME, payloadOf, pongFrame } from './frame-writer.ts';

/** What all sockets of a server share. */
export interface SocketContext {
  readonly maxMessageBytes: number;
  readonly maxBufferedBytes: number;
  readonly deadlines: Deadlines;
  /** The socket's connection is over. Called once. */
  gone(socket: WireSocket): void;
}

/** How long the peer may take to answer a closing handshake, and to read what comes before it, in milliseconds. */
const CLOSE_TIMEOUT_MS = 5_000;
const INTERNAL = 1011;
const TOO_SLOW = 1013;
/** How much one batch holds before its sender is told to make a pause. */
const BATCH_BYTES = 64 * 1024;

// How a socket is, as bits.
/** Ping periods in which the peer was not heard. */
const SILENT_TWICE = 2;
const SILENT = 3;
/** The owner was told that bytes wait. */
const WAITING = 4;
const BATCHING = 8;
/** The owner wants to read no more for now. */
const PAUSED = 16;
/** The peer does not read its pongs, and is not read from either. */
const CHOKED = 32;
/** The owner has been told of the end. */
const OVER = 64;
/** Nothing that comes is looked at any more. */
const DEAF = 128;

/** Bytes of the batch under way: it ends before anything else happens. */
let batched = 0;

/** One socket. It reads its wire from the moment it is made. */
export class WireSocket implements Socket, Watched, WireReader, FrameSink {
  readonly #wire: Wire;
  readonly #handlers: SocketHandlers;
  readonly #context: SocketContext;
  #flags = 0;
  /** Only while a frame or message is under way. */
  #reader: FrameReader | undefined = undefined;
  /** Frames that came before the owner wanted to read no more. */
  #held: Buffer | undefined = undefined;
  #watch: SocketWatch | undefined = undefined;
  before: Watched | undefined = undefined;
  after: Watched | undefined = undefined;
  place = -1;

  constructor(wire: Wire, handlers: SocketHandlers, context: SocketContext) {
    this.#wire = wire;
    this.#handlers = handlers;
    this.#context = context;
    wire.reader = this;
  }

  /** Tells the owner, and who watches, that the socket is open. */
  opened(watch: SocketWatch | undefined): void {
    try {
      this.#watch = watch?.opened(this);
      this.#handlers.open(this);
    } catch {
      this.close(INTERNAL, 'internal error');
    }
  }

  // ---------------------------------------------------------------------------------------------------- from the owner

  send(data: string | Uint8Array): boolean {
    if (this.#is(OVER)) return false;
    const wire = this.#wire;
    const frame = messageFrame(data);
    if (wire.needsDrain || frame.length > this.#context.maxBufferedBytes) {
      if (payloadOf(frame) + wire.unsent > this.#context.maxBufferedBytes) {
        this.close(TOO_SLOW, 'too slow');
        return false;
      }
    }
    const isRoom = isOwn(frame) ? wire.writeStable(frame) : wire.write(frame);
    if (this.#is(BATCHING)) {
      batched += frame.length;
      return batched < BATCH_BYTES && isRoom;
    }
    if (!isRoom) this.#flags |= WAITING;
    return isRoom;
  }

  batch(work: () => void): boolean {
    if (this.#is(OVER)) return false;
    this.#flags |= BATCHING;
    this.#wire.cork();
    const outer = batched;
    batched = 0;
    try {
      work();
    } finally {
      batched = outer;
      this.#flags &= ~BATCHING;
      this.#wire.uncork();
    }
    if (this.#is(OVER)) return false;
    // A stream may have been full for the time of the batch only.
    const waits = this.#wire.needsDrain && this.#wire.unsent > 0;
    if (waits) this.#flags |= WAITING;
    return !waits;
  }

  buffered(): number {
    return this.#is(OVER) ? 0 : this.#wire.unsent;
  }

  pause(): void {
    if (this.#is(OVER)) return;
    this.#flags |= PAUSED;
    this.#wire.pause();
  }

  resume(): void {
    if (this.#is(OVER) || !this.#is(PAUSED)) return;
    this.#flags &= ~(PAUSED | SILENT);
    // Not from here: the owner may be in the middle of something.
    if (this.#held !== undefined) setImmediate(() => this.#readOn());
    else if (!this.#is(CHOKED)) this.#wire.resume();
  }

  close(code: number, reason: string): void {
    if (this.#is(OVER)) return;
    this.#wire.write(closeFrame(code, reason));
    this.#tellEnd(code, reason);
    this.#waitForEnd();
  }

  /** Cuts the connection without a handshake. */
  terminate(): void {
    this.#wire.destroy();
  }

  /** A ping period passed: asks the peer for a sign of life, or ends the socket after two periods without one. */
  beat(): void {
    if (this.#is(OVER)) return;
    // Of a peer that is not read from no sign of life can be heard.
    if (!this.#is(PAUSED)) {
      if ((this.#flags & SILENT) >= SILENT_TWICE) {
        this.terminate();
        return;
      }
      this.#flags += 1;
    }
    this.#wire.write(PING_FRAME);
  }

  // ----------------------------------------------------------------------------------------------------- from the wire

  onData(bytes: Buffer): void {
    if (this.#is(DEAF)) return;
    this.#flags &= ~SILENT;
    if (this.#held !== undefined) this.#held = Buffer.concat([this.#held, bytes]);
    else this.#read(bytes);
  }

  onEnd(): void {
    if (!this.#is(OVER)) this.#tellEnd(1006, '');
    this.#flags |= DEAF;
    this.#wire.destroySoon();
    this.#limitEnd();
  }

  onDrain(): void {
    // What it was sent has left: it reads.
    this.#flags &= ~SILENT;
    if (this.#is(CHOKED)) {
      this.#flags &= ~CHOKED;
      if (!this.#is(PAUSED)) this.#wire.resume();
    }
    if (!this.#is(WAITING) || this.#is(OVER)) return;
    this.#flags &= ~WAITING;
    try {
      this.#handlers.drain();
    } catch {
      this.close(INTERNAL, 'internal error');
    }
  }

  onClose(): void {
    if (!this.#is(OVER)) this.#tellEnd(1006, '');
    this.#flags |= DEAF;
    this.#context.gone(this);
  }

  // --------------------------------------------------------------------------------------------- from the frame reader

  get maxMessageBytes(): number {
    return this.#context.maxMessageBytes;
  }

  get isStopped(): boolean {
    return (this.#flags & (PAUSED | DEAF)) !== 0;
  }

  onMessage(isText: boolean, bytes: Buffer): void {
    if (this.#is(OVER)) return;
    try {
      this.#handlers.message(isText ? { text: bytes.toString() } : { binary: new Uint8Array(bytes) });
    } catch {
      this.close(INTERNAL, 'internal error');
    }
  }

  onPing(payload: Buffer): void {
    if (this.#is(OVER) || this.#wire.write(pongFrame(payload))) return;
    // Pongs nobody reads would only be kept here: what comes waits in the network until they have left.
    this.#flags |= CHOKED;
    this.#wire.pause();
  }

  onPong(): void {}

  onCloseFrame(code: number, reason: string): void {
    // Our own close frame is on its way if the owner closed; each side sends one (section 5.5.1).
    if (!this.#is(OVER)) {
      this.#wire.write(closeFrame(code, ''));
      this.#tellEnd(code, reason);
      this.#limitEnd();
    }
    this.#flags |= DEAF;
    this.#wire.destroySoon();
  }

  onBroken(code: 1002 | 1007 | 1009, reason: string): void {
    if (this.#is(OVER)) {
      this.#wire.destroy();
      return;
    }
    this.#wire.write(closeFrame(code, reason));
    this.#tellEnd(code, reason);
    // What still comes is read and dropped, so that a reset does not overtake the close frame.
    this.#flags |= DEAF;
    this.#waitForEnd();
    this.#wire.end();
  }

  // ----------------------------------------------------------------------------------------------------------- its own

  #is(flag: number): boolean {
    return (this.#flags & flag) !== 0;
  }

  #read(bytes: Buffer): void {
    const reader = this.#reader ?? takeReader();
    // Answers to all that came together leave together.
    this.#wire.cork();
    const next = reader.push(bytes, 0, this);
    this.#wire.uncork();
    if (reader.isAtRest) {
      this.#reader = undefined;
      giveReader(reader);
    } else this.#reader = reader;
    if (next < bytes.length && this.#is(PAUSED) && !this.#is(DEAF)) this.#held = Buffer.from(bytes.subarray(next));
  }

  /** Takes up what was held. */
  #readOn(): void {
    const held = this.#held;
    if (held === undefined || this.#is(PAUSED | DEAF)) return;
    this.#held = undefined;
    this.#read(held);
    if (this.#held === undefined && (this.#is(OVER) || !this.#is(PAUSED | CHOKED))) this.#wire.resume();
  }

  #tellEnd(code: number, reason: string): void {
    this.#flags = (this.#flags & ~PAUSED) | OVER;
    this.#watch?.closed(this);
    try {
      this.#handlers.close(code, reason);
    } catch {
      // The socket is gone and the owner with it: nobody is left to tell.
    }
  }

  /** Our close frame is sent: the peer's is waited for, at most so long. */
  #waitForEnd(): void {
    if (this.#is(DEAF)) this.#held = undefined;
    // It may end in the middle of a frame: read on from there, to find the peer's close frame.
    if (this.#held !== undefined) setImmediate(() => this.#readOn());
    else this.#wire.resume();
    this.#limitEnd();
  }

  #limitEnd(): void {
    if (!this.#wire.isDestroyed) this.#context.deadlines.add(new Goodbye(this.#wire, this.#context.deadlines));
  }
}

/** Cuts a connection that does not end in time. Of its own, so that open sockets carry no deadline. */
class Goodbye implements Timed {
  deadline: number;
  readonly #wire: Wire;
  readonly #deadlines: Deadlines;

  constructor(wire: Wire, deadlines: Deadlines) {
    this.#wire = wire;
    this.#deadlines = deadlines;
    this.deadline = deadlines.now() + CLOSE_TIMEOUT_MS;
  }

  onDeadline(): void {
    this.#deadlines.remove(this);
    this.#wire.destroy();
  }
}
