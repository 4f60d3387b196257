/**
 * What one socket was sent, and what comes next: first what was stored before it came, then what is pushed, each
 * notification once and in the order of ids. It knows the id it has sent last; whatever lies above is in storage, so
 * nothing is kept here but the page at hand.
 *
 *   waiting -- attached --> reading -- last page, nothing came meanwhile --> live
 *                             ^  `-- more, or something came --> reading
 *                             |-- a push that does not follow on what was sent, or "look" -- live
 *   Whenever the reader is slow, sending pauses until it has read, and goes on from storage.
 */

/** A notification, ready to be sent. */
export interface Frame {
  readonly id: number;
  readonly text: string;
}

/** What a DeliveryCursor does to the outside. */
export interface DeliveryPorts {
  /** Asks storage for the first frames above `since`: the answer comes to `page`, or `failed` is called. */
  read(since: number): void;
  /**
   * Sends frames in order. Returns how many were taken: fewer than given, or `isReady` false, when the reader is slow.
   */
  send(frames: readonly Frame[]): { readonly taken: number; readonly isReady: boolean };
}

const nothing: readonly Frame[] = [];

export class DeliveryCursor {
  readonly #ports: DeliveryPorts;
  #sent: number;
  readonly #since: number;
  #attached = false;
  #reading = false;
  /** The reader is slow: nothing is sent until it has read. */
  #blocked = false;
  /** Storage may have something above `#sent` and `#rest`. */
  #behind = false;
  /** What is left of a page. */
  #rest: readonly Frame[] = nothing;

  /** Begins above the id `since`. */
  constructor(since: number, ports: DeliveryPorts) {
    this.#sent = since;
    this.#since = since;
    this.#ports = ports;
  }

  /** Whether it was told of `attached`. */
  get isAttached(): boolean {
    return this.#attached;
  }

  /** The id sent last. */
  get sent(): number {
    return this.#sent;
  }

  /** Storage ends at `head`: whoever began above it has an id that was never given, and must not wait for it. */
  endsAt(head: number): void {
    if (this.#sent !== this.#since || head >= this.#sent) return;
    this.#sent = head;
    this.look();
  }

  /** From here on everything that is stored is pushed or announced: what was stored before is read now. */
  attached(): void {
    this.#attached = true;
    this.look();
  }

  /** Something may have been stored that was not pushed. */
  look(): void {
    this.#behind = true;
    this.#pull();
  }

  /** `frames` were stored, in order; before them, the user's last notification was `after`. */
  arrived(after: number, frames: readonly Frame[]): void {
    const isLive = this.#attached && !this.#reading && !this.#blocked && !this.#behind;
    if (isLive && after <= this.#sent) this.#send(frames);
    else this.look();
  }

  /** The answer to `read`; `isLast` when storage had no more. */
  page(frames: readonly Frame[], isLast: boolean): void {
    this.#reading = false;
    if (!isLast) this.#behind = true;
    this.#send(frames);
    this.#pull();
  }

  /** Nothing came of `read`. Call `look` when it should be tried again. */
  failed(): void {
    this.#reading = false;
    this.#behind = true;
  }

  /** The slow reader has read all. */
  drained(): void {
    this.#blocked = false;
    this.#send(this.#rest);
    this.#pull();
  }

  #send(frames: readonly Frame[]): void {
    const [first] = frames;
    const fresh = first !== undefined && first.id > this.#sent ? frames : frames.filter(({ id }) => id > this.#sent);
    this.#rest = nothing;
    if (fresh.length === 0) return;
    const { taken, isReady } = this.#ports.send(fresh);
    this.#sent = fresh[taken - 1]?.id ?? this.#sent;
    if (taken < fresh.length) this.#rest = fresh.slice(taken);
    this.#blocked = !isReady || taken < fresh.length;
  }

  #pull(): void {
    if (!this.#attached || this.#reading || this.#blocked || !this.#behind) return;
    this.#behind = false;
    this.#reading = true;
    this.#ports.read(this.#sent);
  }
}
