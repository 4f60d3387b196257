/** Ends the removal of users: one whose containers and mappings are gone is forgotten. One node does it at a time. */
import { offboardedUsers } from '../../../storage/offboarding.ts';
import { periodic } from '../../service/periodic.ts';
import type { AuthDeps } from '../deps.ts';
import { AUTH_USER } from './user.ts';
import { forgetUser } from './user-state.ts';

const EVERY_MS = 1000;

/** The part that does it. */
export function offboardingPart({ db, placement, log }: AuthDeps) {
  return periodic({
    service: AUTH_USER.service,
    name: 'offboarding',
    everyMs: EVERY_MS,
    placement,
    log,
    failure: 'removed users could not be forgotten yet',
    work: async () => {
      for (const { id, leaving } of await offboardedUsers(db)) if (leaving === 'remove') await forgetUser(db, id);
    },
  });
}
