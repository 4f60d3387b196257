import { Readable } from 'node:stream';
import { BodyError } from '../../proto/ports/http.ts';
import { EARLY_BODY_BYTES, MAX_DISCARD_BYTES } from './limits.ts';

const nothing = new Uint8Array(0);

/** Where a body comes from. */
export interface BodySource {
  /** The sender waits from here on. */
  pause(): void;
  resume(): void;
  /** Some of a body came that is read as it comes: it has so long again for more. */
  goesOn?(): void;
}

/**
 * The body of one request, held as it comes. Before `read` at most about EARLY_BODY_BYTES are held and then the sender
 * waits; after `read` at most the reader's limit; after `discard` nothing.
 */
export class HeldRequestBody {
  readonly #source: BodySource;
  readonly #declared: number;
  #held: Uint8Array = nothing;
  #size = 0;
  #seen = 0;
  #limit: number | undefined;
  #paused = false;
  #gone = false;
  #dropping = false;
  #settle: { resolve(body: Uint8Array): void; reject(error: BodyError): void } | undefined;
  #stream: Readable | undefined;
  #discarded: { done(whole: boolean): void; gone(): void } | undefined;
  /** The last byte has arrived. */
  ended = false;

  /** `declared`: content-length, 0 when unknown. */
  constructor(source: BodySource, declared: number) {
    this.#source = source;
    this.#declared = declared;
  }

  /** Whether nothing of it has come. */
  get isUntouched(): boolean {
    return this.#seen === 0 && !this.ended;
  }

  /** The whole body of at most `limit` bytes. Rejects with BodyError. */
  read(limit: number): Promise<Uint8Array> {
    if (this.#gone || this.#dropping) return Promise.reject(new BodyError('aborted'));
    if (this.#size > limit || this.#declared > limit) {
      this.#drop();
      return Promise.reject(new BodyError('too_large'));
    }
    if (this.ended) return Promise.resolve(this.#whole());
    this.#limit = limit;
    this.#resume();
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
  }

  /** The body as it comes; the sender waits while it is not read. */
  stream(): Readable {
    const stream = new Readable({
      read: () => this.#resume(),
      destroy: (error, done) => {
        this.#stream = undefined;
        this.#drop();
        done(error);
      },
    });
    // Whoever reads it may have gone already.
    stream.on('error', () => {});
    if (this.#gone || this.#dropping) return stream.destroy(new BodyError('aborted'));
    const held = this.#whole();
    this.#size = 0;
    if (held.length > 0) stream.push(held);
    if (this.ended) stream.push(null);
    else {
      this.#stream = stream;
      this.#resume();
    }
    return stream;
  }

  /** The client left. */
  abort(): void {
    this.#gone = true;
    this.#drop();
    this.#giveUp('aborted');
    const discarded = this.#discarded;
    this.#discarded = undefined;
    discarded?.gone();
  }

  /**
   * Reads on without keeping anything (whoever reads it is told `aborted`), so that a client which is still sending
   * comes to read its answer. `done` is told true when the body has ended, false when more than MAX_DISCARD_BYTES came
   * or are announced. Once the client left, `gone` is called in its place.
   */
  discard(done: (whole: boolean) => void, gone: () => void = () => {}): void {
    this.#drop();
    this.#giveUp('aborted');
    this.#resume();
    if (this.#declared - this.#seen > MAX_DISCARD_BYTES) {
      done(false);
      return;
    }
    this.#seen = 0;
    this.#discarded = { done, gone };
  }

  /** Some of it came; `last`: that was all. The chunk is copied. */
  take(chunk: Uint8Array, last: boolean): void {
    this.#seen += chunk.length;
    if (last) this.ended = true;
    if (this.#dropping) {
      this.#dropped();
      return;
    }
    if (this.#stream !== undefined) {
      this.#pass(this.#stream, chunk, last);
      return;
    }
    this.#append(chunk);
    if (this.#limit === undefined) {
      if (this.#size > EARLY_BODY_BYTES && !last) this.#pause();
    } else if (this.#size > this.#limit) {
      this.#drop();
      this.#giveUp('too_large');
    } else if (last) {
      this.#settle?.resolve(this.#whole());
      this.#settle = undefined;
    }
  }

  #pass(stream: Readable, chunk: Uint8Array, last: boolean): void {
    const hasRoom = chunk.length === 0 || stream.push(Buffer.from(chunk));
    if (last) {
      this.#stream = undefined;
      stream.push(null);
    } else if (hasRoom) this.#source.goesOn?.();
    else this.#pause();
  }

  #dropped(): void {
    if (!this.ended && this.#seen <= MAX_DISCARD_BYTES) return;
    const discarded = this.#discarded;
    this.#discarded = undefined;
    discarded?.done(this.ended);
  }

  /** Grows by doubling: a body sent a byte a chunk costs its bytes, not an object each. */
  #append(chunk: Uint8Array): void {
    const size = this.#size + chunk.length;
    if (size > this.#held.length) {
      const grown = new Uint8Array(this.#size === 0 ? size : Math.max(size, this.#held.length * 2));
      grown.set(this.#held.subarray(0, this.#size));
      this.#held = grown;
    }
    this.#held.set(chunk, this.#size);
    this.#size = size;
  }

  #whole(): Uint8Array {
    const body = this.#held.subarray(0, this.#size);
    this.#held = nothing;
    return body;
  }

  /** Whoever reads it gets no more of it. */
  #giveUp(code: BodyError['code']): void {
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.reject(new BodyError(code));
    this.#stream?.destroy(new BodyError(code));
  }

  #drop(): void {
    this.#dropping = true;
    this.#held = nothing;
    this.#size = 0;
  }

  #pause(): void {
    if (this.#paused || this.#gone) return;
    this.#paused = true;
    this.#source.pause();
  }

  #resume(): void {
    if (!this.#paused || this.#gone) return;
    this.#paused = false;
    this.#source.resume();
  }
}
