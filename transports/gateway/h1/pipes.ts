/** The pipes to one origin: how many there are, and how much the origin has shown that it takes. */
import { NOBODY, type Wire, type WireReader } from '../../wire/wire.ts';
import type { BorrowedConnection, ResponseReader } from './exchange-sides.ts';

/**
 * One connection to an origin that carries several requests at a time: their answers come in the order of the requests
 * (RFC 9112, section 9.3.2). What is asked in one turn of the event loop shares a pipe and leaves together.
 */
/** How long an answer may keep those behind it waiting before they are sent another way, ms. */
const PATIENCE_MS = 100;

/** An origin that ends a connection after fewer answers, even if it says so, is not for pipes. */
const FEW_ANSWERS = 10;

/** A pipe. Its connection is its own. */
class Pipe implements WireReader {
  /** When it became idle, or its first place became the first, ms. */
  since = performance.now();
  readonly #wire: Wire;
  readonly #owner: Pipes;
  readonly #places: PipePlace[] = [];
  /** Heads that leave at the end of this turn. */
  #text = '';
  #isCollecting = false;
  #answers = 0;
  #isRetired = false;

  constructor(wire: Wire, owner: Pipes) {
    this.#wire = wire;
    this.#owner = owner;
    wire.reader = this;
    wire.resume();
  }

  /** Requests without a whole answer. */
  get size(): number {
    return this.#places.length;
  }

