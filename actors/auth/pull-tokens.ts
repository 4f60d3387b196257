/** What the platform itself shows the image registry when it pulls for a user: a token for that one repository, with that user's rights. */
import type { RegistryAuth } from '../../proto/ports.ts';
import { publicAmong } from '../../storage/auth/repositories.ts';
import { userById } from '../../storage/auth/users.ts';
import type { AuthDeps } from './deps.ts';
import { type Asked, accessFor } from './registry-rules.ts';
import { DEFAULT_ISSUER, registryTokens } from './registry-tokens.ts';

/** The image's repository of `<host>/<repository>:<tag>`, or undefined when it is of another host. */
function repositoryOf(image: string, host: string): string | undefined {
  if (!image.startsWith(`${host}/`)) return undefined;
  const path = image.slice(host.length + 1);
  const colon = path.indexOf(':');
  return colon < 0 ? path : path.slice(0, colon);
}

/** Makes the issuer for the registry at `host`. */
export function pullTokens(
  deps: Pick<AuthDeps, 'db' | 'clock' | 'jwtSecret' | 'adminUsername' | 'registry'>,
  host: string,
) {
  const { db, clock, jwtSecret, adminUsername, registry = {} } = deps;
  const issue = registryTokens({
    clock,
    jwtSecret,
    issuer: registry.issuer ?? DEFAULT_ISSUER,
    signer: registry.signer,
  });

  return async ({ userId, image }: { readonly userId: string; readonly image: string }): Promise<RegistryAuth> => {
    const repository = repositoryOf(image, host) ?? '';
    const user = await userById(db, userId);
    const who =
      user === undefined
        ? ({ kind: 'anonymous' } as const)
        : ({ kind: 'user', username: user.username, isAdmin: user.username === adminUsername } as const);
    const asked: Asked = new Map([[repository, new Set(['pull'] as const)]]);
    const open = await publicAmong(db, [repository]);
    const access = accessFor(who, asked, (name) => open.has(name));
    const { token } = await issue({ subject: user?.username ?? '', service: host, access });
    return { registryToken: token };
  };
}
