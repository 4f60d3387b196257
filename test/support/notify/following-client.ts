/** A client of `/ws/notifications` as clients should be. */
import WebSocket from 'ws';

/** A client that comes back with the id it saw last, until it is told to end. */
export class FollowingClient {
  readonly seen: number[] = [];
  connections = 0;
  problem: string | undefined;
  readonly #url: string;
  readonly #random: () => number;
  #socket: WebSocket | undefined;
  #timer: NodeJS.Timeout | undefined;
  #over = false;

  constructor(url: string, random: () => number) {
    this.#url = url;
    this.#random = random;
  }

  /** The id it saw last. */
  get last(): number {
    return this.seen.at(-1) ?? 0;
  }

  get isConnected(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  begin(): void {
    if (this.#over) return;
    const socket = new WebSocket(`${this.#url}&since=${this.seen.at(-1) ?? 0}`);
    this.#socket = socket;
    socket.on('open', () => {
      this.connections += 1;
    });
    socket.on('message', (data) => {
      const id = Number(/^{"id":(\d+),/.exec(String(data))?.[1]);
      const last = this.seen.at(-1) ?? 0;
      if (!(id > last)) this.problem ??= `saw ${id} after ${last}`;
      this.seen.push(id);
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      if (!this.#over) this.#timer = setTimeout(() => this.begin(), 50 + 450 * this.#random());
    });
  }

  end(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#socket?.terminate();
  }
}
