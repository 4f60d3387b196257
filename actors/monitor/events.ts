/** One client of `/sse/*`: server-sent events. */
import type { ByteSink } from '../../proto/ports/http.ts';
import type { EventStream } from '../../proto/service.ts';
import type { Subscription } from './broadcaster.ts';
import { type Push, Subscriber } from './subscriber.ts';

/** How soon a browser comes back when the stream ends, and a comment that makes proxies pass the head on. */
const GREETING = Buffer.from('retry: 3000\n: troupe\n\n');
const PING = Buffer.from(': ping\n\n');

/** Writes events to one client, from its request to the end of the stream. */
export class EventsClient extends Subscriber implements EventStream {
  #sink: ByteSink | undefined = undefined;

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

  open(sink: ByteSink): void {
    this.#sink = sink;
    // It ended before it began.
    if (!this.isInside) sink.end();
    else if (sink.write(GREETING)) this.drain();
  }

  closed(): void {
    this.leave();
  }

  end(): void {
    this.leave();
    this.#sink?.end();
  }

  protected write(what: Push): boolean {
    const { broadcaster, isCombined } = this.subscription;
    const encoded = what === 'ping' ? undefined : broadcaster.encoded(what, this.subscription);
    const bytes = what === 'ping' ? PING : isCombined ? encoded?.combined : encoded?.event;
    return bytes === undefined || this.#sink === undefined || this.#sink.write(bytes);
  }
}
