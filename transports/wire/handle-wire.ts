/** A wire on the handle below a socket: no stream, no events, one shared read buffer, one system call a write. */
import type { Socket } from 'node:net';
import { type Handle, type HandleRequest, internals, socketOn } from './handles.ts';
import { NOBODY, type Wire, type WireReader } from './wire.ts';

/** All reads go through one buffer: what a reader keeps, it copies. */
const READ = Buffer.allocUnsafeSlow(65_536);
/** A connection that passes much on may have a buffer of its own, as long as there are not more than so many. */
const OWN_BYTES = 262_144;
const MAX_OWN = 64;
/** Bytes of its own are not copied to the stage from this size on. */
const LARGE_BYTES = 16_384;
const EOF = -4095;
const NOT_CONNECTED = -107;

const { newWrite, newShutdown, state, readAt, asyncAt, keepsNothing } = internals ?? {
  newWrite: (): HandleRequest => ({}),
  newShutdown: (): HandleRequest => ({}),
  state: new Int32Array(2),
  readAt: 0,
  asyncAt: 1,
  keepsNothing: () => false,
};
/** More than one read brings, with a head before it. */
const STAGE_BYTES = 98_304;
/** A write that waits and is smaller keeps its own part of the stage; a larger one keeps all of it. */
const SMALL_BYTES = 16_384;

/** One block of memory: first what belongs to writes that wait, then what is put together now. */
class WriteBuffer {
  readonly #memory = Buffer.allocUnsafeSlow(STAGE_BYTES);
  #start = 0;
  #end = 0;

