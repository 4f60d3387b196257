/** Whether a request to the registry that comes along has a token to push or delete with. */
import { jwtVerify } from 'jose';
import { z } from 'zod';
import type { RegistryHolder } from '../../../proto/auth/tokens.ts';
import type { MayPush } from './quota.ts';
import type { TokenKeys } from './token-keys.ts';

const holderSchema = z.union([
  z.object({ token: z.string() }),
  z.object({
    user: z.string(),
    session: z.string(),
    since: z.number(),
    epoch: z.number(),
  }),
]);
const claimsSchema = z.object({
  sub: z.string().optional(),
  access: z.array(z.object({ type: z.string(), name: z.string(), actions: z.array(z.string()) })),
  holder: holderSchema.optional(),
});

/** Reads tokens of these keys, for the registry `host`. The registry itself checks what they let do. */
function tokenReader(keys: TokenKeys, host: string, issuer: string) {
  return async (authorization: string | undefined) => {
    const token = /^bearer +([^\s,]+)/i.exec(authorization ?? '')?.[1];
    if (token === undefined) return undefined;
    try {
      // The registry takes what is a minute from its time.
      const options = { algorithms: ['ES256'], audience: host, issuer, clockTolerance: 60 };
      const { payload } = await jwtVerify(token, keys, options);
      return claimsSchema.safeParse(payload).data;
    } catch {
      return undefined;
    }
  };
}

/** Says of such a token whether it lets push to repositories of a user, or delete there. */
export function pushTokens(...of: Parameters<typeof tokenReader>): MayPush {
  const read = tokenReader(...of);
  return async (authorization, owner) => {
    const { access = [] } = (await read(authorization)) ?? {};
    return access.some(
      ({ name, actions }) => name.startsWith(`${owner}/`) && actions.some((action) => action !== 'pull'),
    );
  };
}

/** To whom a token was given. */
export interface TokenHolder {
  readonly holder: RegistryHolder | undefined;
  /** Whose it is; undefined for one that lets only pull. Empty for the platform's own. */
  readonly owner: string | undefined;
}

/** Says to whom such a token was given. */
export function tokenHolders(...of: Parameters<typeof tokenReader>) {
  const read = tokenReader(...of);
  return async (authorization: string | undefined): Promise<TokenHolder> => {
    const { holder, sub, access = [] } = (await read(authorization)) ?? {};
    // Anybody gets tokens to pull, which have no subject either.
    const mayWrite = access.some(({ actions }) => actions.some((action) => action !== 'pull'));
    return { holder, owner: mayWrite ? (sub ?? '') : undefined };
  };
}
