/**
 * Waits for the first bytes of a connection until somebody can decide by them, and no longer than a deadline: those of
 * a socket (SSH, ports that speak anything, the PROXY header), or of a wire (a ClientHello).
 */

import type { Socket } from 'node:net';
import { NOBODY, type Wire, type WireReader } from '../../wire/wire.ts';
import { StreamWire } from '../../wire/wires.ts';

/** Most bytes collected for a decision. */
const MAX_FIRST = 17_000;

/** What is to become of the first bytes. */
interface FirstBytes<T> {
  /** Undefined: more are needed. */
  decide(bytes: Buffer): T | undefined;
  /** Gets the paused wire with all that was read of it. */
  onDecided(decision: T, bytes: Buffer): void;
  /** Nobody decided within `ms`, or the peer ended or sent too much. */
  onTimeout(): void;
}

/** As `readFirstOfWire`, for whoever needs the socket: it is paused when one of `asks` is called. */
export function readFirstOfSocket<T>(socket: Socket, ms: number, asks: FirstBytes<T>): void {
  const wire = new StreamWire(socket);
  const { decide, onDecided, onTimeout } = asks;
  const decided = (decision: T, bytes: Buffer): void => {
    wire.toSocket();
    onDecided(decision, bytes);
  };
  readFirstOfWire(wire, ms, { decide, onDecided: decided, onTimeout });
}

/** Collects bytes of `wire`, after `first`, until one of `asks` is called. Its end before that is nobody's news. */
export function readFirstOfWire<T>(wire: Wire, ms: number, asks: FirstBytes<T>, first?: Buffer): void {
  const reader = new FirstReader(wire, ms, asks);
  wire.reader = reader;
  if (first !== undefined) reader.onData(first);
  if (wire.reader === reader) wire.resume();
}

class FirstReader<T> implements WireReader {
  readonly #wire: Wire;
  readonly #asks: FirstBytes<T>;
  readonly #timer: NodeJS.Timeout;
  #bytes: Buffer | undefined;

  constructor(wire: Wire, ms: number, asks: FirstBytes<T>) {
    this.#wire = wire;
    this.#asks = asks;
    this.#timer = setTimeout(() => this.onEnd(), ms);
  }

  onData(bytes: Buffer): void {
    // A copy: they are ours for the moment only.
    const all = this.#bytes === undefined ? Buffer.from(bytes) : Buffer.concat([this.#bytes, bytes]);
    this.#bytes = all;
    const decision = this.#asks.decide(all);
    if (decision !== undefined) {
      this.#done();
      this.#asks.onDecided(decision, all);
    } else if (all.length > MAX_FIRST) this.onEnd();
  }

  onEnd(): void {
    this.#done();
    this.#asks.onTimeout();
  }

  onDrain(): void {}

  onClose(): void {
    clearTimeout(this.#timer);
  }

  #done(): void {
    clearTimeout(this.#timer);
    this.#wire.reader = NOBODY;
    this.#wire.pause();
  }
}

/** `undecided`: more bytes are needed, as long as a deadline allows. */
type Detected = 'ssh' | 'tls' | 'http' | 'unknown' | 'undecided';

/** Bytes after which every connection is decided. */
export const DETECT_BYTES = 33;

const SSH = Buffer.from('SSH-');
const TLS_HANDSHAKE = 0x16;
const SPACE = 0x20;
/** Longest method. */
const MAX_METHOD = 32;

/** Decides by the bytes that came so far. */
export function detect(bytes: Buffer): Detected {
  const first = bytes[0];
  if (first === undefined) return 'undecided';
  if (first === TLS_HANDSHAKE) return 'tls';
  const compared = Math.min(bytes.length, SSH.length);
  if (bytes.compare(SSH, 0, compared, 0, compared) === 0) {
    // Four bytes decide; fewer may still become a method such as SEARCH, but not one with a dash after SSH.
    return bytes.length >= SSH.length ? 'ssh' : 'undecided';
  }
  return detectMethod(bytes);
}

/** An HTTP method in upper case and a space (RFC 9110, section 9.1). */
function detectMethod(bytes: Buffer): Detected {
  const end = Math.min(bytes.length, MAX_METHOD + 1);
  for (let at = 0; at < end; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === SPACE) return at === 0 ? 'unknown' : 'http';
    const isMethodLetter = (byte >= 0x41 && byte <= 0x5a) || byte === 0x2d || byte === 0x5f;
    if (!isMethodLetter || at === MAX_METHOD) return 'unknown';
  }
  return 'undecided';
}
