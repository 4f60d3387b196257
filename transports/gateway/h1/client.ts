/**
 * One client's connection: reads requests one after the other, has each decided and forwarded, and answers them in
 * order. What comes ahead of its turn waits, bounded, and then stays in the kernel.
 */
import type { ProxyDecision, ProxyForward, ProxyReply } from '../../../proto/gateway/traffic.ts';
import { BodyReader } from '../../wire/h1/body.ts';
import { RequestReader, TOO_SLOW } from '../../wire/h1/head-reader.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';
import { Inflow } from '../../wire/inflow.ts';
import type { Wire, WireReader } from '../../wire/wire.ts';
import { type CacheAnswer, type CachedAnswer, FORWARD } from './cache-hook.ts';
import { type ClientContext, decisionOf, entryOf, forwardedOf, type Requester, requesterOf } from './client-context.ts';
import { ClientWire, LINGER_MS, refusalOf } from './client-wire.ts';
import { Exchange } from './exchange.ts';
import type { ExchangeClient } from './exchange-sides.ts';
import { HeldBody } from './held-body.ts';
import { ownFile, Replay } from './replay.ts';
import { replyText } from './write-heads.ts';

type Phase = 'head' | 'idle' | 'exchange' | 'closing';

/** A connection. It reads its wire from the moment it is made. */
export class ClientConnection extends ClientWire implements ExchangeClient, WireReader {
  /** Who is on the other side: the client, or a proxy before it. */
  readonly peer: Requester;
  readonly #serverName: string | undefined;
  /** Who sent the request under way. */
  #requester: Requester;
  readonly #head = new RequestReader(this.context.isPlatformHost);
  #phase: Phase = 'idle';
  #request: RequestHead | undefined;
  #exchange: Exchange | Replay | undefined;
  /** When the request's head was complete, ms. */
  #began = 0;
  #body: BodyReader | undefined;
  readonly #inflow: Inflow;
  /** Of a request whose origin is not asked before its body is there. */
  #held: HeldBody | undefined;
  #hasContinued = false;
  #isReady = false;
  #hasEnded = false;
  #isDraining = false;
  #upstream = '';
  #isOfService = false;
  #isBroken = false;

