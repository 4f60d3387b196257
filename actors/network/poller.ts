/** The actor that finds mappings to be looked at: those whose check is due, and those whose container is gone. */
import type { Ending } from '../../proto/ports/ending.ts';
import { claimDue, orphanedMappings } from '../../storage/network/mappings.ts';
import { type AnyRef, dispatch, spawn } from '../../supervision/index.ts';
import type { NetworkDeps } from './deps.ts';
import type { MappingMessage } from './mapping.ts';

const EVERY_MS = 5000;
/** Orphans are told by news; what was missed is found by this. */
const SWEEP_EVERY_MS = 60_000;
/** How long whoever claimed a mapping has to look at it, ms: longer than any look takes. */
const CLAIM_MS = 60_000;
/** Mappings of one round. */
const STEP = 50;

/** Starts the actor; `tell` reaches a mapping's actor. */
export function startPoller(
  parent: AnyRef,
  { db, clock, log, computeNews, lookMs = EVERY_MS }: NetworkDeps,
  tell: (mappingId: string, message: MappingMessage) => void,
): AnyRef {
  const work = async (message: 'look' | 'sweep') => {
    if (message === 'sweep') {
      for (const id of await orphanedMappings(db, STEP)) tell(id, { type: 'orphaned' });
      return;
    }
    const now = clock.now();
    for (const id of await claimDue(db, new Date(now), new Date(now + CLAIM_MS), STEP)) tell(id, { type: 'check' });
  };
  return spawn<Ending, 'look' | 'sweep'>(
    parent,
    async (state, message) => {
      await work(message);
      return state;
    },
    {
      name: 'poller',
      kind: 'network/poller',
      mailbox: { capacity: 4, policy: 'drop-newest' },
      initialStateFunc: (ctx) => {
        ctx.every(lookMs, 'look');
        ctx.every(SWEEP_EVERY_MS, 'sweep');
        return computeNews.onNews((news) => {
          if (news.kind === 'gone' || news.kind === 'all') dispatch(ctx.self, 'sweep');
        });
      },
      afterStop: (watching) => watching.close(),
      onCrash: (_message, error, ctx) => {
        log.warn({ err: error }, 'mappings could not be looked for');
        return ctx.resume;
      },
    },
  );
}
