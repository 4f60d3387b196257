/** Groups of sockets, each pinged at its own part of the period, so that pings do not come in one burst. */
const GROUPS = 8;

/** What is asked for a sign of life once a period. */
interface Beating {
  /** Where the heartbeat has it; the heartbeat's own. -1: nowhere. */
  place: number;
  beat(): void;
}

/** The open sockets, each called once every `periodMs` by one timer until `stop`. */
export class Heartbeat<S extends Beating> {
  /** In `place`, a socket has its index here times GROUPS, and its group: lists take a fifth of the memory of sets. */
  readonly #groups: S[][] = Array.from({ length: GROUPS }, () => []);
  readonly #timer: NodeJS.Timeout;
  #turn = 0;
  #next = 0;

  constructor(periodMs: number) {
    this.#timer = setInterval(() => this.#tick(), Math.max(1, periodMs / GROUPS));
  }

  add(socket: S): void {
    const at = this.#next++ % GROUPS;
    const group = this.#groups[at];
    if (group === undefined) return;
    socket.place = group.length * GROUPS + at;
    group.push(socket);
  }

  /** Again does nothing. */
  remove(socket: S): void {
    const { place } = socket;
    const group = this.#groups[place % GROUPS];
    const index = Math.floor(place / GROUPS);
    if (group === undefined || group[index] !== socket) return;
    const last = group.pop();
    if (last !== undefined && last !== socket) {
      group[index] = last;
      last.place = place;
    }
    socket.place = -1;
  }

  /** Every open socket, in a list of its own: it may be walked while sockets close. */
  all(): S[] {
    return this.#groups.flat();
  }

  /** Some open socket. */
  any(): S | undefined {
    return this.#groups.find((group) => group.length > 0)?.[0];
  }

  get size(): number {
    return this.#groups.reduce((sum, group) => sum + group.length, 0);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const group = this.#groups[this.#turn++ % GROUPS];
    for (const socket of [...(group ?? [])]) socket.beat();
  }
}
