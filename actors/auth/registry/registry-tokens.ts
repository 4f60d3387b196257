/** Issues registry tokens (the token specification of CNCF Distribution). */
import { type KeyObject, randomUUID } from 'node:crypto';
import { type JWTHeaderParameters, SignJWT } from 'jose';
import type { CatalogAccess, RepositoryAccess } from '../../../proto/auth/registry.ts';
import { type SharedSecret, tokenKeyring } from '../../../proto/auth/shared-secret.ts';
import { REGISTRY_TOKEN_SECONDS, type RegistryClaims, type RegistryHolder } from '../../../proto/auth/tokens.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import type { RegistrySigner } from './registry-key.ts';

/** Who issues, unless REGISTRY_ISSUER says otherwise. */
export const DEFAULT_ISSUER = 'troupe';

interface RegistryTokenOptions {
  readonly clock: Clock;
  /** Who issues, as the registry expects it. */
  readonly issuer: string;
  /** Signs with ES256. Without it the tokens are HS256 with the shared secret, which Distribution does not take. */
  readonly signer: RegistrySigner | undefined;
  readonly jwtSecret: SharedSecret;
}

/** What a token is to say. `subject` is empty for anybody, `service` is the registry. */
interface RegistryGrant {
  readonly subject: string;
  readonly service: string;
  readonly access: readonly (RepositoryAccess | CatalogAccess)[];
  /** With whom it ends. */
  readonly holder?: RegistryHolder | undefined;
}

/** Makes the issuer. A token is valid from now for five minutes. */
export function registryTokens(options: RegistryTokenOptions) {
  const { clock, issuer } = options;
  const { header, key } = signing(options);
  return async ({ subject, service, access, holder }: RegistryGrant): Promise<{ token: string; issuedAt: Date }> => {
    const iat = Math.floor(clock.now() / 1000);
    const claims = {
      type: 'registry',
      iss: issuer,
      sub: subject,
      aud: service,
      exp: iat + REGISTRY_TOKEN_SECONDS,
      nbf: iat,
      iat,
      jti: randomUUID(),
      access,
      ...(holder === undefined ? {} : { holder }),
    } satisfies RegistryClaims;
    return { token: await new SignJWT(claims).setProtectedHeader(header).sign(key), issuedAt: new Date(iat * 1000) };
  };
}

function signing({ signer, jwtSecret }: RegistryTokenOptions): { header: JWTHeaderParameters; key: KeyObject } {
  if (signer === undefined) {
    const [{ id: kid, key }] = tokenKeyring(jwtSecret);
    return { header: { alg: 'HS256', typ: 'JWT', kid }, key };
  }
  const { kid, chain, privateKey } = signer;
  return { header: { alg: 'ES256', typ: 'JWT', kid, x5c: [...chain] }, key: privateKey };
}
