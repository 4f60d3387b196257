/**
 * What becomes of the containers of users who are disabled with `--stop` or removed: they are stopped or deleted as if
 * their user had asked for it. One node does it at a time, and the rows say what is still to do, so another goes on
 * where it ends.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { deleteContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { containersOfUser } from '../../storage/compute/containers.ts';
import { type Leaver, leavers, noteStopped } from '../../storage/offboarding.ts';
import type { AnyRef } from '../../supervision/index.ts';
import type { AnsweringEntities } from '../service/parts.ts';
import { startSingleton } from '../service/singleton.ts';
import type { ComputeDeps } from './deps.ts';
import { type ContainerMail, SERVICE } from './placed.ts';

const EVERY_MS = 1000;

/** Starts it under `parent`. */
export function startOffboarding(
  parent: AnyRef,
  { db, home, log }: ComputeDeps,
  containers: AnsweringEntities<ContainerMail>,
): AnyRef {
  const end = async ({ id: userId, leaving }: Leaver): Promise<void> => {
    const isRemoval = leaving === 'remove';
    let problems = 0;
    for (const { id, status } of await containersOfUser(db, userId)) {
      if (!isRemoval && (status === 'stopped' || status === 'failed')) continue;
      const call = { caller: operatorFor(userId), params: { id }, query: undefined, body: undefined };
      try {
        await containers.call(isRemoval ? deleteContainer : stopContainer, { ...call, address: '', requestId: '' });
      } catch (error) {
        // It stopped or went by itself meanwhile.
        if (error instanceof Refusal && (error.code === 'conflict' || error.code === 'not_found')) continue;
        problems += 1;
        log.warn(
          { err: error, userId, containerId: id, leaving },
          'a container of a disabled user could not be ended yet',
        );
      }
    }
    if (!isRemoval && problems === 0) await noteStopped(db, userId);
  };

  return startSingleton(parent, {
    service: SERVICE,
    name: 'offboarding',
    home,
    log,
    work: async (signal) => {
      while (!signal.aborted) {
        for (const leaver of await leavers(db)) {
          if (signal.aborted) return;
          await end(leaver);
        }
        await pause(EVERY_MS, undefined, { signal }).catch(() => undefined);
      }
    },
  });
}

/** The operator in the place of a user: the trail says who it was. */
function operatorFor(userId: string): Caller {
  return { kind: 'session', userId, username: 'operator', isAdmin: false, tokenId: 'operator', expiresAt: 0 };
}
