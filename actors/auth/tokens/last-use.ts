/** Remembers when API tokens were used and writes it down now and then: no request waits for a write. */
import type { Log } from '../../../proto/ports/log.ts';
import { recordUses } from '../../../storage/auth/api-tokens.ts';
import type { Db } from '../../../storage/db.ts';
import { type AnyRef, dispatch, type Ref, spawn } from '../../../supervision/index.ts';

const FLUSH_MS = 5000;
/** Tokens remembered between two writes; the rest are noted at their next use. */
const MAX_TOKENS = 10_000;

/** `at`: unix seconds. */
type LastUseMessage =
  | { readonly type: 'used'; readonly tokenId: string; readonly at: number }
  | { readonly type: 'flush' };

/** Starts the actor; what it has not written when the database is away is written later, or lost with the process. */
export function startLastUse(parent: AnyRef, { db, log }: { readonly db: Db; readonly log: Log }): Ref<LastUseMessage> {
  const flush = async (uses: Map<string, number>): Promise<void> => {
    if (uses.size === 0) return;
    try {
      await recordUses(db, uses);
      uses.clear();
    } catch (error) {
      log.warn({ err: error, tokens: uses.size }, 'last use of API tokens could not be recorded');
    }
  };
  return spawn<Map<string, number>, LastUseMessage>(
    parent,
    (uses, message) => {
      if (message.type === 'flush') return flush(uses).then(() => uses);
      if (uses.has(message.tokenId) || uses.size < MAX_TOKENS) uses.set(message.tokenId, message.at);
      return uses;
    },
    {
      name: 'last-use',
      kind: 'auth/last-use',
      initialStateFunc: (ctx) => {
        ctx.every(FLUSH_MS, { type: 'flush' });
        return new Map();
      },
      afterStop: flush,
    },
  );
}

/** Notes a use. */
export function noteUse(ref: Ref<LastUseMessage>, tokenId: string, at: number): void {
  dispatch(ref, { type: 'used', tokenId, at });
}
