/**
 * What the database says of those who push: whether they still may, as a token outlives what it was given for, and how
 * much room the administrator gave them.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { registryHolders, type StillHolds } from '../../../actors/auth/registry/registry-rights.ts';
import type { WriteAdmission } from '../../../proto/gateway/write-barrier.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { registryLimitOf } from '../../../storage/auth/users.ts';
import { type Db, type DbConnection, openDb } from '../../../storage/db.ts';
import type { TokenHolder } from './may-push.ts';
import { partOf } from './pushed-part.ts';
import type { Admit } from './quota.ts';

/** Says it as the database has it, on a connection that is opened by the first push. */
export function holdersOver(connection: DbConnection, log: Log) {
  let db: Db | undefined;
  const holds: StillHolds = (...asked) => {
    db ??= openDb(connection, { log, name: 'registry', max: 2 });
    return registryHolders(db)(...asked);
  };
  const limitMb = (username: string): Promise<number | null> => {
    db ??= openDb(connection, { log, name: 'registry', max: 2 });
    return registryLimitOf(db, username);
  };
  return { holds, limitMb, close: async () => db?.close() };
}

const ENDED =
  'What you logged in with is no longer valid: it was revoked, or no longer has this right. Log in again with one ' +
  'that is.';

/** How often it is asked of a write that goes on, ms. */
const AGAIN_MS = 60_000;
/** A name of a repository is cut for the log: the registry did not look at it yet. */
const MOST_NAME = 255;

/** What it asks with. */
interface HeldFirstOptions {
  readonly holderOf: (authorization: string | undefined) => Promise<TokenHolder>;
  readonly holds: StillHolds;
  readonly log: Log;
  /** How often it is asked of a write that goes on, ms. Default: each minute. */
  readonly againMs?: number | undefined;
}

/** Asks for the holder of a token before `then` is, and again while the write goes on: it ends with the right. */
export function heldFirst({ holderOf, holds, log, againMs = AGAIN_MS }: HeldFirstOptions, then: Admit): Admit {
  return async (request) => {
    const part = partOf(request.method, request.target);
    if (part === undefined) return then(request);
    const { repository } = part;
    const { holder, owner } = await holderOf(request.field('authorization'));
    const named = { owner, repository: repository.slice(0, MOST_NAME) };
    if (holder === undefined) return about(await then(request), named);
    const action = request.method === 'DELETE' ? 'delete' : 'push';
    const isHeld = () =>
      holds(holder, repository, action).catch((error: unknown) => {
        log.warn({ err: error }, 'whether who pushes still may could not be seen');
        throw error;
      });
    if (!(await isHeld())) return ENDED;
    const admitted = await then(request);
    if (typeof admitted === 'string' || 'later' in admitted) return admitted;
    return about({ ...admitted, ...askedAgain(isHeld, againMs, admitted.onOver) }, named);
  };
}

function about(admitted: Awaited<ReturnType<Admit>>, named: Pick<WriteAdmission, 'owner' | 'repository'>) {
  return typeof admitted === 'string' || 'later' in admitted ? admitted : { ...admitted, ...named };
}

/** Refuses the rest of a write when it is no longer held. What cannot be seen now is asked again. */
function askedAgain(isHeld: () => Promise<boolean>, againMs: number, onOver: WriteAdmission['onOver']) {
  const over = new AbortController();
  const { signal } = over;
  const ask = async (refuse: (why: string) => void): Promise<void> => {
    for (;;) {
      await delay(againMs, undefined, { signal, ref: false });
      if (!(await isHeld().catch(() => true))) return refuse(ENDED);
    }
  };
  return {
    onBegin: (refuse: (why: string) => void) => void ask(refuse).catch(() => {}),
    onOver: () => {
      over.abort();
      onOver?.();
    },
  };
}
