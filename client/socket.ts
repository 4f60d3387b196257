/** A socket that connects again by itself, and the close codes that say whether it should. */
import { errorOf, TroupeError } from './errors.ts';
import { type RetryBounds, retryPause } from './pause.ts';
import type { SocketListener, TransportAnswer, TransportSocket } from './transport.ts';

/** What a close code means for whoever follows a stream. */
export type CloseMeaning =
  /** It came to its end. */
  | 'ended'
  /** The connection is lost, and the stream goes on with the next. */
  | 'again'
  /** The stream is not for this client, now. */
  | 'refused'
  /** Another client has it. */
  | 'taken'
  /** This client broke the rules of the stream. */
  | 'defect';

/** The close codes of all streams. One that is missing means `again`. */
export const CLOSE_CODES: Readonly<Record<number, CloseMeaning>> = {
  1000: 'ended',
  1001: 'again',
  1002: 'defect',
  1003: 'defect',
  1005: 'again',
  1006: 'again',
  1007: 'defect',
  1008: 'refused',
  1009: 'defect',
  1011: 'again',
  1012: 'again',
  1013: 'again',
  4000: 'taken',
  4400: 'refused',
  4401: 'refused',
  4403: 'refused',
  4404: 'refused',
  4409: 'refused',
};

const BOUNDS: RetryBounds = { minMs: 500, maxMs: 30_000 };
/** A connection that lasted so long begins with short pauses again, ms. */
const LASTED_MS = 5000;

/** How a stream is. `waiting` has the pause until the next attempt. */
export type StreamState =
  | { readonly state: 'connecting' }
  /** `again`: it was open before. */
  | { readonly state: 'open'; readonly again: boolean }
  | { readonly state: 'waiting'; readonly ms: number; readonly code: number; readonly reason: string }
  | { readonly state: 'closed' };

/** How a stream ended. */
export interface StreamEnd {
  /** `closed`: by this client. */
  readonly how: 'closed' | Exclude<CloseMeaning, 'again'>;
  readonly code: number;
  readonly reason: string;
  /** Why, unless it was closed or came to its end. */
  readonly error: TroupeError | undefined;
}

/** A stream that is followed. */
export interface Following {
  /** Resolves when it has ended, never rejects. */
  readonly done: Promise<StreamEnd>;
  /** Ends it. */
  close(): void;
}

/** What is particular about one kind of stream. */
export interface StreamRules {
  /** Path and query of the next connection. */
  path(): string;
  opened?(again: boolean): void;
  text?(data: string): void;
  binary?(data: Uint8Array): void;
  /**
   * Asked before another attempt when the last one never opened, for what browsers do not tell, and when it was
   * refused with 409. Rejects with a TroupeError that ends the stream; others do not count.
   */
  check?(): Promise<unknown>;
  onState?: ((state: StreamState) => void) | undefined;
  readonly bounds?: RetryBounds;
}

type Connect = (path: string, listener: SocketListener) => TransportSocket;

/** Errors of a check that no pause mends. */
const FINAL_STATUS = new Set([400, 401, 403, 404, 409]);

/** See StreamRules. It connects at once. */
export class Reconnecting implements Following {
  readonly done: Promise<StreamEnd>;
  readonly #rules: StreamRules;
  readonly #connect: Connect;
  #finish: (end: StreamEnd) => void = () => {};
  #socket: TransportSocket | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #openedAt: number | undefined;
  #opens = 0;
  #isOver = false;

