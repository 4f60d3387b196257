/** One socket of `/ws/cluster-info` or `/ws/pod-metrics`: the newest snapshot as text, one on connect and one per refresh. */
import type { Socket } from '../../proto/http.ts';
import type { Connection } from '../streams.ts';
import type { MonitorNumbers } from './deps.ts';
import type { Client, Hub } from './hub.ts';
import type { Audience, Kind } from './snapshots.ts';

/** The connection of a caller who may see snapshots of a kind as `audience`. Its actor ends it with the service; its token's end is the frame's. */
export class MetricsConnection implements Connection, Client {
  readonly audience: Audience;
  readonly userId: string;
  readonly kinds: readonly Kind[];
  readonly expiresAt = Number.POSITIVE_INFINITY;
  readonly #hub: Hub;
  readonly #numbers: MonitorNumbers;
  #socket: Socket | undefined;
  #isFull = false;
  #isWaiting = false;

  constructor(
    hub: Hub,
    numbers: MonitorNumbers,
    user: { readonly audience: Audience; readonly userId: string },
    kinds: readonly [Kind],
  ) {
    this.#hub = hub;
    this.#numbers = numbers;
    this.audience = user.audience;
    this.userId = user.userId;
    this.kinds = kinds;
  }

  open(socket: Socket): void {
    this.#socket = socket;
    this.#numbers.sockets += 1;
    this.tell();
    this.#hub.add(this);
  }

  drain(): void {
    this.#isFull = false;
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    this.tell();
  }

  closed(): void {
    this.ended();
  }

  ended(): void {
    if (this.#socket === undefined) return;
    this.#socket = undefined;
    this.#numbers.sockets -= 1;
    this.#hub.remove(this);
  }

  tell(): void {
    const [socket, [kind]] = [this.#socket, this.kinds];
    if (socket === undefined || kind === undefined) return;
    if (this.#isFull) {
      if (this.#isWaiting) this.#numbers.skipped += 1;
      this.#isWaiting = true;
      return;
    }
    const encoded = this.#hub.snapshots.encoded(kind, this.audience);
    if (encoded === undefined) return;
    this.#numbers.pushed += 1;
    this.#isFull = !socket.send(encoded.text);
  }

  end(): void {
    this.#socket?.close(1012, 'service restarts');
  }
}