  /** A place behind the others of this turn; undefined when there is none. `depth`: most requests at a time. */
  enter(depth: number): BorrowedConnection | undefined {
    const { length } = this.#places;
    if (this.#isRetired || length >= depth || !this.#wire.isWhole) return undefined;
    if (length === 0) {
      if (this.#wire.needsDrain) return undefined;
      this.since = performance.now();
      this.#isCollecting = true;
      setImmediate(this.#send);
    } else if (!this.#isCollecting) return undefined;
    const place = new PipePlace(this, length > 0);
    this.#places.push(place);
    return place;
  }

  /** Looks whether somebody waits for too long. */
  look(now: number): void {
    const [first] = this.#places;
    if (first === undefined || now - this.since < PATIENCE_MS) return;
    if (first.isAbandoned) this.#end();
    else if (first.isKeptWaiting) {
      // Its origin took the request with one before it, and looks at it no more until something new comes: servers with
      // a thread for each ready socket do so. Or its answer takes long: then it is asked for again, once and alone.
      this.#owner.onFailure();
      this.#end();
    } else if (this.#places.length > 1) this.#retire();
  }

  /** Takes no more requests, and ends with the last. */
  close(): void {
    if (this.#places.length === 0) this.#end();
    else this.#leave();
  }

  // ------------------------------------------------------------------------------------------------------ from a place

  write(text: string): void {
    this.#text += text;
  }

  readonly #send = () => {
    const text = this.#text;
    this.#text = '';
    this.#isCollecting = false;
    this.#wire.write(text);
  };

  /** Only the first is being read, so only it can be too fast for its client. */
  pause(place: PipePlace): void {
    if (place === this.#places[0]) this.#wire.pause();
  }

  resume(place: PipePlace): void {
    if (place === this.#places[0]) this.#wire.resume();
  }

  release(place: PipePlace, keep: boolean): void {
    if (place !== this.#places[0]) return;
    this.#places.shift();
    this.#answers++;
    const { length } = this.#places;
    if (!keep && length > 0 && this.#answers < FEW_ANSWERS) this.#owner.onFailure();
    if (!keep || (this.#isRetired && length === 0)) this.#end();
    if (this.#wire.isDestroyed) return;
    this.since = performance.now();
    if (length > 0) this.#owner.onProof();
    this.#wire.resume();
  }

  /** False: nobody is behind it, nor will be. */
  abandon(place: PipePlace): boolean {
    return !this.#isRetired || this.#places.length > 1 || place !== this.#places[0];
  }

  /** All are sent another way, and if others waited behind one the origin is asked one by one for a while. */
  fail(): void {
    if (this.#places.length > 1) this.#owner.onFailure();
    this.#end();
  }

  // --------------------------------------------------------------------------------------------------- from the origin

  onData(bytes: Buffer): void {
    for (let at = 0; at < bytes.length && !this.#wire.isDestroyed; ) {
      const [first] = this.#places;
      // What nobody has asked for yet would be taken for the next answer.
      if (first === undefined || this.#isCollecting) this.fail();
      else at = first.take(bytes, at);
    }
  }

  onEnd(): void {
    this.#lost((first) => first.onEnd());
  }

  onDrain(): void {}

  onClose(): void {
    this.#lost((first) => first.onClose());
  }

  /** The first may have been one that ends with its connection, and knows best. */
  #lost(tell: (first: PipePlace) => void): void {
    const [first] = this.#places;
    if (this.#places.length > 1) this.#owner.onFailure();
    this.#leave();
    if (first !== undefined) tell(first);
    this.#end();
  }

  /** Those behind the first are sent another way; it is the last. */
  #retire(): void {
    this.#leave();
    for (const place of this.#places.splice(1)) place.move();
  }

  #end(): void {
    this.#leave();
    this.#wire.reader = NOBODY;
    this.#wire.destroy();
    for (const place of this.#places.splice(0)) place.move();
  }

  #leave(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#owner.onRetired(this);
  }
}

/** One request's place in a pipe. */
class PipePlace implements BorrowedConnection {
  readonly own = undefined;
  /** Whoever is in it can be sent another way. */
  readonly isReused = true;
  isAbandoned = false;
  readonly #pipe: Pipe;
  /** Whether it was sent behind another. */
  readonly #isBehind: boolean;
  #hasBegun = false;
  #reader: ResponseReader | undefined;

  constructor(pipe: Pipe, isBehind: boolean) {
    this.#pipe = pipe;
    this.#isBehind = isBehind;
  }

  /** Whether those before it are answered (it is the first), and it has no byte of an answer. */
  get isKeptWaiting(): boolean {
    return this.#isBehind && !this.#hasBegun;
  }

  attach(reader: ResponseReader): void {
    this.#reader = reader;
  }

  detach(): void {
    this.#reader = undefined;
  }

  /** Where the next answer begins; everything is this one's while it goes on. */
  take(bytes: Buffer, from: number): number {
    this.#hasBegun = true;
    return this.#reader?.take(bytes, from) ?? bytes.length;
  }

  onEnd(): void {
    this.#reader?.onEnd();
  }

  onClose(): void {
    this.#reader?.onClose();
  }

  move(): void {
    this.#reader?.onMoved();
  }

  write(head: string): void {
    this.#pipe.write(head);
  }

  pause(): void {
    this.#pipe.pause(this);
  }

  resume(): void {
    this.#pipe.resume(this);
  }

  abandon(): boolean {
    this.isAbandoned = this.#pipe.abandon(this);
    return this.isAbandoned;
  }

  distrust(): boolean {
    this.#pipe.fail();
    return true;
  }

  release(keep: boolean): void {
    this.#pipe.release(this, keep);
  }
}

/** Most pipes to an origin, and most requests in one. */
const MAX_PIPES = 8;
const MAX_DEPTH = 32;
const FIRST_DEPTH = 2;
/** How long an origin that failed is asked one by one, ms. */
const BARRED_MS = 10_000;

/** Pipes to one origin. A place is lent when one is free; nobody waits for one. */
export class Pipes {
  readonly #all: Pipe[] = [];
  /** Opens a connection of its own; rejects when there is none. */
  readonly #open: () => Promise<Wire>;
  #depth = FIRST_DEPTH;
  #barredUntil = 0;
  #isOpening = false;
  #isClosed = false;
  #watch: NodeJS.Timeout | undefined;

  constructor(open: () => Promise<Wire>) {
    this.#open = open;
  }

  /** Pipes that nobody uses. */
  get idle(): number {
    return this.#all.reduce((count, { size }) => count + (size === 0 ? 1 : 0), 0);
  }

  /** A place for one request without a body that changes nothing; undefined: it goes by itself. */
  enter(): BorrowedConnection | undefined {
    for (const pipe of this.#all) {
      const place = pipe.enter(this.#depth);
      if (place === undefined) continue;
      this.#watch ??= setInterval(() => this.#look(), PATIENCE_MS).unref();
      return place;
    }
    if (!this.#isOpening && this.#all.length < MAX_PIPES && performance.now() >= this.#barredUntil) this.#widen();
    return undefined;
  }

  /** Ends those that have been idle since before `before`. */
  expire(before: number): void {
    for (const pipe of [...this.#all]) if (pipe.size === 0 && pipe.since < before) pipe.close();
  }

  /** Takes no more requests; those under way are answered. */
  close(): void {
    this.#isClosed = true;
    for (const pipe of [...this.#all]) pipe.close();
  }

  /** An answer came to its end while others wait: the origin does as it should. */
  onProof(): void {
    if (this.#depth < MAX_DEPTH) this.#depth++;
  }

  /** The connection ended too early, or an answer was none, while others waited; or one behind another got none. */
  onFailure(): void {
    this.#depth = FIRST_DEPTH;
    this.#barredUntil = performance.now() + BARRED_MS;
  }

  /** It takes no more requests. */
  onRetired(pipe: Pipe): void {
    const at = this.#all.indexOf(pipe);
    if (at >= 0) this.#all.splice(at, 1);
  }

  #look(): void {
    const now = performance.now();
    let isUsed = false;
    for (const pipe of [...this.#all]) {
      pipe.look(now);
      isUsed ||= pipe.size > 0;
    }
    if (isUsed) return;
    clearInterval(this.#watch);
    this.#watch = undefined;
  }

  #widen(): void {
    this.#isOpening = true;
    this.#open().then(
      (wire) => {
        this.#isOpening = false;
        if (this.#isClosed) wire.destroy();
        else this.#all.push(new Pipe(wire, this));
      },
      // Whoever asks by itself is told why.
      () => {
        this.#isOpening = false;
      },
    );
  }
}
