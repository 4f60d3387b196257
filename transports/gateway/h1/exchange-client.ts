/** The client's side of an exchange. */
import type { Wire } from '../../wire/wire.ts';

/** Who is answered. Nothing is called after `finish`, `fail`, `destroy` or `switched`. */
export interface ExchangeClient {
  /** Sends to the client; false asks to wait for `resume`. */
  write(data: string | Buffer): boolean;
  /** The same with bytes that nobody changes: large ones need not be copied. */
  writeStable(bytes: Buffer): boolean;
  /** Several writes that should leave together. */
  cork(): void;
  uncork(): void;
  /** The origin is there: the body may come. */
  ready(): void;
  /** The origin takes more of the body. */
  resumeBody(): void;
  /** Something came from the origin. */
  progress(): void;
  /** The response has been sent. `keep`: its end is clear to the client. */
  finish(keep: boolean): void;
  /** There is no response: say so. */
  fail(status: 502 | 503 | 504, reason: string): void;
  /** The response broke off: the client must see that it is not whole. */
  destroy(): void;
  /** The origin switched protocols: from here on both connections belong to the client's side. */
  switched(origin: Wire, rest: Buffer): void;
}

/** A client that has left. */
export const GONE: ExchangeClient = {
  write: () => true,
  writeStable: () => true,
  cork: () => {},
  uncork: () => {},
  ready: () => {},
  resumeBody: () => {},
  progress: () => {},
  finish: () => {},
  fail: () => {},
  destroy: () => {},
  switched: () => {},
};
