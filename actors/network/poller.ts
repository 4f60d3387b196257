/** Finds mappings to be looked at: those whose check is due, and those whose container is gone. */
import { claimDue, orphanedMappings } from '../../storage/network/mappings.ts';
import type { EntitiesPart } from '../service/parts.ts';
import { periodic } from '../service/periodic.ts';
import type { NetworkDeps } from './deps.ts';
import { type MappingMessage, SERVICE } from './placed.ts';

const LOOK_MS = 5000;
/** Orphans are told by news; what was missed is found by this. */
const SWEEP_EVERY_MS = 60_000;
/** How long whoever claimed a mapping has to look at it, ms: longer than any look takes. */
const CLAIM_MS = 60_000;
/** Mappings of one round. */
const STEP = 50;

const common = { service: 'network', failure: 'mappings could not be looked for' } as const;

/** The part that has the mappings of this node checked when it is time. */
export function dueChecks(
  { db, placement, clock, log, lookMs = LOOK_MS }: NetworkDeps,
  mappings: EntitiesPart<MappingMessage>,
) {
  return periodic({
    ...common,
    name: 'checks',
    everyMs: lookMs,
    log,
    work: async () => {
      const now = clock.now();
      for (const id of await claimDue(db, new Date(now), new Date(now + CLAIM_MS), STEP, placement?.held(SERVICE)))
        mappings.tell(id, { type: 'check' });
    },
  });
}

/** The part that tells mappings whose container is gone. */
export function orphans({ db, placement, log, computeNews }: NetworkDeps, mappings: EntitiesPart<MappingMessage>) {
  return periodic({
    ...common,
    name: 'orphans',
    everyMs: SWEEP_EVERY_MS,
    log,
    work: async () => {
      for (const id of await orphanedMappings(db, STEP, placement?.held(SERVICE)))
        mappings.tell(id, { type: 'orphaned' });
    },
    wake: (now) =>
      computeNews.onNews(({ kind }) => {
        if (kind === 'gone' || kind === 'all') now();
      }),
  });
}
