/** One client of `/sse/*`: it is written the newest snapshot, whenever it can take it. */
import type { ByteSink } from '../../proto/http.ts';
import type { EventStream } from '../../proto/service.ts';
import type { MonitorNumbers } from './deps.ts';
import type { Client, Hub } from './hub.ts';
import type { Audience, Kind } from './snapshots.ts';

/** How soon a browser comes back when the stream ends, and a comment that makes proxies pass the head on. */
const GREETING = Buffer.from('retry: 3000\n: troupe\n\n');
const PING = Buffer.from(': ping\n\n');

/** What a stream is opened with. */
export interface EventsOptions {
  readonly audience: Audience;
  readonly userId: string;
  readonly kinds: readonly Kind[];
  /** Events wrapped in `{type, payload}`. */
  readonly isCombined: boolean;
  readonly expiresAt: number;
  /** The event the client has: sent again unless it is the newest of its kind. Anything else counts as none. */
  readonly lastEventId: string | undefined;
}

/** Writes server-sent events. Holds no bytes of its own: what waits for a slow reader is only marked as waiting. */
export class EventsClient implements EventStream, Client {
  readonly audience: Audience;
  readonly userId: string;
  readonly kinds: readonly Kind[];
  readonly expiresAt: number;
  readonly #hub: Hub;
  readonly #numbers: MonitorNumbers;
  readonly #isCombined: boolean;
  #sink: ByteSink | undefined;
  #isFull = false;
  #pings = false;
  #cluster = false;
  #pods = false;
  #isOver = false;

  constructor(hub: Hub, numbers: MonitorNumbers, options: EventsOptions) {
    this.#hub = hub;
    this.#numbers = numbers;
    this.audience = options.audience;
    this.userId = options.userId;
    this.kinds = options.kinds;
    this.expiresAt = options.expiresAt;
    this.#isCombined = options.isCombined;
    for (const kind of options.kinds) {
      const last = hub.snapshots.encoded(kind, options.audience);
      if (last !== undefined && last.id !== options.lastEventId) this.#mark(kind);
    }
    numbers.streams += 1;
    hub.add(this);
  }

  open(sink: ByteSink): void {
    this.#sink = sink;
    // It ended before it began.
    if (this.#isOver) sink.end();
    else {
      this.#isFull = !sink.write(GREETING);
      this.#flush();
    }
  }

  drain(): void {
    this.#isFull = false;
    this.#flush();
  }

  closed(): void {
    this.#leave();
  }

  tell(kind: Kind): void {
    if (this.#mark(kind)) this.#numbers.skipped += 1;
    this.#flush();
  }

  ping(): void {
    this.#pings = true;
    this.#flush();
  }

  end(): void {
    this.#leave();
    this.#sink?.end();
  }

  #leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#numbers.streams -= 1;
    this.#hub.remove(this);
  }

  /** Whether one was waiting already. */
  #mark(kind: Kind): boolean {
    const waited = kind === 'cluster' ? this.#cluster : this.#pods;
    if (kind === 'cluster') this.#cluster = true;
    else this.#pods = true;
    return waited;
  }

  /** Writes what waits, as long as the reader takes it. */
  #flush(): void {
    const sink = this.#sink;
    while (sink !== undefined && !this.#isFull && !this.#isOver) {
      const bytes = this.#take();
      if (bytes === undefined) return;
      this.#isFull = !sink.write(bytes);
    }
  }

  #take(): Uint8Array | undefined {
    if (this.#cluster) {
      this.#cluster = false;
      return this.#bytes('cluster');
    }
    if (this.#pods) {
      this.#pods = false;
      return this.#bytes('pods');
    }
    if (!this.#pings) return undefined;
    this.#pings = false;
    return PING;
  }

  #bytes(kind: Kind): Uint8Array | undefined {
    const encoded = this.#hub.snapshots.encoded(kind, this.audience);
    if (encoded === undefined) return undefined;
    this.#numbers.pushed += 1;
    return this.#isCombined ? encoded.combined : encoded.event;
  }
}
