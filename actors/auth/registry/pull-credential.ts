/**
 * Pull passes: what a machine that is not ours, such as a node of a cluster, logs in to the registry's token endpoint
 * with, to pull one repository for one user. The user's name and the pass are HTTP Basic credentials; nothing else of
 * the platform takes them.
 */
import { randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import { z } from 'zod';
import { type SharedSecret, tokenKeyring, verifiedClaims } from '../../../proto/auth/shared-secret.ts';
import { MAX_TOKEN_LENGTH } from '../../../proto/auth/tokens.ts';
import { idSchema } from '../../../proto/ids.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import type { RegistryAuth } from '../../../proto/ports/engine.ts';
import { isRepository, repositoryIn } from '../../../proto/repositories.ts';
import { usernameById } from '../../../storage/auth/users.ts';
import type { Queries } from '../../../storage/db.ts';

/**
 * How long a pass opens the token endpoint, seconds: a node may have to come up first, and a large image takes long.
 */
export const PULL_CREDENTIAL_SECONDS = 3600;

/** The header's `typ`: no other token of ours has it (RFC 8725, section 3.11). */
const TYPE = 'pull-pass';
const PREFIX = 'pull_';

const claimsSchema = z.object({ sub: idSchema, repository: z.string().refine(isRepository) });

/** Who pulls what. */
interface PullCredential {
  readonly userId: string;
  readonly repository: string;
}

/** Makes the issuer and the reader of passes. */
export function pullCredentials({ jwtSecret, clock }: { readonly jwtSecret: SharedSecret; readonly clock: Clock }) {
  const keyring = tokenKeyring(jwtSecret);
  const [{ id: kid, key }] = keyring;
  return {
    issue: async ({ userId, repository }: PullCredential): Promise<string> => {
      const iat = Math.floor(clock.now() / 1000);
      const claims = { sub: userId, repository, jti: randomUUID(), iat, exp: iat + PULL_CREDENTIAL_SECONDS };
      return PREFIX + (await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: TYPE, kid }).sign(key));
    },

    /** What a password says that is a pass; undefined for anything else, and once it has expired. */
    open: async (password: string): Promise<PullCredential | undefined> => {
      if (!password.startsWith(PREFIX) || password.length > MAX_TOKEN_LENGTH) return undefined;
      const claims = await verifiedClaims(password.slice(PREFIX.length), keyring, {
        typ: TYPE,
        requiredClaims: ['exp'],
        currentDate: new Date(clock.now()),
      });
      const { success, data } = claimsSchema.safeParse(claims);
      return success ? { userId: data.sub, repository: data.repository } : undefined;
    },
  };
}

/** Says what a node pulls `image` with for a user. Undefined for images of other registries than that at `host`. */
export type PullAuth = (pull: { readonly userId: string; readonly image: string }) => Promise<RegistryAuth | undefined>;

/** Makes it; undefined without a registry. It rejects with StorageError when the database is away. */
export function pullAuth(
  deps: { readonly db: Queries; readonly clock: Clock; readonly jwtSecret: SharedSecret },
  host: string | undefined,
): PullAuth | undefined {
  if (host === undefined) return undefined;
  const passes = pullCredentials(deps);
  return async ({ userId, image }) => {
    const repository = repositoryIn(image, host);
    const username = repository === undefined ? undefined : await usernameById(deps.db, userId);
    if (username === undefined || repository === undefined) return undefined;
    return { username, password: await passes.issue({ userId, repository }) };
  };
}
