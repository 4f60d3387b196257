/**
 * What processes of the platform say to each other on a broker that others use as well: encrypted and authenticated
 * under keys that are derived from JWT_SECRET. So whoever may publish there cannot speak for the platform, and whoever
 * may listen learns subjects and sizes, nothing else.
 *
 *   kind (1), name of the secret (8), sender (16), number (8), time in ms (6), tag (16), what was sealed
 *
 * A sender is drawn at random at each start and has keys of its own, so its numbers, counted up, are nonces that never
 * come twice. Subject, reply subject and all that stands before the tag are authenticated with the content. A message
 * counts for two minutes, and, at each subscription, once. Those that wait for nothing are sealed with
 * ChaCha20-Poly1305 (RFC 8439), at little cost; those that a stream keeps with AES-256-GCM (NIST SP 800-38D), as ever:
 * it may have some of a version before.
 */
import { type KeyObject, randomBytes } from 'node:crypto';
import { CodedError } from '../../lib/errors.ts';
import {
  derivedKey,
  derivedKeyring,
  KEY_ID_BYTES,
  type Keyring,
  type SharedSecret,
} from '../../proto/auth/shared-secret.ts';
import type { SharedClock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import { type FrameCipher, type FrameLayout, NUMBER_BYTES, OpensslFrames, SodiumFrames, TAG_BYTES } from './frames.ts';

/** A message to whoever listens now; a message that a stream keeps, which may come late and again. */
type EnvelopeKind = 'core' | 'kept';
/** Never used again: 1, core messages of format 2 (proto/ports/placement.ts). */
const KINDS: Readonly<Record<EnvelopeKind, number>> = { core: 3, kept: 2 };

const SENDER_BYTES = 16;
const SENDER_NAME_AT = 1;
const SENDER_AT = SENDER_NAME_AT + KEY_ID_BYTES;
const NUMBER_AT = SENDER_AT + SENDER_BYTES;
const TIME_AT = NUMBER_AT + NUMBER_BYTES;
const TAG_AT = TIME_AT + 6;
const LAYOUT: FrameLayout = { headBytes: TAG_AT, numberAt: NUMBER_AT };
/** What an envelope adds to a message. */
export const ENVELOPE_BYTES = TAG_AT + TAG_BYTES;

/** How old a message may be, and how far clocks may be apart, ms. */
export const FRESH_MS = 120_000;
/** Senders remembered: of keys, which are made again at need, and of the numbers that were seen. */
const MAX_SENDERS = 4096;

/** Why a message is not taken. The text is for operators. */
class EnvelopeError extends CodedError<'unsealed' | 'unknown_key' | 'forged' | 'stale' | 'replayed'> {}

/** What one subscription has seen: each message is taken once. */
export interface Seen {
  /** Throws EnvelopeError. */
  check(sender: string, number: number, time: number): void;
}

/** A sender whose messages were opened. `name`: of the secret, and its own. */
interface Sender {
  readonly name: string;
  readonly cipher: FrameCipher;
}

/** Seals and opens for one process. */
export class Envelopes {
  readonly #keyring: Keyring;
  readonly #clock: SharedClock;
  readonly #own: Readonly<Record<EnvelopeKind, FrameCipher>>;
  /** Kind, name of the secret and sender, for both kinds. */
  readonly #heads: Readonly<Record<EnvelopeKind, Buffer>>;
  readonly #others: Readonly<Record<EnvelopeKind, Map<string, Sender>>> = { core: new Map(), kept: new Map() };
  #number = 0;

  /** Seals with the first secret, opens what was sealed with any. */
  constructor(secret: SharedSecret, clock: SharedClock) {
    this.#keyring = derivedKeyring(secret, 'between nodes');
    this.#clock = clock;
    const [{ id, key }] = this.#keyring;
    const sender = randomBytes(SENDER_BYTES);
    this.#own = { core: cipherOf('core', key, sender), kept: cipherOf('kept', key, sender) };
    const head = (kind: EnvelopeKind) => Buffer.concat([Buffer.of(KINDS[kind]), Buffer.from(id, 'base64url'), sender]);
    this.#heads = { core: head('core'), kept: head('kept') };
  }

  /** The message for `subject`, sealed. `reply`: where its answer goes. */
  seal(kind: EnvelopeKind, subject: string, data: Uint8Array, reply = ''): Uint8Array {
    this.#number += 1;
    const sealed = Buffer.allocUnsafe(ENVELOPE_BYTES + data.byteLength);
    sealed.set(this.#heads[kind]);
    writeNumber(sealed, this.#number);
    sealed.writeUIntBE(Math.floor(this.#clock.now()), TIME_AT, 6);
    this.#own[kind].seal(sealed, about(subject, reply), data);
    return sealed;
  }

  /** What was sealed for `subject`, if it is fresh and, with `seen`, new. Throws EnvelopeError. */
  open(subject: string, data: Uint8Array, reply = '', seen?: Seen): Uint8Array {
    const sealed = viewOf(data);
    const { sender, content } = this.#open('core', subject, sealed, reply);
    const time = sealed.readUIntBE(TIME_AT, 6);
    const age = this.#clock.now() - time;
    if (Math.abs(age) > FRESH_MS)
      throw new EnvelopeError(
        'stale',
        `a message is ${Math.round(age / 1000)} s old: it was held up, or clocks differ by that`,
      );
    seen?.check(sender.name, readNumber(sealed), time);
    return content;
  }

  /** What was sealed for a stream: at any time, and as often as it comes. Throws EnvelopeError. */
  openKept(subject: string, data: Uint8Array): Uint8Array {
    return this.#open('kept', subject, viewOf(data), '').content;
  }

  #open(kind: EnvelopeKind, subject: string, sealed: Buffer, reply: string): { sender: Sender; content: Uint8Array } {
    if (sealed.length < ENVELOPE_BYTES || sealed[0] !== KINDS[kind])
      throw new EnvelopeError('unsealed', 'a message is not sealed: it does not come from a process of this version');
    const others = this.#others[kind];
    const name = sealed.toString('latin1', SENDER_NAME_AT, NUMBER_AT);
    const known = others.get(name);
    const sender = known ?? { name, cipher: this.#cipherOf(kind, sealed) };
    const content = sender.cipher.open(sealed, about(subject, reply));
    if (content === undefined)
      throw new EnvelopeError('forged', 'a message was not sealed by the platform, or was changed on its way');
    // Only of those who have proven themselves: strangers could fill it.
    if (known === undefined) {
      if (others.size >= MAX_SENDERS) others.clear();
      others.set(name, sender);
    }
    return { sender, content };
  }

  #cipherOf(kind: EnvelopeKind, sealed: Buffer): FrameCipher {
    const secret = sealed.toString('base64url', SENDER_NAME_AT, SENDER_AT);
    const named = this.#keyring.find(({ id }) => id === secret);
    if (named === undefined)
      throw new EnvelopeError('unknown_key', 'a message was sealed with another JWT_SECRET than those of this process');
    return cipherOf(kind, named.key, sealed.subarray(SENDER_AT, NUMBER_AT));
  }
}

/** Each kind has a key of its own: two ciphers must not share one. */
function cipherOf(kind: EnvelopeKind, secret: KeyObject, sender: Uint8Array): FrameCipher {
  return kind === 'core'
    ? new SodiumFrames(derivedKey(secret, sender, 'sender of core messages'), LAYOUT)
    : new OpensslFrames('aes-256-gcm', derivedKey(secret, sender, 'sender'), LAYOUT);
}

interface SeenOfSender {
  readonly window: ReplayWindow;
  newest: number;
}

/** Remembers what a subscription has seen, in bounded memory: what it forgets is too old to be taken. */
export class SeenMessages implements Seen {
  readonly #senders = new Map<string, SeenOfSender>();
  /** Of senders that are not known, only what is later than this is taken. */
  #floor = 0;

  check(sender: string, number: number, time: number): void {
    let seen = this.#senders.get(sender);
    if (seen === undefined) {
      if (time <= this.#floor) throw new EnvelopeError('replayed', 'a message is older than what is remembered');
      if (this.#senders.size >= MAX_SENDERS) this.#forget();
      seen = { window: new ReplayWindow(), newest: time };
      this.#senders.set(sender, seen);
    }
    if (!seen.window.accept(number)) throw new EnvelopeError('replayed', 'a message came a second time');
    if (time > seen.newest) seen.newest = time;
  }

  /** The half that was silent longest. */
  #forget(): void {
    const oldest = [...this.#senders].sort(([, a], [, b]) => a.newest - b.newest).slice(0, MAX_SENDERS / 2);
    for (const [sender, { newest }] of oldest) {
      this.#senders.delete(sender);
      this.#floor = Math.max(this.#floor, newest);
    }
  }
}

/** No subject has a NUL. */
function about(subject: string, reply: string): string {
  return `${subject}\0${reply}`;
}

function viewOf(data: Uint8Array): Buffer {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}

/** 8 bytes: numbers stay below 2^53. */
function writeNumber(to: Buffer, number: number): void {
  to.writeUInt32BE(Math.floor(number / 2 ** 32), NUMBER_AT);
  to.writeUInt32BE(number >>> 0, NUMBER_AT + 4);
}

function readNumber(from: Buffer): number {
  return from.readUInt32BE(NUMBER_AT) * 2 ** 32 + from.readUInt32BE(NUMBER_AT + 4);
}

const TELL_EVERY_MS = 60_000;

/** Tells operators of messages that were not taken: of the first at once, of others once a minute with their number. */
export class Refusals {
  readonly #log: Log;
  readonly #told = new Map<string, { at: number; since: number }>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Somebody's message for `subject` was refused. Rethrows what is no EnvelopeError. */
  note(subject: string, error: unknown): void {
    if (!(error instanceof EnvelopeError)) throw error;
    const now = performance.now();
    const told = this.#told.get(error.code);
    if (told !== undefined && now - told.at < TELL_EVERY_MS) {
      told.since += 1;
      return;
    }
    this.#told.set(error.code, { at: now, since: 0 });
    const others = told?.since ?? 0;
    this.#log.warn({ subject, reason: error.code, others, error: error.message }, 'refused a message on the bus');
  }
}

const WORDS = 256;
const BITS = 32 * WORDS;
/** A number so far behind the newest is refused: nobody knows any more whether it was seen. */
export const REPLAY_WINDOW = BITS - 32;

/** Which numbers of a sender were seen: a bitmap that moves with the newest (RFC 4303, 3.4.3), unshifted (RFC 6479). */
export class ReplayWindow {
  readonly #words = new Uint32Array(WORDS);
  #newest = 0;

  /** Whether `number` (from 1) is new; it is not from here on. */
  accept(number: number): boolean {
    if (number + REPLAY_WINDOW <= this.#newest) return false;
    const word = Math.floor(number / 32);
    if (number > this.#newest) {
      const last = Math.floor(this.#newest / 32);
      if (word - last >= WORDS) this.#words.fill(0);
      else for (let next = last + 1; next <= word; next++) this.#words[next % WORDS] = 0;
      this.#newest = number;
    }
    const at = word % WORDS;
    const bit = 1 << (number % 32);
    const seen = this.#words[at] ?? 0;
    this.#words[at] = seen | bit;
    return (seen & bit) === 0;
  }
}
