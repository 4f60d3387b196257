/**
 * What becomes of the containers of users who are disabled with `--stop` or removed: they are stopped or deleted as if
 * their user had asked for it. One node does it at a time, and the rows say what is still to do, so another goes on
 * where it ends.
 */
import { deleteContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { containersOfUser } from '../../storage/compute/containers.ts';
import { noteStopped, type OffboardedUser, offboardedUsers } from '../../storage/offboarding.ts';
import type { EntitiesPart } from '../service/parts.ts';
import { periodic } from '../service/periodic.ts';
import type { ComputeDeps } from './deps.ts';
import { type ContainerMail, SERVICE } from './placed.ts';

const EVERY_MS = 1000;

/** The part that does it. */
export function offboardingPart({ db, placement, log }: ComputeDeps, containers: EntitiesPart<ContainerMail>) {
  const end = async ({ id: userId, leaving }: OffboardedUser): Promise<void> => {
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

  return periodic({
    service: SERVICE,
    name: 'offboarding',
    everyMs: EVERY_MS,
    placement,
    log,
    failure: 'the containers of disabled users could not be looked after',
    work: async (signal) => {
      for (const user of await offboardedUsers(db)) {
        if (signal.aborted) return;
        await end(user);
      }
    },
  });
}

/** The operator in the place of a user: the trail says who it was. */
function operatorFor(userId: string): Caller {
  return { kind: 'session', userId, username: 'operator', isAdmin: false, tokenId: 'operator', expiresAt: 0 };
}
