/** A stored response on its way to one client: at once when it is small, else in parts as the client takes them. */
import type { ProxyReply } from '../../../proto/gateway/traffic.ts';
import type { CachedAnswer } from './cache-hook.ts';
import type { Sent } from './exchange.ts';
import type { ExchangeClient } from './exchange-sides.ts';
import { replyHead } from './write-heads.ts';

/** A part, bytes: what a slow client keeps in memory beside the stored response itself. */
const PART = 65_536;

/** Takes the place of an exchange: `start`, `resume` when the client takes more, `abort` when it is gone. */
export class Replay {
  readonly sent: Sent;
  readonly hasResponded = true;
  readonly #client: ExchangeClient;
  readonly #answer: CachedAnswer;
  readonly #keepAlive: boolean;
  #body: Buffer | undefined;
  #release: (() => void) | undefined;
  #isOver = false;

  constructor(client: ExchangeClient, answer: CachedAnswer, keepAlive: boolean) {
    this.#client = client;
    this.#answer = answer;
    this.sent = { status: answer.status, bytes: 0 };
    this.#keepAlive = keepAlive;
  }

  start(minor: 0 | 1): void {
    const [first, body] = this.#answer.wire(this.#keepAlive, minor);
    if (body === undefined) {
      this.#client.write(first);
      this.sent.bytes = this.#answer.length;
      this.#finish();
      return;
    }
    this.#body = body;
    this.#release = this.#answer.hold();
    this.#client.cork();
    this.#client.write(first);
    this.resume();
    this.#client.uncork();
  }

  /** The client takes more. */
  resume(): void {
    const body = this.#body;
    while (body !== undefined && !this.#isOver) {
      const from = this.sent.bytes;
      const to = Math.min(body.length, from + PART);
      this.sent.bytes = to;
      const more = this.#client.writeStable(body.subarray(from, to));
      if (to === body.length) {
        this.#finish();
        return;
      }
      if (!more) return;
    }
  }

  abort(): void {
    this.#isOver = true;
    this.#release?.();
  }

  /** The request has no body. */
  body(): boolean {
    return true;
  }

  endBody(): void {}

  #finish(): void {
    this.abort();
    this.#client.finish(this.#keepAlive);
  }
}

/** Nothing is counted: the bytes are held for as long as the gateway runs. */
const HOLD = () => () => {};

/** A file of the gateway's own as a stored response. `bytes`: the body of `reply`, whose status is 200. */
export function ownFile(reply: ProxyReply, bytes: Buffer, method: string): CachedAnswer {
  const isBare = method === 'HEAD' || bytes.length === 0;
  return {
    status: 200,
    length: isBare ? 0 : bytes.length,
    wire: (keepAlive, minor) => {
      const head = Buffer.from(replyHead(reply, bytes.length, keepAlive, minor), 'latin1');
      return isBare ? [head] : [head, bytes];
    },
    hold: HOLD,
  };
}
