/** Public keys as authenticators give them (COSE_Key: RFC 9052, section 7; parameters in RFC 9053 and RFC 8230). */
import { createPublicKey } from 'node:crypto';
import { isoCBOR } from '@simplewebauthn/server/helpers';

/** Labels of a COSE_Key's map. */
const [KTY, ALG, CRV, X, Y] = [1, 3, -1, -2, -3];
/** Of an RSA key the same labels mean its modulus and exponent. */
const [N, E] = [-1, -2];
const RSA_BITS = { least: 2048, most: 4096 };

/**
 * Whether the bytes are one key that can be verified with: a known algorithm, with the kind and curve that belong to
 * it, on the curve, an RSA modulus of 2048 to 4096 bits. Without an attestation nothing has been signed yet, so that a
 * broken key would be noticed only when its owner is locked out.
 */
export function isUsableKey(publicKey: Uint8Array): boolean {
  try {
    const fields = isoCBOR.decodeFirst<unknown>(new Uint8Array(publicKey));
    const jwk = fields instanceof Map ? jwkOf(fields) : undefined;
    if (jwk === undefined) return false;
    const { modulusLength } = createPublicKey({ key: jwk, format: 'jwk' }).asymmetricKeyDetails ?? {};
    return modulusLength === undefined || (modulusLength >= RSA_BITS.least && modulusLength <= RSA_BITS.most);
  } catch {
    return false;
  }
}

function jwkOf(fields: ReadonlyMap<unknown, unknown>): Record<string, string> | undefined {
  const is = (label: number | undefined, value: number) => fields.get(label) === value;
  if (is(ALG, -7) && is(KTY, 2) && is(CRV, 1)) {
    return { kty: 'EC', crv: 'P-256', x: text(fields.get(X)), y: text(fields.get(Y)) };
  }
  if (is(ALG, -8) && is(KTY, 1) && is(CRV, 6)) return { kty: 'OKP', crv: 'Ed25519', x: text(fields.get(X)) };
  if (is(ALG, -257) && is(KTY, 3)) return { kty: 'RSA', n: text(fields.get(N)), e: text(fields.get(E)) };
  return undefined;
}

function text(value: unknown): string {
  if (!(value instanceof Uint8Array) || value.byteLength === 0) throw new TypeError('not a byte string');
  return Buffer.from(value).toString('base64url');
}
