/** Watches one response on its way to a client, and makes an entry of it if it may be kept and comes whole. */

import type { Field } from '../../wire/h1/fields.ts';
import type { CacheSink, FailureStatus } from '../h1/cache-hook.ts';
import type { ResponseHead } from '../h1/response-head.ts';
import { fieldOfMiss } from './cache-status.ts';
import { Entry } from './entry.ts';
import { fieldsForClients, type Keeping, keepingOf, MAX_BODY, type MoreHarmless, type Question } from './rules.ts';

/** What becomes of it. One call, once. */
interface CollectorEvents {
  /** It may be kept, if it comes whole. `isShared`: for other clients, too. */
  begun(isShared: boolean): void;
  /** It came whole; `entry` may be kept. */
  done(entry: Entry): void;
  /** It may not be kept, or is not. `isLasting`: neither will the next. */
  passed(isLasting: boolean): void;
  failed(status: FailureStatus, reason: string): void;
  aborted(): void;
  /** Its client stopped taking more, or goes on. */
  paused(isPaused: boolean): void;
}

/** What all collectors share. */
export interface Collecting {
  /** Reserves memory; false when too much is in use. */
  reserve(host: string, bytes: number): boolean;
  free(host: string, bytes: number): void;
  clock(): number;
  wall(): number;
  readonly more: MoreHarmless | undefined;
}

const FIRST = 16_384;
const NO_ROOM = 'too many responses are being kept at this moment';

/** One response's collector. */
export class Collector implements CacheSink {
  readonly #question: Question;
  readonly #shared: Collecting;
  readonly #events: CollectorEvents;
  readonly #asked: number;
  #began = 0;
  #fields: Field[] = [];
  #reason = '';
  #keeping: Keeping | undefined;
  #body: Buffer | undefined;
  #length = 0;
  #isOver = false;

  constructor(question: Question, shared: Collecting, events: CollectorEvents) {
    this.#question = question;
    this.#shared = shared;
    this.#events = events;
    this.#asked = shared.clock();
  }

  begin(response: ResponseHead): ResponseHead {
    if (this.#isOver) return response;
    const now = this.#shared.clock();
    const wallMs = this.#shared.wall();
    const keeping = keepingOf(this.#question, response, { wallMs, delayMs: now - this.#asked }, this.#shared.more);
    if (typeof keeping === 'string') {
      this.giveUp(true);
      return this.#marked(response, keeping);
    }
    const { framing } = response;
    if (!this.#grow(framing.kind === 'length' ? framing.length : FIRST)) return this.#marked(response, NO_ROOM);
    this.#keeping = keeping;
    this.#began = now;
    this.#reason = response.reason;
    this.#fields = fieldsForClients(response, wallMs, this.#question.isExplicit);
    this.#events.begun(keeping.isShared);
    return this.#marked({ ...response, fields: this.#fields });
  }

  /** What it says of the cache, which is no part of what is kept. */
  #marked(response: ResponseHead, reason?: string): ResponseHead {
    return { ...response, fields: [...response.fields, fieldOfMiss(!this.#question.reads, reason)] };
  }

  data(bytes: Buffer): void {
    if (this.#isOver || this.#body === undefined) return;
    const length = this.#length + bytes.length;
    if (length > MAX_BODY) {
      this.giveUp(true);
      return;
    }
    if (length > this.#body.length && !this.#grow(Math.min(MAX_BODY, 2 * length))) return;
    bytes.copy(this.#body, this.#length);
    this.#length = length;
  }

  paused(): void {
    if (!this.#isOver) this.#events.paused(true);
  }

  resumed(): void {
    if (!this.#isOver) this.#events.paused(false);
  }

  end(): void {
    const body = this.#body;
    const keeping = this.#keeping;
    if (this.#isOver || body === undefined || keeping === undefined) return;
    const { host, path } = this.#question;
    const { isShared, ...times } = keeping;
    const variant = isShared ? this.#question.variant : this.#question.own;
    const whole = body.length === this.#length ? body : copyOf(body.subarray(0, this.#length));
    const entry = new Entry(
      {
        host,
        path,
        variant,
        reason: this.#reason,
        fields: this.#fields,
        body: whole,
        now: this.#began,
        askedAt: this.#asked,
        ...times,
      },
      () => this.#shared.clock(),
    );
    this.#stop();
    if (entry.expiresAt > this.#shared.clock()) this.#events.done(entry);
    else this.#events.passed(false);
  }

  fail(status: FailureStatus, reason: string): void {
    if (this.#isOver) return;
    this.#stop();
    this.#events.failed(status, reason);
  }

  abort(): void {
    if (this.#isOver) return;
    this.#stop();
    this.#events.aborted();
  }

  /** Collects no more; the response goes on to its client. */
  giveUp(isLasting: boolean): void {
    if (this.#isOver) return;
    this.#stop();
    this.#events.passed(isLasting);
  }

  /** Collects no more, and tells nobody. */
  leave(): void {
    if (!this.#isOver) this.#stop();
  }

  #stop(): void {
    this.#isOver = true;
    if (this.#body !== undefined) this.#shared.free(this.#question.host, this.#body.length);
    this.#body = undefined;
    this.#fields = [];
  }

  #grow(size: number): boolean {
    const before = this.#body?.length ?? 0;
    if (!this.#shared.reserve(this.#question.host, size - before)) {
      this.giveUp(false);
      return false;
    }
    const larger = Buffer.allocUnsafeSlow(size);
    this.#body?.copy(larger, 0, 0, this.#length);
    this.#body = larger;
    return true;
  }
}

function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