  /** Copies text (as latin1) or bytes from `at` on, as far as there is room; where the rest begins. */
  put(data: string | Buffer, at: number): number {
    const next = Math.min(data.length, at + STAGE_BYTES - this.#end);
    if (typeof data !== 'string') data.copy(this.#memory, this.#end, at, next);
    else this.#memory.write(at === 0 ? data : data.slice(at), this.#end, next - at, 'latin1');
    this.#end += next - at;
    return next;
  }

  /** What has been put together. */
  view(): Buffer {
    return this.#memory.subarray(this.#start, this.#end);
  }

  /** It has been sent, or is not wanted any more. */
  clear(): void {
    this.#end = this.#start;
  }

  /** What has been put together stays in use. The stage for what comes next: this or another. */
  lend(): WriteBuffer {
    this.#start = this.#end;
    const hasRoom = this.#end <= STAGE_BYTES - 65_536 - SMALL_BYTES;
    return hasRoom ? this : new WriteBuffer();
  }
}

/** For the next write: one that is done at once leaves it unused. */
let spare = newWrite();
/** Where writes are put together. */
let stage = new WriteBuffer();
let ownBuffers = 0;
/** The one wire whose bytes are on the stage and have not been sent. */
let staging: HandleWire | undefined;
/** A text that would be the first on the stage: most are the only one, and leave without it. */
let alone: string | undefined;

/** Takes a handle over. Only where `internals` are known. */
export class HandleWire implements Wire {
  reader: WireReader = NOBODY;
  bytesRead: number;
  bytesWritten = 0;
  isDestroyed = false;
  readonly #handle: Handle;
  readonly #keepsNothing: boolean;
  /** The socket that the handle belongs to; undefined: the handle is ours alone. */
  #socket: Socket | undefined;
  readonly #onClosed: (() => void) | undefined;
  #buffer = READ;
  /** What waits behind a write that waits. */
  #queue: Buffer[] | undefined;
  #queuedBytes = 0;
  #corks = 0;
  #isReading = false;
  /** A write or a shutdown is under way. */
  #isWaiting = false;
  #hasEnded = false;
  #isEnding = false;
  #isFinished = false;
  #closesSoon = false;

  /** `socket`: whose handle it is; it must not be used beside. `onClosed`: told when it is over, after the reader. */
  constructor(handle: Handle, { socket, onClosed }: { socket?: Socket; onClosed?: () => void } = {}) {
    this.#handle = handle;
    this.#keepsNothing = keepsNothing(handle);
    this.#socket = socket;
    this.#onClosed = onClosed;
    this.bytesRead = socket?.bytesRead ?? 0;
    handle.wire = this;
    handle.onread = onRead;
    handle.useUserBuffer(READ);
    if (socket === undefined) return;
    // Or it would start to read by itself, once it is connected.
    socket.pause();
    handle.readStop();
    socket.once('close', () => this.#closed()).on('error', () => {});
  }

  get needsDrain(): boolean {
    return this.#isWaiting;
  }

  get unsent(): number {
    return this.#isWaiting ? this.#queuedBytes + (this.#handle.writeQueueSize ?? 0) : 0;
  }

  get hasOwnBuffer(): boolean {
    return this.#buffer !== READ;
  }

  get isWhole(): boolean {
    return !this.isDestroyed && !this.#hasEnded && !this.#isEnding;
  }

  // ----------------------------------------------------------------------------------------------------------- writing

  write(data: string | Buffer): boolean {
    if (this.isDestroyed || this.#isEnding) return false;
    this.bytesWritten += data.length;
    if (this.#isWaiting) {
      this.#keep(data);
      return false;
    }
    if (typeof data === 'string') {
      if (this.#corks === 0) {
        this.#sendText(data);
        return !this.#isWaiting;
      }
      if (staging === undefined && !this.#keepsNothing && data.length < LARGE_BYTES) {
        staging = this;
        alone = data;
        return true;
      }
    }
    for (let at = 0; at < data.length; ) at = this.#put(data, at);
    if (this.#corks === 0 && staging === this) this.#flush();
    return !this.#isWaiting;
  }

  writeStable(bytes: Buffer): boolean {
    if (bytes.length < LARGE_BYTES || this.isDestroyed || this.#isEnding) return this.write(bytes);
    if (staging === this) this.#flush();
    this.bytesWritten += bytes.length;
    if (this.#isWaiting) {
      this.#queue ??= [];
      this.#queue.push(bytes);
      this.#queuedBytes += bytes.length;
    } else if (!this.isDestroyed) this.#sendOwn(bytes);
    return !this.#isWaiting;
  }

  #sendText(text: string): void {
    const request = spare;
    // What does not go out at once is copied below.
    this.#sent(this.#handle.writeLatin1String(request, text), request);
  }

  /** Sends bytes that nobody else has. */
  #sendOwn(bytes: Buffer): void {
    const request = spare;
    this.#sent(this.#handle.writeBuffer(request, bytes), request);
    if (this.#isWaiting) request.buffer = bytes;
  }

  cork(): void {
    this.#corks++;
  }

  uncork(): void {
    if (--this.#corks === 0 && staging === this) this.#flush();
  }

  #keep(data: string | Buffer): void {
    this.#queue ??= [];
    this.#queue.push(typeof data === 'string' ? Buffer.from(data, 'latin1') : Buffer.from(data));
    this.#queuedBytes += data.length;
  }

  /** Puts some of `data` on the stage, from `at` on; where the rest begins. */
  #put(data: string | Buffer, at: number): number {
    if (this.#isWaiting) {
      this.#keep(data.slice(at));
      return data.length;
    }
    if (staging !== this) {
      // Its cork was in good faith; in order is all it was promised.
      if (staging !== undefined) staging.#flush();
      staging = this;
    }
    if (alone !== undefined) {
      // There is room: the stage is empty, and it is short.
      stage.put(alone, 0);
      alone = undefined;
    }
    const next = stage.put(data, at);
    if (next < data.length) this.#flush();
    return next;
  }

  /** Sends what is on the stage. */
  #flush(): void {
    staging = undefined;
    const text = alone;
    alone = undefined;
    if (this.isDestroyed) {
      stage.clear();
      return;
    }
    if (text !== undefined) {
      this.#sendText(text);
      return;
    }
    const bytes = stage.view();
    const request = spare;
    this.#sent(this.#handle.writeBuffer(request, bytes), request);
    if (!this.#isWaiting || this.#keepsNothing) stage.clear();
    else {
      request.buffer = bytes;
      stage = stage.lend();
    }
  }

  /** What became of a write. */
  #sent(error: number, request: HandleRequest): void {
    if (error === 0 && state[asyncAt] === 0) return;
    spare = newWrite();
    if (error !== 0) {
      this.destroy();
      return;
    }
    this.#isWaiting = true;
    request.wire = this;
    request.oncomplete = onWritten;
  }

  /** Called by a request that waited. */
  written(status: number): void {
    this.#isWaiting = false;
    if (this.isDestroyed) return;
    if (status < 0) {
      this.destroy();
      return;
    }
    const queue = this.#queue;
    if (queue !== undefined) {
      this.#queue = undefined;
      this.#queuedBytes = 0;
      this.#sendOwn(queue.length === 1 && queue[0] !== undefined ? queue[0] : Buffer.concat(queue));
      if (this.#isWaiting) return;
    }
    if (this.#isEnding) this.#shutdown();
    else if (!this.isDestroyed) this.reader.onDrain();
  }

  // ----------------------------------------------------------------------------------------------------------- reading

  takeOwnBuffer(): void {
    if (this.hasOwnBuffer || this.isDestroyed || ownBuffers === MAX_OWN) return;
    ownBuffers++;
    this.#buffer = Buffer.allocUnsafeSlow(OWN_BYTES);
    this.#handle.useUserBuffer(this.#buffer);
  }

  pause(): void {
    if (!this.#isReading) return;
    this.#isReading = false;
    if (!this.isDestroyed) this.#handle.readStop();
  }

  resume(): void {
    if (this.#isReading || this.isDestroyed || this.#hasEnded) return;
    this.#isReading = true;
    if (this.#handle.readStart() !== 0) this.destroy();
  }

  /** Called by the handle: bytes, or an error. */
  read(count: number): void {
    if (count > 0) {
      this.bytesRead += count;
      this.reader.onData(this.#buffer.subarray(0, count));
    } else if (count === EOF) {
      this.#hasEnded = true;
      this.#isReading = false;
      this.reader.onEnd();
      if (this.#isFinished) this.destroy();
    } else if (count < 0) this.destroy();
  }

  // ----------------------------------------------------------------------------------------------------------- the end

  end(): void {
    if (this.isDestroyed || this.#isEnding) return;
    if (staging === this) this.#flush();
    this.#isEnding = true;
    if (!this.#isWaiting && !this.isDestroyed) this.#shutdown();
  }

  #shutdown(): void {
    const request = newShutdown();
    request.wire = this;
    request.oncomplete = onShutdown;
    const error = this.#handle.shutdown(request);
    if (error === 0) this.#isWaiting = true;
    // 1: done at once.
    else this.finished(error === 1 || error === NOT_CONNECTED ? 0 : error);
  }

  /** Called by the shutdown. */
  finished(status: number): void {
    this.#isWaiting = false;
    if (this.isDestroyed) return;
    this.#isFinished = true;
    if (status < 0 || this.#hasEnded || this.#closesSoon) this.destroy();
  }

  destroySoon(): void {
    this.#closesSoon = true;
    this.end();
    if (this.#isFinished) this.destroy();
  }

  destroy(): void {
    if (this.isDestroyed) return;
    this.isDestroyed = true;
    this.#isReading = false;
    this.#queue = undefined;
    if (staging === this) {
      staging = undefined;
      alone = undefined;
      stage.clear();
    }
    if (this.#socket !== undefined) this.#socket.destroy();
    else this.#handle.close(() => this.#closed());
  }

  toSocket(): Socket {
    this.pause();
    this.reader = NOBODY;
    delete this.#handle.wire;
    // What a socket, or TLS over it, goes by: without it nothing would start reading again.
    this.#handle.reading = false;
    if (this.#socket === undefined) {
      this.#socket = socketOn(this.#handle);
      this.#socket.once('close', () => this.#closed()).on('error', () => {});
    }
    return this.#socket;
  }

  #closed(): void {
    this.isDestroyed = true;
    const { reader } = this;
    this.reader = NOBODY;
    // It may still be written to the other side: others get another.
    if (this.hasOwnBuffer) ownBuffers--;
    this.#buffer = READ;
    reader.onClose();
    this.#onClosed?.();
  }
}

function onRead(this: Handle): void {
  this.wire?.read(state[readAt] ?? 0);
}

function onWritten(this: HandleRequest, status: number): void {
  this.wire?.written(status);
}

function onShutdown(this: HandleRequest, status: number): void {
  this.wire?.finished(status);
}