  constructor(rules: StreamRules, connect: Connect) {
    this.#rules = rules;
    this.#connect = connect;
    this.done = new Promise((resolve) => {
      this.#finish = resolve;
    });
    // Whoever asked for the stream has it before the first event.
    queueMicrotask(() => this.#open());
  }

  /** Whether data can be sent now. */
  get isOpen(): boolean {
    return this.#openedAt !== undefined;
  }

  /** Sends, if the connection is open. */
  send(data: string | Uint8Array): void {
    if (this.isOpen) this.#socket?.send(data);
  }

  /** Bytes that were sent and wait for the connection. */
  get waitingBytes(): number {
    return this.#socket?.waitingBytes ?? 0;
  }

  /** Takes nothing from the connection until it is let go, where the transport can. */
  hold(isHeld: boolean): void {
    this.#socket?.hold?.(isHeld);
  }

  /** Ends a pause. */
  wake(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#open();
  }

  /** Ends it. A code other than 1000 tells the server that the client may come back. */
  close(code = 1000): void {
    if (this.#isOver) return;
    this.#socket?.close(code);
    this.#end({ how: 'closed', code, reason: '', error: undefined });
  }

  #open(): void {
    if (this.#isOver) return;
    this.#rules.onState?.({ state: 'connecting' });
    let isCurrent = true;
    const ifCurrent = (run: () => void) => {
      if (isCurrent && !this.#isOver) run();
    };
    const listener: SocketListener = {
      opened: () => ifCurrent(() => this.#opened()),
      text: (data) => ifCurrent(() => this.#rules.text?.(data)),
      binary: (data) => ifCurrent(() => this.#rules.binary?.(data)),
      closed: (code, reason, refusal) =>
        ifCurrent(() => {
          isCurrent = false;
          void this.#closed(code, reason, refusal);
        }),
    };
    try {
      this.#socket = this.#connect(this.#rules.path(), listener);
    } catch (error) {
      // No pause mends an address.
      if (!(error instanceof TroupeError)) throw error;
      this.#end({ how: 'defect', code: 1006, reason: error.message, error });
    }
  }

  #opened(): void {
    const again = this.#opens++ > 0;
    this.#openedAt = performance.now();
    this.#rules.onState?.({ state: 'open', again });
    this.#rules.opened?.(again);
  }

  async #closed(code: number, reason: string, refusal: TransportAnswer | undefined): Promise<void> {
    const wasOpen = this.#openedAt !== undefined;
    if (this.#openedAt !== undefined && performance.now() - this.#openedAt > LASTED_MS) this.#failures = 0;
    this.#openedAt = undefined;
    this.#socket = undefined;
    let failure = refusal && errorOf(refusal.status, refusal.body, (name) => refusal.header(name));
    const meaning = CLOSE_CODES[code] ?? 'again';
    if (meaning === 'refused') failure = new TroupeError(codeOf(code, reason), reason, { status: statusOf(code) });
    else if (meaning !== 'again') {
      const error = meaning === 'ended' ? undefined : new TroupeError(meaning, reason);
      this.#end({ how: meaning, code, reason, error });
      return;
    }
    const isConflict = failure?.status === 409;
    if (this.#rules.check !== undefined && (isConflict || (!wasOpen && failure === undefined))) {
      failure = await this.#rules.check().then(
        () => undefined,
        (error) => (error instanceof TroupeError ? error : undefined),
      );
    }
    if (this.#isOver) return;
    if (failure !== undefined && FINAL_STATUS.has(failure.status)) {
      this.#end({ how: 'refused', code, reason: failure.message, error: failure });
      return;
    }
    this.#wait(code, failure?.message ?? reason, failure?.retryAfter);
  }

  #wait(code: number, reason: string, retryAfter = 0): void {
    const ms = Math.max(retryPause(this.#failures++, this.#rules.bounds ?? BOUNDS), retryAfter * 1000);
    this.#rules.onState?.({ state: 'waiting', ms, code, reason });
    this.#timer = setTimeout(() => this.wake(), ms);
  }

  #end(end: StreamEnd): void {
    this.#isOver = true;
    this.#openedAt = undefined;
    clearTimeout(this.#timer);
    this.#finish(end);
    this.#rules.onState?.({ state: 'closed' });
  }
}

/** 4401 stands for 401, where a browser would not see that; 1008 is told by its reason. */
function statusOf(code: number): number {
  return code >= 4400 && code < 4500 ? code - 4000 : 403;
}

function codeOf(code: number, reason: string): TroupeError['code'] {
  if (code === 4401 || /^token /.test(reason)) return 'unauthorized';
  if (code === 4404) return 'not_found';
  if (code === 4409) return 'conflict';
  if (code === 4400) return 'invalid_request';
  if (code === 1008 && /limit/.test(reason)) return 'limit_reached';
  return 'forbidden';
}
