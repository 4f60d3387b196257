import { BodyError } from '../../proto/ports/http.ts';
import type { HeldRequestBody } from './held-body.ts';

/** A body's end. */
export const NO_BYTES = new Uint8Array(0);

/** A request whose target and address are at hand, and whose body comes. */
export abstract class TargetRequest {
  readonly remoteAddress: string;
  /** Undefined when there is none. */
  abstract readonly content: HeldRequestBody | undefined;
  readonly #target: string;
  readonly #split: number;
  #aborter: AbortController | undefined;
  #asked = false;
  /** The client left before the reply was sent. */
  gone = false;

  /** `target`: path and query. */
  constructor(target: string, remoteAddress: string) {
    this.#target = target;
    this.#split = target.indexOf('?');
    this.remoteAddress = remoteAddress;
  }

  get path(): string {
    return this.#split < 0 ? this.#target : this.#target.slice(0, this.#split);
  }

  get query(): string {
    return this.#split < 0 ? '' : this.#target.slice(this.#split + 1);
  }

  get signal(): AbortSignal {
    this.#aborter ??= new AbortController();
    if (this.gone) this.#aborter.abort();
    return this.#aborter.signal;
  }

  async body(limit: number): Promise<Uint8Array> {
    if (this.#asked) throw new TypeError('The body of a request is read once.');
    this.#asked = true;
    if (this.content === undefined) return NO_BYTES;
    if (this.gone) throw new BodyError('aborted');
    return this.read(this.content, limit);
  }

  /** Reads the body, which was not asked for before. */
  protected abstract read(content: HeldRequestBody, limit: number): Promise<Uint8Array>;

  /** The client left: wakes whoever waits for the signal or for the body. */
  abort(): void {
    if (this.gone) return;
    this.gone = true;
    this.content?.abort();
    this.#aborter?.abort();
  }
}
