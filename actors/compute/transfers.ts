/** Transfers under way in this process: how many one user may have. */
import { KeyedLimit } from '../../lib/concurrency.ts';
import { MAX_TRANSFERS } from '../../proto/compute/files.ts';
import type { Caller, TransferReply } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';

/** Counts them by user. */
export class Transfers {
  readonly #open = new KeyedLimit(MAX_TRANSFERS);

  async during<T>({ userId }: Caller, work: () => Promise<T>): Promise<T> {
    const leave = this.#enter(userId);
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** As long as the bytes of the reply flow. */
  async reading({ userId }: Caller, work: () => Promise<TransferReply>): Promise<TransferReply> {
    const leave = this.#enter(userId);
    try {
      const reply = await work();
      if ('bytes' in reply && !reply.bytes.closed) reply.bytes.once('close', leave);
      else leave();
      return reply;
    } catch (error) {
      leave();
      throw error;
    }
  }

  #enter(userId: string): () => void {
    const leave = this.#open.enter(userId);
    if (leave !== undefined) return leave;
    const message = `You have ${MAX_TRANSFERS} transfers under way, which is the limit: wait for one.`;
    throw new Refusal('limit_reached', { message });
  }
}
