/** One client of `/sse/*`: it is written the newest snapshot, whenever it can take it. */
import type { ByteSink } from '../../proto/ports/http.ts';
import type { EventStream } from '../../proto/service.ts';
import type { Client, Subscription } from './broadcaster.ts';
import type { SnapshotKind } from './snapshots.ts';

/** How soon a browser comes back when the stream ends, and a comment that makes proxies pass the head on. */
const GREETING = Buffer.from('retry: 3000\n: troupe\n\n');
const PING = Buffer.from(': ping\n\n');

// What is true of a stream, as bits of one small integer: a field each would weigh more than the rest of it.
const CLUSTER = 1;
const PODS = 2;
const PINGS = 4;
/** Something waits to be written. */
const WAITING = CLUSTER | PODS | PINGS;
const FULL = 8;
const OVER = 16;

/** Writes server-sent events. Holds no bytes of its own: what waits for a slow reader is only marked as waiting. */
export class EventsClient implements EventStream, Client {
  readonly viewer: Subscription;
  place = -1;
  #sink: ByteSink | undefined = undefined;
  #flags = 0;

  /**
   * `lastEventId`: the event the client has, sent again unless it is the newest of its kind. Anything else counts as
   * none.
   */
  constructor(viewer: Subscription, lastEventId: string | undefined) {
    this.viewer = viewer;
    const { hub, audience, kinds } = viewer;
    for (const kind of kinds) {
      const last = hub.snapshots.encoded(kind, audience);
      if (last !== undefined && last.id !== lastEventId) this.#flags |= markOf(kind);
    }
    hub.numbers.streams += 1;
    hub.add(this);
  }

  open(sink: ByteSink): void {
    this.#sink = sink;
    // It ended before it began.
    if ((this.#flags & OVER) !== 0) sink.end();
    else {
      if (!sink.write(GREETING)) this.#flags |= FULL;
      this.#flush();
    }
  }

  drain(): void {
    this.#flags &= ~FULL;
    this.#flush();
  }

  closed(): void {
    this.#leave();
  }

  tell(kind: SnapshotKind): void {
    const mark = markOf(kind);
    if ((this.#flags & mark) !== 0) this.viewer.hub.numbers.skipped += 1;
    this.#flags |= mark;
    this.#flush();
  }

  ping(): void {
    this.#flags |= PINGS;
    this.#flush();
  }

  end(): void {
    this.#leave();
    this.#sink?.end();
  }

  #leave(): void {
    if ((this.#flags & OVER) !== 0) return;
    this.#flags |= OVER;
    const { hub } = this.viewer;
    hub.numbers.streams -= 1;
    hub.remove(this);
  }

  /** Writes what waits, as long as the reader takes it. */
  #flush(): void {
    const sink = this.#sink;
    while (sink !== undefined && (this.#flags & (FULL | OVER)) === 0 && (this.#flags & WAITING) !== 0) {
      const bytes = this.#take();
      if (bytes !== undefined && !sink.write(bytes)) this.#flags |= FULL;
    }
  }

  /** The next that waits; undefined when there turns out to be nothing. */
  #take(): Uint8Array | undefined {
    if ((this.#flags & CLUSTER) !== 0) return this.#bytes('cluster');
    if ((this.#flags & PODS) !== 0) return this.#bytes('pods');
    this.#flags &= ~PINGS;
    return PING;
  }

  #bytes(kind: SnapshotKind): Uint8Array | undefined {
    this.#flags &= ~markOf(kind);
    const encoded = this.viewer.hub.encoded(kind, this.viewer);
    return this.viewer.isCombined ? encoded?.combined : encoded?.event;
  }
}

function markOf(kind: SnapshotKind): number {
  return kind === 'cluster' ? CLUSTER : PODS;
}
