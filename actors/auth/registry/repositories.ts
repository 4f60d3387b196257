/** What operators do with the registry's repositories from the command line. It holds from the next token on. */
import { Refusal } from '../../../proto/errors.ts';
import { isRepository } from '../../../proto/repositories.ts';
import { audit } from '../../../storage/audit.ts';
import { makePrivate, makePublic } from '../../../storage/auth/repositories.ts';
import { userByName } from '../../../storage/auth/users.ts';
import type { Db } from '../../../storage/db.ts';
import { isLibrary, ownerOf } from './registry-rules.ts';

/** Who may pull a repository: anybody, or its owner. */
export type Visibility = 'public' | 'private';

/**
 * Sets who may pull a repository; the images need not be there yet. Returns whether that was a change. Refuses
 * `invalid_request` (no such name; `library` is always public) and `not_found` (its owner is nobody).
 */
export async function setVisibility(db: Db, repository: string, visibility: Visibility): Promise<boolean> {
  const owner = ownerOf(repository);
  if (owner === undefined || !isRepository(repository)) {
    throw new Refusal('invalid_request', {
      message: 'A repository is <username>/<name>, in lower case, without the registry and without a tag.',
    });
  }
  if (isLibrary(repository)) {
    throw new Refusal('invalid_request', { message: 'Everything in library is public, and stays so.' });
  }
  return db.tx(async (tx) => {
    // What belongs to nobody is a slip of the pen, except what was public when its owner went.
    if (visibility === 'public' && (await userByName(tx, owner)) === undefined) {
      throw new Refusal('not_found', { message: `There is no user ${owner}: a repository is <username>/<name>.` });
    }
    const changed = visibility === 'public' ? await makePublic(tx, repository) : await makePrivate(tx, repository);
    if (changed) {
      const action = 'repository.set_visibility';
      await audit(tx, { userId: null, username: 'operator', action, target: repository, detail: { visibility } });
    }
    return changed;
  });
}
