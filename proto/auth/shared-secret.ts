/**
 * JWT_SECRET as all processes of a platform share it: what signs tokens and verifies them, and what keys for other
 * purposes are derived from. While it is being rotated there are several: the first signs and seals, all are accepted
 * (docs/reference/operations.md, "Rotating JWT_SECRET").
 */
import { createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import { decodeProtectedHeader, type JWTPayload, type JWTVerifyOptions, errors as joseErrors, jwtVerify } from 'jose';

/** One secret of at least 32 bytes, or several: the first signs, all are accepted. */
export type SharedSecret = string | readonly [string, ...string[]];

/** A key, and the name by which whoever reads finds it. */
interface NamedKey {
  /** 11 characters of base64url: tells which secret, and nothing about it. */
  readonly id: string;
  readonly key: KeyObject;
}

/** The first one signs and seals. */
export type Keyring = readonly [NamedKey, ...NamedKey[]];

/** Bytes of a name. */
export const KEY_ID_BYTES = 8;

/** The secrets themselves as keys, for tokens: those that were issued before names were written have to be readable. */
export function tokenKeyring(secret: SharedSecret): Keyring {
  return keyring(secret, (one) => createSecretKey(Buffer.from(one, 'utf8')));
}

/** Keys of 32 bytes for one purpose, each derived from its secret (HKDF with SHA-256, RFC 5869). */
export function derivedKeyring(secret: SharedSecret, purpose: string): Keyring {
  return keyring(secret, (one) => derive(one, `troupe ${purpose}`, 32));
}

/** A key of 32 bytes for one user of `key`, who is named by `salt`. */
export function derivedKey(key: KeyObject, salt: Uint8Array, purpose: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', key, salt, `troupe ${purpose}`, 32)));
}

/** Names of the secrets; that of the one that signs comes first. */
export function keyIds(secret: SharedSecret): readonly [string, ...string[]] {
  const [first, ...others] = secretsOf(secret);
  return [keyId(first), ...others.map(keyId)];
}

function keyring(secret: SharedSecret, keyOf: (secret: string) => KeyObject): Keyring {
  const named = (one: string): NamedKey => ({ id: keyId(one), key: keyOf(one) });
  const [first, ...others] = secretsOf(secret);
  return [named(first), ...others.map(named)];
}

function secretsOf(secret: SharedSecret): readonly [string, ...string[]] {
  return typeof secret === 'string' ? [secret] : secret;
}

function keyId(secret: string): string {
  return derive(secret, 'troupe key id', KEY_ID_BYTES).export().toString('base64url');
}

function derive(secret: string, info: string, bytes: number): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', Buffer.from(secret, 'utf8'), '', info, bytes)));
}

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