  /** `serverName`: what the client called us in the TLS handshake; undefined without TLS. */
  constructor(wire: Wire, context: ClientContext, peer: string, first?: Buffer, serverName?: string) {
    super(wire, context);
    this.#inflow = new Inflow(wire);
    this.peer = { address: peer, isEncrypted: context.isEncrypted };
    this.#requester = this.peer;
    this.#serverName = serverName;
    wire.reader = this;
    context.deadlines.add(this);
    this.#wait('head', context.timeouts.headMs);
    if (first !== undefined && first.length > 0) this.onData(first);
    if (this.#inflow.isFlowing) wire.resume();
  }

  /** No further request is taken: the connection closes when it is idle, or with the answer under way. */
  drain(): void {
    this.#isDraining = true;
    if (this.#phase === 'idle' || (this.#phase === 'head' && this.#head.isEmpty)) this.#close();
  }

  onDeadline(): void {
    switch (this.#phase) {
      case 'idle':
      case 'head':
        // A client that never began has nothing to be told.
        if (this.#head.isEmpty) this.#close();
        else this.#refuse(TOO_SLOW);
        return;
      case 'exchange':
      case 'closing':
        if (this.#held !== undefined) this.#refuse(TOO_SLOW);
        else if (this.#exchange?.hasResponded !== false) this.abort();
        else this.#giveUp(this.#exchange);
    }
  }

  #giveUp(exchange: Exchange | Replay): void {
    exchange.abort();
    if (this.#isBodyRead) this.fail(504, 'The service behind this address did not answer in time.');
    else this.#refuse(TOO_SLOW);
  }

  onData(chunk: Buffer): void {
    if (this.#phase === 'closing') return;
    // In order: what came ahead has its turn first. A client that does not read its answers gets no more of them.
    if (this.#held !== undefined) {
      this.#inflow.keep(chunk, 0);
      this.#held.see(chunk);
      this.#beginHeld();
    } else if (!this.#inflow.isEmpty || (this.#request === undefined && this.wire.needsDrain)) {
      this.#inflow.keep(chunk, 0);
      this.#readBody();
    } else if (this.#request === undefined) this.#readHead(chunk);
    else this.#readBody(chunk);
  }

  #readHead(chunk: Buffer): void {
    const at = this.#head.beginOf(chunk);
    if (at === chunk.length) return;
    // The whole head has this long, however it drips.
    if (this.#head.isEmpty && this.#phase === 'idle') this.#wait('head', this.context.timeouts.headMs);
    const found = this.#head.push(chunk, at);
    if (found === undefined) return;
    if ('refuse' in found) {
      this.#refuse(found.refuse);
      return;
    }
    const { head } = found;
    this.#began = performance.now();
    this.#request = head;
    this.#body = new BodyReader(head.framing);
    this.#isReady = false;
    this.#hasContinued = false;
    this.#upstream = '';
    this.#isOfService = false;
    this.#isBroken = false;
    this.#wait('exchange', this.context.timeouts.stallMs);
    this.#inflow.keep(chunk, found.next);
    this.#requester = requesterOf(head, this.context, this.peer);
    const decision = decisionOf(head, this.context, this.#requester, this.#serverName);
    if (decision instanceof Promise) void decision.then((later) => this.#decided(head, later));
    else this.#decided(head, decision);
  }

  #decided(head: RequestHead, decision: ProxyDecision): void {
    const isReply = 'reply' in decision;
    if (this.#request !== head || this.#phase !== 'exchange') return void (isReply || decision.onOver?.());
    if (isReply) return void this.#answer(decision.reply);
    const [{ forward, target, cache: mode }, { address, isEncrypted }] = [decision, this.#requester];
    this.begins(decision, head, isEncrypted);
    const cache = decision.isGuarded === true ? undefined : this.context.cache;
    const asked = cache?.ask({ head, origin: forward, target, isEncrypted, address, mode }) ?? FORWARD;
    if (asked instanceof Promise) void asked.then((later) => this.#asked(head, decision, later));
    else this.#asked(head, decision, asked);
  }

  /** The cache has been asked: answers from it, or forwards. */
  #asked(head: RequestHead, decision: ProxyForward, answer: CacheAnswer): void {
    if (this.#request !== head || this.#phase !== 'exchange') {
      if (answer.kind === 'forward') answer.sink?.abort();
      return;
    }
    const { forward, target, isService, tenantOf } = decision;
    const keepAlive = head.keepAlive && !this.#isDraining;
    if (answer.kind === 'hit') {
      this.#upstream = 'cache';
      return void this.#replay(answer.answer, keepAlive, head.minor);
    }
    this.#upstream = `${forward.host}:${forward.port}`;
    if (answer.kind === 'fail') return void this.fail(answer.status, answer.reason);
    this.#isOfService = isService === true;
    if (this.#hasLeft) answer.sink?.abort();
    if (this.#hasLeft) return void this.#cutShort();
    const client = forwardedOf(head, this.context, this.#requester, decision);
    const [isOurs, isContainer] = [isService === true, tenantOf !== undefined];
    const address = isOurs || isContainer ? { ...forward, isService: isOurs, isContainer } : forward;
    const begin = () => {
      const about = { head, address, target, client, keepAlive, sink: answer.sink, says: answer.says };
      const exchange = new Exchange(this, this.context.upstreams, about);
      this.#exchange = exchange;
      exchange.start();
    };
    if (isService === true && answer.sink === undefined && !this.#isBodyRead) this.#hold(head, begin);
    else begin();
  }

  /** Waits for the body before the origin is asked. */
  #hold(head: RequestHead, begin: () => void): void {
    this.#held = new HeldBody(head.framing, begin);
    for (const chunk of this.#inflow.chunks) this.#held.see(chunk);
    this.#wait('exchange', this.context.timeouts.headMs);
    if (this.#hasEnded && !this.#held.isEnough) this.#cutShort();
    else if (!this.#beginHeld()) this.#sayContinue();
  }

  /** Asks the origin if enough of the body is there. */
  #beginHeld(): boolean {
    const held = this.#held;
    if (held?.isEnough !== true) return false;
    this.#held = undefined;
    this.progress();
    held.begin();
    return true;
  }

  #sayContinue(): void {
    if (this.#request?.expectsContinue !== true || this.#isBodyRead || this.#hasContinued) return;
    this.#hasContinued = true;
    this.wire.write('HTTP/1.1 100 Continue\r\n\r\n');
  }

  /** Hands the body to the exchange as far as it takes it: `fresh` if nothing waits before it. The rest is kept. */
  #readBody(fresh?: Buffer): void {
    const [exchange, body] = [this.#exchange, this.#body];
    let untouched = fresh;
    while (body !== undefined && !body.isDone && this.#isReady && exchange !== undefined) {
      const chunk = untouched ?? this.#inflow.shift();
      if (chunk === undefined) break;
      untouched = undefined;
      this.progress();
      let next: number;
      try {
        next = body.read(chunk, 0, (from, to) => {
          this.passes(to - from);
          this.#isReady = exchange.body(chunk.subarray(from, to));
        });
      } catch (error) {
        return void this.endWith(refusalOf(error), exchange);
      }
      if (next === chunk.length) continue;
      if (chunk === fresh) this.#inflow.keep(chunk, next);
      else this.#inflow.unshift(chunk.subarray(next));
    }
    if (untouched !== undefined) this.#inflow.keep(untouched, 0);
    if (this.#isBodyRead && this.#isReady) exchange?.endBody();
    if ((!this.#isBodyRead && this.#hasEnded && this.#inflow.isEmpty) || this.#hasLeft) this.#cutShort();
    else this.#inflow.flow();
  }

  onEnd(): void {
    this.#hasEnded = true;
    if (this.#phase === 'idle' || this.#phase === 'head') {
      // Whole requests wait for their turn.
      if (!this.#inflow.isEmpty) return;
      if (!this.#head.isEmpty) this.#refuse({ status: 400, body: 'The request broke off.\n' });
      else this.#close();
    } else if (this.#phase === 'exchange') {
      const isCut = !this.#isBodyRead && (this.#inflow.isEmpty || this.#held !== undefined);
      if (isCut || this.#hasLeft) this.#cutShort();
    }
  }

  /** Services of the platform take whoever has sent its last byte for one who left: their work ends with it. */
  get #hasLeft(): boolean {
    return this.#hasEnded && this.#isOfService && this.#isBodyRead && this.#inflow.isEmpty;
  }

  /** The client ended in the middle of a body, which the origin must not take for whole, or it has left. */
  #cutShort(): void {
    this.#exchange?.abort();
    this.abort();
  }

  onDrain(): void {
    if (this.#phase !== 'idle') {
      this.progress();
      this.#exchange?.resume();
    } else if (!this.#inflow.isEmpty) this.#goOn();
  }

  onClose(): void {
    this.context.deadlines.remove(this);
    this.isOver();
    const exchange = this.#exchange;
    if (exchange !== undefined) {
      this.#exchange = undefined;
      exchange.abort();
      this.#log(exchange.hasResponded ? exchange.sent.status : 499, exchange.sent.bytes);
    }
    this.#phase = 'closing';
    this.#held = undefined;
    this.#inflow.clear();
    this.context.onDone(this);
  }

  ready(): void {
    this.#sayContinue();
    this.resumeBody();
  }

  resumeBody(): void {
    this.#isReady = true;
    this.#readBody();
  }

  finish(keep: boolean): void {
    this.#logSent();
    this.#next(keep);
  }

  fail(status: 502 | 503 | 504, reason: string): void {
    this.#exchange = undefined;
    this.#isBroken = true;
    this.#answer({ status, body: `${reason}\n`, ...(status === 503 ? { headers: [['Retry-After', '1']] } : {}) });
  }

  destroy(): void {
    this.#isBroken = true;
    this.#logSent();
    this.abort();
  }

  switched(origin: Wire, rest: Buffer, originHost: string): void {
    const [{ host = '', upgrade: [protocol = ''] = [] }, { entrance }] = [this.#request ?? {}, this];
    this.#logSent();
    const wire = this.release();
    if (rest.length > 0) wire.write(rest);
    for (const chunk of this.#inflow.takeAll()) origin.write(chunk);
    this.context.onSwitch(wire, origin, { host, protocol, ...this.#requester, originHost, rest, entrance });
    this.context.onDone(this);
  }

  /** Answers from memory. */
  #replay(answer: CachedAnswer, keep: boolean, minor: 0 | 1): void {
    const replay = new Replay(this, answer, keep);
    this.#exchange = replay;
    replay.start(minor);
  }

  /** Answers a request that was understood; the connection goes on if its body has been read. */
  #answer(reply: ProxyReply): void {
    const { method = 'GET', minor = 1 } = this.#request ?? {};
    const keep = this.#mayContinue;
    if (reply.bytes !== undefined) return void this.#replay(ownFile(reply, reply.bytes, method), keep, minor);
    this.wire.write(Buffer.from(replyText(reply, method, keep, minor)));
    this.#log(reply.status, Buffer.byteLength(reply.body ?? ''));
    this.#next(keep);
  }

  /** Answers what was not understood, and closes: where the next request begins is not known. */
  #refuse(reply: ProxyReply): void {
    this.#exchange = undefined;
    this.#held = undefined;
    this.wire.write(Buffer.from(replyText(reply, this.#request?.method ?? 'GET', false, 1)));
    this.#log(reply.status, 0);
    this.#close();
  }

  protected override endWith(reply: ProxyReply, exchange = this.#exchange): void {
    exchange?.abort();
    if (exchange?.hasResponded === true) this.abort();
    else this.#refuse(reply);
  }

  /** Whether the whole request has come. */
  get #isBodyRead(): boolean {
    return this.#body === undefined || this.#body.isDone;
  }

  get #mayContinue(): boolean {
    return this.#request?.keepAlive === true && this.#isBodyRead && !this.#isDraining;
  }

  #next(keep: boolean): void {
    if (!keep || !this.#mayContinue) {
      this.#close();
      return;
    }
    this.#request = undefined;
    this.#body = undefined;
    this.#wait('idle', this.context.timeouts.idleMs);
    // Not from here: a thousand requests in one packet must not become a thousand calls deep.
    if (this.#inflow.isEmpty) {
      if (this.#hasEnded) this.#close();
    } else if (!this.wire.needsDrain) setImmediate(() => this.#goOn());
  }

  /** Takes the request that came ahead of its turn. */
  #goOn(): void {
    if (this.#phase !== 'idle') return;
    this.#readHead(this.#inflow.take());
    // The client sent its last and left: what it began is not a request.
    if (this.#hasEnded && this.#request === undefined) this.onEnd();
  }

  /** Sends what is written, then FIN; reads and drops what still comes: a reset would overtake the answer. */
  #close(): void {
    if (this.#phase === 'closing') return;
    this.#wait('closing', LINGER_MS);
    this.#inflow.clear();
    this.wire.resume();
    this.wire.end();
    if (this.#hasEnded) this.wire.destroySoon();
  }

  #wait(phase: Phase, ms: number): void {
    this.#phase = phase;
    this.grant(ms);
  }

  /** The exchange is over. */
  #logSent(): void {
    const { status, bytes } = this.#exchange?.sent ?? { status: 0, bytes: 0 };
    this.#exchange = undefined;
    this.#log(status, bytes);
  }

  #log(status: number, bytes: number): void {
    this.isOver();
    const ms = this.#request === undefined ? 0 : performance.now() - this.#began;
    const [{ address }, upstream, isBroken] = [this.#requester, this.#upstream, this.#isBroken];
    this.context.onAccess(entryOf(this.#request, { address, upstream, isBroken, status, bytes, ms }));
  }
}
