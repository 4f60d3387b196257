/** The keys whose tokens the registry takes: that of this process, or those of Distribution's certificates. */
import { createPublicKey, type KeyObject, X509Certificate } from 'node:crypto';
import { type JWTHeaderParameters, errors as joseErrors } from 'jose';
import { certificatesIn, keyId, type RegistryKey } from '../../../actors/auth/registry/registry-key.ts';

/** Certificates of a chain that are looked at, so that a stranger's long one costs little. */
const MOST_LINKS = 5;

/** The public key that is to check a token with this header. Throws JOSEError for one that it does not trust. */
export type TokenKeys = (header: Pick<JWTHeaderParameters, 'kid' | 'x5c'>) => KeyObject;

/** The one key of this process. */
export function ownKeys({ privateKey }: Pick<RegistryKey, 'privateKey'>): TokenKeys {
  const publicKey = createPublicKey(privateKey);
  return () => publicKey;
}

/**
 * Those of a `rootcertbundle` (PEM): what is not trusted here Distribution does not trust either. Throws
 * RegistryKeyError for one without a certificate, or with one that cannot be read.
 */
export function bundledKeys(pem: string): TokenKeys {
  const bundle = certificatesIn(pem);
  const byId = new Map(bundle.map(({ publicKey }) => [keyId(publicKey), publicKey]));
  return ({ kid, x5c }) => {
    const key = x5c === undefined ? byId.get(kid ?? '') : keyOfChain(x5c, bundle);
    if (key === undefined) throw new joseErrors.JWKSNoMatchingKey();
    return key;
  };
}

/** The key of the first certificate of a chain that ends in the bundle; undefined for another. */
function keyOfChain(x5c: readonly string[], bundle: readonly X509Certificate[]): KeyObject | undefined {
  const chain = x5c.slice(0, MOST_LINKS).map((der) => new X509Certificate(Buffer.from(der, 'base64')));
  for (const [at, certificate] of chain.entries()) {
    const isSigned = (by: X509Certificate) => certificate.checkIssued(by) && certificate.verify(by.publicKey);
    if (bundle.some((one) => one.raw.equals(certificate.raw) || isSigned(one))) return chain[0]?.publicKey;
    const next = chain[at + 1];
    if (next === undefined || !next.ca || !isSigned(next)) return undefined;
  }
  return undefined;
}
