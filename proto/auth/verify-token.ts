/** Verifies signed tokens (JWT, RFC 7519) while the secret that signs them is being rotated. */
import { decodeProtectedHeader, type JWTPayload, type JWTVerifyOptions, errors as joseErrors, jwtVerify } from 'jose';
import type { Keyring } from './shared-secret.ts';

/**
 * The claims of a token that one of the keys signed with HS256, and that `options` let pass; else undefined. `kid`
 * names the key (RFC 7515, 4.1.4); a token without one of our names, from before there were any, is tried with each.
 */
export async function verifiedClaims(
  token: string,
  keyring: Keyring,
  options: Omit<JWTVerifyOptions, 'algorithms'>,
): Promise<JWTPayload | undefined> {
  for (const { key } of candidates(token, keyring)) {
    try {
      return (await jwtVerify(token, key, { ...options, algorithms: ['HS256'] })).payload;
    } catch (error) {
      if (error instanceof joseErrors.JWSSignatureVerificationFailed) continue;
      if (error instanceof joseErrors.JOSEError) return undefined;
      throw error;
    }
  }
  return undefined;
}

function candidates(token: string, keyring: Keyring): readonly Keyring[number][] {
  let kid: unknown;
  try {
    kid = decodeProtectedHeader(token).kid;
  } catch {
    return [];
  }
  const named = keyring.filter(({ id }) => id === kid);
  return named.length > 0 ? named : keyring;
}
