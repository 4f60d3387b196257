/**
 * Clients of the monitor's streams: server-sent events and sockets. Each is sent the newest snapshot of each kind,
 * whenever it can take it, and holds no bytes of its own: what waits for a slow reader is only marked as waiting.
 */
import type { EventStream } from '../../proto/endpoint.ts';
import type { ByteSink, Socket } from '../../proto/ports/http.ts';
import { ActorError, type AnyRef, type SpawnOptions, spawn, stop } from '../../supervision/index.ts';
import type { Connection } from '../service/connection.ts';
import type { Client, Subscription } from './broadcaster.ts';
import type { SnapshotKind } from './snapshots.ts';

/** What a client is sent. */
type Push = SnapshotKind | 'ping';

// What is true of a client, as bits of one small integer: a field each would weigh more than the rest of it.
const MARKS = { cluster: 1, pods: 2, ping: 4 } as const;
/** Something waits to be written. */
const WAITING = MARKS.cluster | MARKS.pods | MARKS.ping;
/** It takes nothing before `drain`: it was not opened yet, or its reader is slow. */
const FULL = 8;
/** The broadcaster knows it. */
const INSIDE = 16;

/** What event streams and sockets share; each writes in its own form. */
abstract class Subscriber implements Client {
  readonly subscription: Subscription;
  place = -1;
  #flags = FULL;

  constructor(subscription: Subscription) {
    this.subscription = subscription;
  }

  /** Which number counts it. */
  protected abstract readonly counted: 'streams' | 'sockets';
  /** Writes to the client. Returns false when it is to be left alone until `drain`. */
  protected abstract write(what: Push): boolean;
  abstract end(): void;

  /** Whether the broadcaster knows it. */
  protected get isInside(): boolean {
    return (this.#flags & INSIDE) !== 0;
  }

  /** From here on the broadcaster tells it of snapshots. */
  protected enter(): void {
    const { broadcaster } = this.subscription;
    this.#flags |= INSIDE;
    broadcaster.numbers[this.counted] += 1;
    broadcaster.add(this);
  }

  /** Nothing is sent any more. Again does nothing. */
  protected leave(): void {
    if (!this.isInside) return;
    const { broadcaster } = this.subscription;
    this.#flags &= ~INSIDE;
    broadcaster.numbers[this.counted] -= 1;
    broadcaster.remove(this);
  }

  tell(kind: SnapshotKind): void {
    if ((this.#flags & MARKS[kind]) !== 0) this.subscription.broadcaster.numbers.skipped += 1;
    this.send(MARKS[kind]);
  }

  ping(): void {
    this.send(MARKS.ping);
  }

  /** It can take something. */
  drain(): void {
    this.#flags &= ~FULL;
    this.send(0);
  }

  /** Writes what waits, that too, as long as the reader takes it. (As `#send` it would take a word of each.) */
  protected send(marks: number): void {
    this.#flags |= marks;
    while ((this.#flags & (FULL | INSIDE)) === INSIDE && (this.#flags & WAITING) !== 0) {
      const what = (this.#flags & MARKS.cluster) !== 0 ? 'cluster' : (this.#flags & MARKS.pods) !== 0 ? 'pods' : 'ping';
      this.#flags &= ~MARKS[what];
      if (!this.write(what)) this.#flags |= FULL;
    }
  }
}

/** How soon a browser comes back when the stream ends, and a comment that makes proxies pass the head on. */
const GREETING = Buffer.from('retry: 3000\n: troupe\n\n');
const PING = Buffer.from(': ping\n\n');
const asItIs = (state: EventsClient) => state;

/**
 * Writes events to one client, from its request to the end of the stream. Its actor ends it with the service; it is
 * told nothing. The client is also its actor's options, and its state: most of what an object would cost only says so.
 */
export class EventsClient extends Subscriber implements EventStream, SpawnOptions<EventsClient, never> {
  #sink: ByteSink | undefined = undefined;
  #actor: AnyRef | undefined = undefined;

  /** `lastEventId`: the event the client has, sent again unless it is the newest of its kind. Others are none. */
  constructor(subscription: Subscription, lastEventId: string | undefined) {
    super(subscription);
    const { broadcaster, audience, kinds } = subscription;
    for (const kind of kinds) {
      const last = broadcaster.snapshots.encoded(kind, audience);
      if (last !== undefined && last.id !== lastEventId) this.tell(kind);
    }
    this.enter();
  }

  protected get counted() {
    return 'streams' as const;
  }

  get kind(): string {
    return 'monitor/events';
  }

  get initialState(): this {
    return this;
  }

  open(sink: ByteSink): void {
    this.#sink = sink;
    // It ended before it began.
    if (!this.isInside) sink.end();
    else if (this.begin(this.subscription.connections.ref) && sink.write(GREETING)) this.drain();
  }

  closed(): void {
    this.end();
  }

  end(): void {
    this.leave();
    this.#sink?.end();
    if (this.#actor !== undefined) stop(this.#actor);
    this.#actor = undefined;
  }

  /** Called without `this`, as options are. */
  afterStop(client: EventsClient): void {
    client.#actor = undefined;
    client.end();
  }

  /** Spawns the actor; ends the stream when the service began to stop meanwhile. */
  protected begin(parent: AnyRef): boolean {
    try {
      this.#actor = spawn<EventsClient, never>(parent, asItIs, this);
      return true;
    } catch (error) {
      if (!(error instanceof ActorError)) throw error;
      this.end();
      return false;
    }
  }

  protected write(what: Push): boolean {
    const { broadcaster, isCombined } = this.subscription;
    const encoded = what === 'ping' ? undefined : broadcaster.encoded(what, this.subscription);
    const bytes = what === 'ping' ? PING : isCombined ? encoded?.combined : encoded?.event;
    return bytes === undefined || this.#sink === undefined || this.#sink.write(bytes);
  }
}

/**
 * Sends text frames to one client of `/ws/cluster-info` or `/ws/pod-metrics`, one on connect and one per refresh;
 * counts from the socket's opening. Its actor ends it with the service; its token's end is the frame's.
 */
export class MetricsConnection extends Subscriber implements Connection {
  #socket: Socket | undefined = undefined;

  protected get counted() {
    return 'sockets' as const;
  }

  open(socket: Socket): void {
    this.#socket = socket;
    for (const kind of this.subscription.kinds) this.tell(kind);
    this.enter();
    this.drain();
  }

  closed(): void {
    this.leave();
  }

  ended(): void {
    this.leave();
  }

  end(): void {
    this.leave();
    this.#socket?.close(1012, 'service restarts');
  }

  /** The transport pings sockets itself. */
  override ping(): void {}

  protected write(what: Push): boolean {
    const encoded = what === 'ping' ? undefined : this.subscription.broadcaster.encoded(what, this.subscription);
    return encoded === undefined || this.#socket === undefined || this.#socket.send(encoded.text);
  }
}
