/** Transfers under way in this process: how many one user may have. */
import { MAX_TRANSFERS } from '../../proto/compute/files.ts';
import type { Caller, TransferReply } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';

/** Counts them by user. */
export class Transfers {
  readonly #open = new Map<string, number>();

  async during<T>({ userId }: Caller, work: () => Promise<T>): Promise<T> {
    this.#enter(userId);
    try {
      return await work();
    } finally {
      this.#leave(userId);
    }
  }

  /** As long as the bytes of the reply flow. */
  async reading({ userId }: Caller, work: () => Promise<TransferReply>): Promise<TransferReply> {
    this.#enter(userId);
    try {
      const reply = await work();
      if ('bytes' in reply && !reply.bytes.closed) reply.bytes.once('close', () => this.#leave(userId));
      else this.#leave(userId);
      return reply;
    } catch (error) {
      this.#leave(userId);
      throw error;
    }
  }

  #enter(userId: string): void {
    const count = this.#open.get(userId) ?? 0;
    if (count >= MAX_TRANSFERS) {
      const message = `You have ${MAX_TRANSFERS} transfers under way, which is the limit: wait for one.`;
      throw new Refusal('limit_reached', { message });
    }
    this.#open.set(userId, count + 1);
  }

  #leave(userId: string): void {
    const left = (this.#open.get(userId) ?? 1) - 1;
    if (left === 0) this.#open.delete(userId);
    else this.#open.set(userId, left);
  }
}
