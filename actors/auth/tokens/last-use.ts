/** Remembers when API tokens and sessions were used and writes it down now and then: no request waits for a write. */
import type { Log } from '../../../proto/ports/log.ts';
import { recordUses } from '../../../storage/auth/api-tokens.ts';
import { recordSeen } from '../../../storage/auth/sessions.ts';
import type { Db } from '../../../storage/db.ts';
import { type AnyRef, dispatch, type Ref, spawn } from '../../../supervision/index.ts';

const FLUSH_MS = 5000;
/** Tokens of a kind remembered between two writes; the rest are noted at their next use. */
const MAX_TOKENS = 10_000;

/** What a token that is used is. */
type UsedToken = 'api_token' | 'session';

/** `at`: unix seconds. */
type LastUseMessage =
  | { readonly type: 'used'; readonly kind: UsedToken; readonly tokenId: string; readonly at: number }
  | { readonly type: 'flush' };

/** By kind and the token's id: when it was used last. */
type LastUses = Readonly<Record<UsedToken, Map<string, number>>>;

/** Starts the actor; what it has not written when the database is away is written later, or lost with the process. */
export function startLastUse(parent: AnyRef, { db, log }: { readonly db: Db; readonly log: Log }): Ref<LastUseMessage> {
  const flush = async ({ api_token: uses, session: seen }: LastUses): Promise<void> => {
    try {
      if (uses.size > 0) await recordUses(db, uses);
      uses.clear();
      if (seen.size > 0) await recordSeen(db, seen);
      seen.clear();
    } catch (error) {
      log.warn({ err: error, tokens: uses.size + seen.size }, 'last use of tokens could not be recorded');
    }
  };
  return spawn<LastUses, LastUseMessage>(
    parent,
    (uses, message) => {
      if (message.type === 'flush') return flush(uses).then(() => uses);
      const { kind, tokenId, at } = message;
      if (uses[kind].has(tokenId) || uses[kind].size < MAX_TOKENS) uses[kind].set(tokenId, at);
      return uses;
    },
    {
      name: 'last-use',
      kind: 'auth/last-use',
      initialStateFunc: (ctx) => {
        ctx.every(FLUSH_MS, { type: 'flush' });
        return { api_token: new Map(), session: new Map() };
      },
      afterStop: flush,
    },
  );
}

/** Notes a use. */
export function noteUse(ref: Ref<LastUseMessage>, tokenId: string, at: number, kind: UsedToken = 'api_token'): void {
  dispatch(ref, { type: 'used', kind, tokenId, at });
}
