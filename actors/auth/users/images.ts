/** The images of a user who is being removed: a later user of the name would have them. */
import type { ShardLease } from '../../../proto/ports/placement.ts';
import { fenced } from '../../../storage/fenced.ts';
import { nameOfImages, noteNoImages } from '../../../storage/offboarding.ts';
import type { AuthDeps } from '../deps.ts';

/** Which user, and what it is written by. */
interface RemovedUser {
  readonly row: { readonly id: string };
  readonly lease: ShardLease;
}

/** Removes them. The user is not gone before: what cannot be removed now is tried again with the rest. */
export async function removeImages(
  { db, registry, log }: Pick<AuthDeps, 'db' | 'registry' | 'log'>,
  { row, lease }: RemovedUser,
): Promise<void> {
  const username = await nameOfImages(db, row.id);
  if (username === undefined) return;
  try {
    if ((await registry?.removeImages?.(username)) === 'kept')
      log.warn({ username }, 'the image registry lets nobody delete: the images of a removed user stay there');
  } catch (err) {
    return log.warn({ err, username }, 'the images of a user who is being removed could not be removed');
  }
  await fenced(db, lease, (tx) => noteNoImages(tx, row.id));
}
