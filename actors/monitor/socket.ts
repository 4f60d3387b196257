/**
 * One socket of `/ws/cluster-info` or `/ws/pod-metrics`: the newest snapshot as text, one on connect and one per
 * refresh. Its actor ends it with the service; its token's end is the frame's.
 */
import type { Socket } from '../../proto/ports/http.ts';
import type { Connection } from '../service/connection.ts';
import { type Push, Subscriber } from './subscriber.ts';

/** Sends text frames to one client; counts from the socket's opening. */
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
