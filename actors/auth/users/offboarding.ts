/** Ends the removal of users: one whose containers and mappings are gone is forgotten. One node does it at a time. */
import { setTimeout as pause } from 'node:timers/promises';
import { leavers } from '../../../storage/offboarding.ts';
import type { AnyRef } from '../../../supervision/index.ts';
import { startSingleton } from '../../service/singleton.ts';
import type { AuthDeps } from '../deps.ts';
import { AUTH_USER } from './user.ts';
import { forgetUser } from './user-state.ts';

const EVERY_MS = 1000;

/** Starts it under `parent`. */
export function startOffboarding(parent: AnyRef, { db, home, log }: AuthDeps): AnyRef {
  return startSingleton(parent, {
    service: AUTH_USER.service,
    name: 'offboarding',
    home,
    log,
    work: async (signal) => {
      while (!signal.aborted) {
        for (const { id, leaving } of await leavers(db)) if (leaving === 'remove') await forgetUser(db, id);
        await pause(EVERY_MS, undefined, { signal }).catch(() => undefined);
      }
    },
  });
}
