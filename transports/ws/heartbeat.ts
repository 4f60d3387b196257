/** How many groups the sockets fall into: each is pinged at its own part of the period, so that pings do not come in one burst. */
const GROUPS = 8;

/** What is asked for a sign of life once a period. */
export interface Beating {
  beat(): void;
}

/** The set of open sockets, each called once every `periodMs` by one timer until `stop`. */
export class Heartbeat<S extends Beating> {
  private readonly groups: Set<S>[] = Array.from({ length: GROUPS }, () => new Set<S>());
  private readonly home = new WeakMap<S, Set<S>>();
  private readonly timer: NodeJS.Timeout;
  private turn = 0;
  private next = 0;

  constructor(periodMs: number) {
    this.timer = setInterval(() => this.tick(), Math.max(1, periodMs / GROUPS));
  }

  add(socket: S): void {
    const group = this.groups[this.next++ % GROUPS];
    if (group === undefined) return;
    group.add(socket);
    this.home.set(socket, group);
  }

  remove(socket: S): void {
    this.home.get(socket)?.delete(socket);
  }

  /** Every open socket, in a list of its own: it may be walked while sockets close. */
  all(): S[] {
    return this.groups.flatMap((group) => [...group]);
  }

  get size(): number {
    return this.groups.reduce((sum, group) => sum + group.size, 0);
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private tick(): void {
    const group = this.groups[this.turn++ % GROUPS];
    for (const socket of [...(group ?? [])]) socket.beat();
  }
}
