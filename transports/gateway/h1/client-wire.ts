import type { Entrance } from '../../../proto/gateway/gateway-decider.ts';
import type { ProxyForward, ProxyReply } from '../../../proto/gateway/traffic.ts';
import type { Timed } from '../../wire/deadlines.ts';
import { ChunkError } from '../../wire/h1/body.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';
import { NOBODY, type Wire } from '../../wire/wire.ts';
import type { ClientContext } from './client-context.ts';

/** How long a client may take to read a last answer before it is cut off, ms. */
export const LINGER_MS = 2000;

/** The rest of a body is not taken. */
class BodyRefused extends Error {
  readonly reply: ProxyReply;

  constructor(reply: ProxyReply) {
    super('the body is refused');
    this.name = 'BodyRefused';
    this.reply = reply;
  }
}

/** The answer to a body that is malformed, or that is not taken. Throws any other error. */
export function refusalOf(error: unknown): ProxyReply {
  if (error instanceof ChunkError) return { status: 400, body: `${error.message}\n` };
  if (error instanceof BodyRefused) return error.reply;
  throw error;
}

/** A client's wire as it is written to, and how long the client has for what it does now. */
export abstract class ClientWire implements Timed {
  deadline = Number.POSITIVE_INFINITY;
  protected readonly wire: Wire;
  protected readonly context: ClientContext;
  /** Told when the request under way is over. */
  #onOver: (() => void) | undefined;
  /** Told of its body. */
  #onBody: ProxyForward['onBody'];
  /** How it was forwarded, and what it asked for. */
  #underWay: ProxyForward | undefined;
  #head: RequestHead | undefined;
  #isEncrypted = false;

  constructor(wire: Wire, context: ClientContext) {
    this.wire = wire;
    this.context = context;
  }

  abstract onDeadline(): void;

  /** Ends the request under way: with `reply` if it has no answer yet, else with the connection. */
  protected abstract endWith(reply: ProxyReply): void;

  /** Ends it now. */
  abort(): void {
    this.wire.destroy();
  }

  write(data: string | Buffer): boolean {
    return this.wire.write(data);
  }

  writeStable(bytes: Buffer): boolean {
    return this.wire.writeStable(bytes);
  }

  cork(): void {
    this.wire.cork();
  }

  uncork(): void {
    this.wire.uncork();
  }

  /** A request is forwarded. */
  protected begins(forward: ProxyForward, head: RequestHead, isEncrypted: boolean): void {
    this.#onOver = forward.onOver;
    this.#onBody = forward.onBody;
    this.#underWay = forward;
    this.#head = head;
    this.#isEncrypted = isEncrypted;
    forward.onBegin?.((reply) => {
      if (this.#underWay === forward) this.endWith(reply);
    });
  }

  /** By which way the request under way came in; undefined for one that no container answers. */
  get entrance(): Entrance | undefined {
    const [forward, head] = [this.#underWay, this.#head];
    if (forward?.containerId === undefined || head === undefined) return undefined;
    const { containerId, rule } = forward;
    return { host: head.host, port: this.context.port, isEncrypted: this.#isEncrypted, containerId, rule };
  }

  /** Returns what ends the request under way, unless it is over by then. */
  ending(): () => void {
    const forward = this.#underWay;
    return () => {
      if (forward !== undefined && this.#underWay === forward) this.abort();
    };
  }

  /** So many bytes of its body are to go on. Throws what `refusalOf` reads when they may not. */
  protected passes(bytes: number): void {
    const reply = this.#onBody?.(bytes);
    if (reply !== undefined) throw new BodyRefused(reply);
  }

  /** The request under way, if any, is over. */
  protected isOver(): void {
    const onOver = this.#onOver;
    this.#onOver = undefined;
    this.#onBody = undefined;
    this.#underWay = undefined;
    this.#head = undefined;
    onOver?.();
  }

  /** A request or a response gets on: the client has its time anew. */
  progress(): void {
    this.grant(this.context.timeouts.stallMs);
  }

  /** It has so long from now. */
  protected grant(ms: number): void {
    this.deadline = this.context.deadlines.now() + ms;
  }

  /** Gives the wire away, paused: nobody reads it, and no deadline ends it. */
  protected release(): Wire {
    this.context.deadlines.remove(this);
    this.wire.reader = NOBODY;
    this.wire.pause();
    return this.wire;
  }
}
