import { randomBytes } from 'node:crypto';
import { headers, type Msg } from '@nats-io/transport-node';
import { z } from 'zod';
import { jsonOf, viewOf } from '../../lib/input.ts';
import { backoffMs } from '../../lib/waiting.ts';
import { BusError } from '../../proto/ports/bus.ts';
import type { Log } from '../../proto/ports/log.ts';
import { type LinkSubscription, messageOf, type NatsLink } from './nats-link.ts';

/** Most messages and bytes sent and not yet acknowledged, and most bytes that wait to be sent. */
const MAX_FLYING = 8192;
const MAX_FLYING_BYTES = 8 << 20;
const MAX_WAITING_BYTES = 64 << 20;
/** What a message costs besides its payload, so that empty ones are bounded too. */
const OVERHEAD_BYTES = 128;
/** An acknowledgement that did not come within this time is asked for by sending again, under the same id. */
const ACK_MS = 5000;
const NO_ANSWER = 'no acknowledgement came';
const TICK_MS = 100;
const BACKOFF = { minMs: 50, maxMs: 2000 };

/** Where a message is; `duplicate` when it was stored before under the same id. */
interface Acknowledged {
  readonly seq: number;
  readonly duplicate: boolean;
}

interface PublisherOptions {
  readonly link: NatsLink;
  readonly log: Log;
  /** How long a message is tried, ms. */
  readonly patienceMs: number;
  /** Asked when nothing takes a subject: whether there is now a stream that does. Rejects when nobody can tell. */
  readonly findStream: (subject: string) => Promise<boolean>;
}

interface PublishEntry {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly msgId: string;
  /** The caller chose the id: whether the message counts as a duplicate is for it to know. */
  readonly chosen: boolean;
  readonly bytes: number;
  readonly deadline: number;
  readonly resolve: (stored: Acknowledged) => void;
  readonly reject: (error: Error) => void;
  attempts: number;
  /** When to send again; Infinity while that is being found out. */
  due: number;
  problem: string;
}

/**
 * Publishes into streams with many acknowledgements outstanding. The client's own call makes a request of each message,
 * a tenth as fast; here all acknowledgements come to one inbox under the message's number. Every message has an id, so
 * that sending it again after a lost connection stores it once.
 */
