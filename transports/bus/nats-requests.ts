/** Requests over NATS: one subscription for all answers, so that a request costs one message and its answer another. */
import { createInbox, type Msg } from '@nats-io/transport-node';
import { BusError } from '../../proto/ports/bus.ts';
import type { Envelopes, Refusals } from './envelopes.ts';
import { asBusError, type LinkSubscription, type NatsLink } from './nats-link.ts';

interface OpenRequest {
  readonly subject: string;
  resolve(data: Uint8Array): void;
  reject(error: Error): void;
}

/** What the server answers with when nobody is there (NATS protocol, "no responders"): a header with this status. */
const NOBODY = 503;

/** The open requests of one bus. */
export class NatsRequests {
  readonly #link: NatsLink;
  readonly #envelopes: Envelopes;
  readonly #refusals: Refusals;
  readonly #inbox = createInbox();
  readonly #open = new Map<string, OpenRequest>();
  #answers: LinkSubscription | undefined;
  #next = 0;

  constructor(link: NatsLink, envelopes: Envelopes, refusals: Refusals) {
    this.#link = link;
    this.#envelopes = envelopes;
    this.#refusals = refusals;
  }

  /** Sends `data`, which nobody may change any more. Rejects `timeout`, `no_responders`, or as a connection fails. */
  send(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    return this.#link.isUp ? this.#send(subject, data, timeoutMs) : this.#sendLater(subject, data, timeoutMs);
  }

  async #sendLater(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    const began = performance.now();
    await this.#link.wait(timeoutMs);
    return this.#send(subject, data, Math.max(1, timeoutMs - (performance.now() - began)));
  }

  /** Ends all of them with `error`, and the subscription. */
  close(error: BusError): void {
    for (const { reject } of [...this.#open.values()]) reject(error);
    this.#answers?.end();
  }

  #send(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    this.#answers ??= this.#link.subscribe(`${this.#inbox}.*`, (message) => this.#answered(message));
    this.#next += 1;
    const reply = `${this.#inbox}.${this.#next}`;
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        this.#open.delete(reply);
      };
      const fail = (error: Error) => {
        end();
        reject(error);
      };
      // Whole numbers: timers of one length share a list.
      const timer = setTimeout(
        () => fail(new BusError('timeout', `No answer from ${subject} within ${Math.ceil(timeoutMs)} ms.`)),
        Math.ceil(timeoutMs),
      );
      this.#open.set(reply, {
        subject,
        resolve: (answer) => {
          end();
          resolve(answer);
        },
        reject: fail,
      });
      try {
        this.#link.connection.publish(subject, this.#envelopes.seal('core', subject, data, reply), { reply });
      } catch (error) {
        fail(asBusError(error, 'ask'));
      }
    });
  }

  #answered(message: Msg): void {
    const open = this.#open.get(message.subject);
    // It came too late.
    if (open === undefined) return;
    if (message.data.length === 0 && message.headers?.code === NOBODY) {
      open.reject(new BusError('no_responders', `Nobody answers ${open.subject}.`));
      return;
    }
    let answer: Uint8Array;
    try {
      answer = this.#envelopes.open(message.subject, message.data);
    } catch (error) {
      // The real answer may still come.
      this.#refusals.note(open.subject, error);
      return;
    }
    open.resolve(answer);
  }
}
