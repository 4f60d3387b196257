/** Rights at the registry: what the platform pulls for its users, what they may see, and what operators make public. */
import type { RepositoryAccess } from '../../../proto/auth/registry.ts';
import type { RegistryHolder } from '../../../proto/auth/tokens.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { RegistryAuth } from '../../../proto/ports/engine.ts';
import { isRepository, repositoryIn } from '../../../proto/repositories.ts';
import { audit } from '../../../storage/audit.ts';
import { makePrivate, makePublic, publicAmong, publicNames } from '../../../storage/auth/repositories.ts';
import { tokenDirectory } from '../../../storage/auth/token-directory.ts';
import { userByName, usernameById } from '../../../storage/auth/users.ts';
import type { Db } from '../../../storage/db.ts';
import type { AuthDeps } from '../deps.ts';
import { accessFor, isLibrary, ownerOf, type RegistryIdentity, stillGrants } from './registry-rules.ts';
import { DEFAULT_ISSUER, registryTokens } from './registry-tokens.ts';

/** The platform's side of the registry at one host. All reject with StorageError when the database is away. */
interface RegistryRights {
  /** What is shown when `image` is pulled for a user: a token for that one repository. */
  readonly auth: (pull: { readonly userId: string; readonly image: string }) => Promise<RegistryAuth>;
  /** Those of `repositories` that the user may pull, in their order. */
  readonly mayPull: (username: string, repositories: readonly string[]) => Promise<string[]>;
  /** The first repositories that were made public: so many at most. */
  readonly open: (most: number) => Promise<string[]>;
  /** The platform's own token: for the list of repositories, and to pull (hence list the tags of) `repositories`. */
  readonly ownToken: (repositories: readonly string[]) => Promise<string>;
  /** The same, which also lets delete there. */
  readonly removalToken: (repositories: readonly string[]) => Promise<string>;
}

/** Makes it for the registry at `host`. */
export function registryRights(
  deps: Pick<AuthDeps, 'db' | 'clock' | 'jwtSecret' | 'adminUsername' | 'registry'>,
  host: string,
): RegistryRights {
  const { db, clock, jwtSecret, adminUsername, registry = {} } = deps;
  const issue = registryTokens({
    clock,
    jwtSecret,
    issuer: registry.issuer ?? DEFAULT_ISSUER,
    signer: registry.signer,
  });

  const accessOf = async (who: RegistryIdentity, repositories: readonly string[]) => {
    const open = await publicAmong(db, repositories);
    const asked = new Map(repositories.map((name) => [name, new Set(['pull'] as const)]));
    return accessFor(who, asked, (name) => open.has(name));
  };

  const own = async (repositories: readonly string[], actions: RepositoryAccess['actions']) => {
    const access = repositories.map((name) => ({ type: 'repository' as const, name, actions }));
    const catalog = { type: 'registry' as const, name: 'catalog' as const, actions: ['*'] as const };
    return (await issue({ subject: '', service: host, access: [catalog, ...access] })).token;
  };

  return {
    auth: async ({ userId, image }) => {
      const username = await usernameById(db, userId);
      const who: RegistryIdentity =
        username === undefined
          ? { kind: 'anonymous' }
          : { kind: 'user', username, isAdmin: username === adminUsername };
      const access = await accessOf(who, [repositoryIn(image, host) ?? '']);
      const { token } = await issue({ subject: username ?? '', service: host, access });
      return { registryToken: token };
    },
    mayPull: async (username, repositories) => {
      const who: RegistryIdentity = { kind: 'user', username, isAdmin: username === adminUsername };
      return (await accessOf(who, repositories)).map(({ name }) => name);
    },
    open: (most) => publicNames(db, most),
    ownToken: (repositories) => own(repositories, ['pull']),
    removalToken: (repositories) => own(repositories, ['pull', 'delete']),
  };
}

/** Whether who got a registry token still has what it was given for, and may do this. */
export type StillHolds = (holder: RegistryHolder, repository: string, action: 'push' | 'delete') => Promise<boolean>;

/** Shown with the password, whenever that was: only a new one ends it. */
const ALWAYS = 32_503_680_000;

/** Says it as the database has it now; rejects with StorageError when that is away. */
export function registryHolders(db: Db): StillHolds {
  const directory = tokenDirectory(db);
  return async (holder, repository, action) => {
    if ('token' in holder) {
      const grant = await directory.grant(holder.token);
      return grant !== undefined && stillGrants(grant, repository, action);
    }
    const { user, session, since, epoch } = holder;
    return directory.knowsUser(user, { tokenId: session, issuedAt: session === '' ? ALWAYS : since, epoch });
  };
}

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
