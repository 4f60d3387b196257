/** Forgets which containers were deleted long ago. */
import { purgeDeleted } from '../../storage/compute/deleted.ts';
import { periodic } from '../service/periodic.ts';
import type { ComputeDeps } from './deps.ts';
import { SERVICE } from './placed.ts';

const EVERY_MS = 6 * 3_600_000;
/** A creation that outlasts its deletion does so by minutes. */
const REMEMBER_DELETED_DAYS = 30;

/** The part that does it. */
export function retention({ db, placement, log }: ComputeDeps) {
  return periodic({
    service: SERVICE,
    name: 'retention',
    everyMs: EVERY_MS,
    placement,
    log,
    failure: 'containers that were deleted long ago could not be forgotten',
    work: () => purgeDeleted(db, REMEMBER_DELETED_DAYS),
  });
}
