/**
 * One socket of `/ws/cluster-info` or `/ws/pod-metrics`: the newest snapshot as text, one on connect and one per
 * refresh.
 */
import type { Socket } from '../../proto/ports/http.ts';
import type { Connection } from '../service/connection.ts';
import type { Client, Subscription } from './broadcaster.ts';

/** How ready its reader is. */
const READY = 0;
const FULL = 1;
/** A newer snapshot came since it was full. */
const MISSING = 2;

/**
 * The connection of a caller who may see snapshots of one kind. Its actor ends it with the service; its token's end is
 * the frame's.
 */
export class MetricsConnection implements Connection, Client {
  readonly viewer: Subscription;
  place = -1;
  #socket: Socket | undefined = undefined;
  #reader = READY;

  constructor(viewer: Subscription) {
    this.viewer = viewer;
  }

  open(socket: Socket): void {
    this.#socket = socket;
    const { hub } = this.viewer;
    hub.numbers.sockets += 1;
    this.tell();
    hub.add(this);
  }

  drain(): void {
    const isMissing = this.#reader === MISSING;
    this.#reader = READY;
    if (isMissing) this.tell();
  }

  closed(): void {
    this.ended();
  }

  ended(): void {
    if (this.#socket === undefined) return;
    this.#socket = undefined;
    const { hub } = this.viewer;
    hub.numbers.sockets -= 1;
    hub.remove(this);
  }

  tell(): void {
    const socket = this.#socket;
    const { hub, kinds } = this.viewer;
    const [kind] = kinds;
    if (socket === undefined || kind === undefined) return;
    if (this.#reader !== READY) {
      if (this.#reader === MISSING) hub.numbers.skipped += 1;
      this.#reader = MISSING;
      return;
    }
    const encoded = hub.encoded(kind, this.viewer);
    if (encoded !== undefined && !socket.send(encoded.text)) this.#reader = FULL;
  }

  end(): void {
    this.#socket?.close(1012, 'service restarts');
  }
}