export class NatsPublisher {
  readonly #options: PublisherOptions;
  readonly #link: NatsLink;
  /** The one header of a message, encoded while it is published: an object for each would be a third of the work. */
  readonly #header = Object.assign(headers(), {
    text: '',
    encode(): Uint8Array {
      return Buffer.from(this.text);
    },
  });
  readonly #inbox = `_INBOX.${randomBytes(12).toString('hex')}`;
  readonly #flying = new Map<number, PublishEntry>();
  readonly #subscription: LinkSubscription;
  readonly #resend = () => this.#sendAgain();
  readonly #idle = new Set<() => void>();
  #waiting: PublishEntry[] = [];
  /** Index of the first that waits: taking from the front of a long array costs. */
  #first = 0;
  #flyingBytes = 0;
  #waitingBytes = 0;
  /** Ids made here. */
  #number = 0;
  /** Numbers of messages as sent; one that is sent again keeps its own, so that a late acknowledgement counts. */
  #sent = 0;
  #timer: NodeJS.Timeout | undefined;
  #pumping: NodeJS.Immediate | undefined;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#link = options.link;
    const prefix = this.#inbox.length + 1;
    this.#subscription = this.#link.subscribe(`${this.#inbox}.*`, (message) =>
      this.#answered(Number(message.subject.slice(prefix)), message),
    );
    this.#link.onUp(this.#resend);
  }

  publish(subject: string, data: Uint8Array, msgId: string | undefined): Promise<Acknowledged> {
    const bytes = data.byteLength + OVERHEAD_BYTES;
    if (this.#waitingBytes + this.#flyingBytes + bytes > MAX_WAITING_BYTES) {
      return Promise.reject(new BusError('unavailable', 'Too much waits to be published.'));
    }
    return new Promise((resolve, reject) => {
      this.#number += 1;
      this.#waiting.push({
        subject,
        data: new Uint8Array(data),
        msgId: msgId ?? `${this.#inbox}.${this.#number}`,
        chosen: msgId !== undefined,
        bytes,
        deadline: performance.now() + this.#options.patienceMs,
        resolve,
        reject,
        attempts: 0,
        due: 0,
        problem: NO_ANSWER,
      });
      this.#waitingBytes += bytes;
      this.#schedule();
      this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
    });
  }

  /** Resolves once nothing waits for an acknowledgement, at the latest when the patience is over. */
  async idle(): Promise<void> {
    if (this.#flying.size + this.#waiting.length - this.#first === 0) return;
    await new Promise<void>((resolve) => this.#idle.add(resolve));
  }

  /** What is not acknowledged is rejected as `closed`. */
  close(): void {
    this.#subscription.end();
    this.#link.offUp(this.#resend);
    for (const [number, entry] of this.#flying) this.#fail(number, entry, new BusError('closed', 'The bus is closed.'));
    for (const { reject } of this.#waiting.slice(this.#first)) reject(new BusError('closed', 'The bus is closed.'));
    this.#waiting = [];
    this.#first = 0;
    clearImmediate(this.#pumping);
    this.#rest();
  }

  /** Sends once a turn: the client writes to its socket at every step, which for single messages costs most. */
  #schedule(): void {
    this.#pumping ??= setImmediate(() => {
      this.#pumping = undefined;
      this.#pump();
    });
  }

  #pump(): void {
    if (!this.#link.isUp) return;
    while (this.#first < this.#waiting.length) {
      if (this.#flying.size >= MAX_FLYING || this.#flyingBytes >= MAX_FLYING_BYTES) break;
      const entry = this.#waiting[this.#first];
      if (entry === undefined) break;
      this.#first += 1;
      this.#waitingBytes -= entry.bytes;
      this.#flyingBytes += entry.bytes;
      const number = ++this.#sent;
      this.#flying.set(number, entry);
      this.#send(number, entry);
    }
    if (this.#first === this.#waiting.length) {
      this.#waiting = [];
      this.#first = 0;
    } else if (this.#first > 4096) {
      this.#waiting = this.#waiting.slice(this.#first);
      this.#first = 0;
    }
  }

  #send(number: number, entry: PublishEntry): void {
    entry.attempts += 1;
    entry.due = performance.now() + ACK_MS;
    try {
      const reply = `${this.#inbox}.${number}`;
      this.#header.text = `NATS/1.0\r\nNats-Msg-Id: ${entry.msgId}\r\n\r\n`;
      this.#link.connection.publish(entry.subject, entry.data, { reply, headers: this.#header });
    } catch (error) {
      // The client checks the size against the server's own limit.
      if (messageOf(error).includes('max_payload')) {
        this.#fail(
          number,
          entry,
          new BusError('too_large', 'The NATS server takes no message of this size.', { cause: error }),
        );
      } else entry.problem = messageOf(error);
    }
  }

  #answered(number: number, message: Msg): void {
    const entry = this.#flying.get(number);
    if (entry === undefined) return;
    if (message.headers?.code === 503) {
      this.#look(number, entry);
      return;
    }
    const ack = readAck(message);
    if (ack === undefined) return;
    if ('seq' in ack) {
      this.#land(number, entry);
      // A repeat of our own making is no duplicate to a caller who gave no id.
      entry.resolve({ seq: ack.seq, duplicate: ack.duplicate && entry.chosen });
    } else if (ack.error.passing) {
      entry.problem = ack.error.text;
      entry.due = performance.now() + retryMs(entry.attempts);
    } else {
      this.#fail(number, entry, new BusError(ack.error.tooLarge ? 'too_large' : 'refused', `NATS: ${ack.error.text}`));
    }
  }

  /** Nobody took it: is there no stream, or is it not there yet? */
  #look(number: number, entry: PublishEntry): void {
    entry.due = Number.POSITIVE_INFINITY;
    entry.problem = 'no stream takes it';
    this.#options.findStream(entry.subject).then(
      (found) => {
        if (!found) this.#fail(number, entry, new BusError('no_stream', `No stream takes ${entry.subject}.`));
        else {
          entry.problem = 'the stream does not answer';
          entry.due = performance.now() + (entry.attempts === 1 ? 0 : retryMs(entry.attempts));
        }
      },
      (error: unknown) => {
        entry.problem = messageOf(error);
        entry.due = performance.now() + retryMs(entry.attempts);
      },
    );
  }

  #tick(): void {
    const now = performance.now();
    for (const [number, entry] of this.#flying) {
      if (now >= entry.deadline) this.#giveUp(number, entry);
      else if (now >= entry.due && this.#link.isUp) {
        // Somebody may listen on the subject although no stream does: then nothing tells that none took it.
        if (entry.problem === NO_ANSWER && entry.attempts > 0) this.#look(number, entry);
        else this.#send(number, entry);
      }
    }
    while (this.#first < this.#waiting.length && (this.#waiting[this.#first]?.deadline ?? 0) <= now) {
      const entry = this.#waiting[this.#first];
      this.#first += 1;
      this.#waitingBytes -= entry?.bytes ?? 0;
      entry?.reject(new BusError('unavailable', this.#link.problem ?? 'NATS takes too long.'));
    }
    this.#pump();
    this.#rest();
  }

  /** After a reconnect: all that was on its way may be lost. */
  #sendAgain(): void {
    if (this.#flying.size > 0) this.#options.log.info({ messages: this.#flying.size }, 'publishing again');
    for (const [number, entry] of this.#flying) this.#send(number, entry);
    this.#pump();
  }

  #giveUp(number: number, entry: PublishEntry): void {
    const reason = this.#link.problem ?? entry.problem;
    this.#fail(
      number,
      entry,
      new BusError('unavailable', `NATS did not take a message for ${entry.subject}: ${reason}`),
    );
  }

  #fail(number: number, entry: PublishEntry, error: BusError): void {
    if (this.#flying.get(number) !== entry) return;
    this.#land(number, entry);
    entry.reject(error);
  }

  #land(number: number, entry: PublishEntry): void {
    this.#flying.delete(number);
    this.#flyingBytes -= entry.bytes;
    if (this.#first < this.#waiting.length) this.#schedule();
    else if (this.#idle.size > 0) this.#rest();
  }

  #rest(): void {
    if (this.#flying.size + this.#waiting.length - this.#first > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const done of this.#idle) done();
    this.#idle.clear();
  }
}

