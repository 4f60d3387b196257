/** What the platform does at the registry for its users: pull with their rights, and know what they may see. */
import type { RegistryAuth } from '../../../proto/ports/engine.ts';
import { parseImage } from '../../../proto/repositories.ts';
import { publicAmong } from '../../../storage/auth/repositories.ts';
import { usernameById } from '../../../storage/auth/users.ts';
import type { AuthDeps } from '../deps.ts';
import { accessFor, type RegistryIdentity } from './registry-rules.ts';
import { DEFAULT_ISSUER, registryTokens } from './registry-tokens.ts';

/** The platform's side of the registry at one host. All reject with StorageError when the database is away. */
interface RegistryRights {
  /** What is shown when `image` is pulled for a user: a token for that one repository. */
  readonly auth: (pull: { readonly userId: string; readonly image: string }) => Promise<RegistryAuth>;
  /** Those of `repositories` that the user may pull, in their order. */
  readonly mayPull: (username: string, repositories: readonly string[]) => Promise<string[]>;
  /** The platform's own token: for the list of repositories, and to pull (hence list the tags of) `repositories`. */
  readonly ownToken: (repositories: readonly string[]) => Promise<string>;
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

  return {
    auth: async ({ userId, image }) => {
      const username = await usernameById(db, userId);
      const who: RegistryIdentity =
        username === undefined
          ? { kind: 'anonymous' }
          : { kind: 'user', username, isAdmin: username === adminUsername };
      const access = await accessOf(who, [parseImage(image, host)?.repository ?? '']);
      const { token } = await issue({ subject: username ?? '', service: host, access });
      return { registryToken: token };
    },
    mayPull: async (username, repositories) => {
      const who: RegistryIdentity = { kind: 'user', username, isAdmin: username === adminUsername };
      return (await accessOf(who, repositories)).map(({ name }) => name);
    },
    ownToken: async (repositories) => {
      const pulls = repositories.map((name) => ({ type: 'repository' as const, name, actions: ['pull' as const] }));
      const catalog = { type: 'registry' as const, name: 'catalog' as const, actions: ['*'] as const };
      return (await issue({ subject: '', service: host, access: [catalog, ...pulls] })).token;
    },
  };
}
