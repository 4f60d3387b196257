/** Whether a request to the registry that comes along has a token to push or delete with. */
import { createPublicKey } from 'node:crypto';
import { jwtVerify } from 'jose';
import { z } from 'zod';
import type { RegistryKey } from '../../../actors/auth/registry/registry-key.ts';
import type { MayPush } from './quota.ts';

const claimsSchema = z.object({
  access: z.array(z.object({ type: z.string(), name: z.string(), actions: z.array(z.string()) })),
});

/** Says it for tokens of this key, for the registry `host`. The registry itself checks what they let do. */
export function pushTokens(key: Pick<RegistryKey, 'privateKey'>, host: string, issuer: string): MayPush {
  const publicKey = createPublicKey(key.privateKey);
  return async (authorization, owner) => {
    const token = /^bearer +([^\s,]+)/i.exec(authorization ?? '')?.[1];
    if (token === undefined) return false;
    try {
      // The registry takes what is a minute from its time.
      const options = { algorithms: ['ES256'], audience: host, issuer, clockTolerance: 60 };
      const { payload } = await jwtVerify(token, publicKey, options);
      const claims = claimsSchema.safeParse(payload);
      const access = claims.data?.access ?? [];
      return access.some(
        ({ name, actions }) => name.startsWith(`${owner}/`) && actions.some((action) => action !== 'pull'),
      );
    } catch {
      return false;
    }
  };
}