function retryMs(attempts: number): number {
  return backoffMs(attempts, BACKOFF);
}

type Ack =
  | Acknowledged
  | { readonly error: { readonly text: string; readonly passing: boolean; readonly tooLarge: boolean } };

const STORED = /^\{"stream":"[\w-]+", ?"seq":([1-9]\d*)\}$/;

const ackView = z.union([
  z.object({ seq: z.number().positive(), duplicate: z.boolean().default(false) }),
  z.object({
    error: z.object({
      description: z.string().default('refused'),
      code: z.number().default(500),
      err_code: z.number().optional(),
    }),
  }),
]);

/** JetStream's answer to a publish; undefined for what is none. */
function readAck(message: Msg): Ack | undefined {
  const answer = viewOf(message.data).toString('latin1');
  // Nearly all are `{"stream":"NAME","seq":1}`: a tenth of the work of parsing them.
  const plain = STORED.exec(answer)?.[1];
  if (plain !== undefined) return { seq: Number(plain), duplicate: false };
  const { data } = ackView.safeParse(jsonOf(answer));
  if (data === undefined || 'seq' in data) return data;
  const { description, code, err_code } = data.error;
  // 10054: the message is larger than the stream's maximum.
  return { error: { text: description, passing: code >= 500, tooLarge: err_code === 10054 } };
}
