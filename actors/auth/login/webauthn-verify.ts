/**
 * The two WebAuthn ceremonies: what a browser brings back is verified here (WebAuthn Level 3, sections 7.1 and 7.2), by
 * the library and by what the library leaves open. Loaded by the first key that comes: the library takes as long to
 * load as the rest of the service.
 */
import { createPublicKey } from 'node:crypto';
// Certificates are read by a library that needs it before itself.
import 'reflect-metadata';
import { verifyAuthenticationResponse, verifyRegistrationResponse } from '@simplewebauthn/server';
import { decodeAttestationObject, isoBase64URL, isoCBOR } from '@simplewebauthn/server/helpers';
import { z } from 'zod';
import type { NewCredential, SignedCredential } from '../../../proto/auth/security-keys.ts';
import {
  ALGORITHMS,
  acceptsOrigin,
  counterAdvances,
  KeyRejected,
  type RelyingParty,
  userHandleOf,
} from './webauthn-rules.ts';

/** A key that was just made, as it is kept. */
interface MadeKey {
  /** Credential id, base64url. */
  readonly id: string;
  /** COSE_Key. */
  readonly publicKey: Uint8Array;
  readonly counter: number;
  /** Whether the authenticator checked who the person is (PIN, fingerprint), not only that there is one. */
  readonly userVerified: boolean;
}

/** What is known of a key that is to be used. */
interface KnownKey extends MadeKey {
  readonly userId: string;
}

/** Verifies a new key. Rejects with KeyRejected. */
export async function verifyNewKey(
  credential: NewCredential,
  challenge: string,
  party: RelyingParty,
): Promise<MadeKey> {
  const { id, response } = credential;
  const origin = acceptedOrigin(credential, party);
  checkAttestation(response.attestationObject);
  const { verified, registrationInfo } = await verification(() =>
    verifyRegistrationResponse({
      response: {
        id,
        rawId: id,
        type: 'public-key',
        clientExtensionResults: {},
        response: { clientDataJSON: response.clientDataJSON, attestationObject: response.attestationObject },
      },
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: party.id,
      requireUserVerification: false,
      supportedAlgorithmIDs: [...ALGORITHMS],
    }),
  );
  if (!verified) throw new KeyRejected('attestation');
  const { credential: made, userVerified } = registrationInfo;
  if (made.id !== id) throw new KeyRejected('malformed');
  if (!isUsableKey(made.publicKey)) throw new KeyRejected('public_key');
  return { id, publicKey: made.publicKey, counter: made.counter, userVerified };
}

/**
 * Verifies a use of a key and returns its new counter, which must still be stored with compare-and-set. A key that was
 * made with a check of the user must be used with one. Rejects with KeyRejected.
 */
export async function verifyUse(
  credential: SignedCredential,
  challenge: string,
  party: RelyingParty,
  key: KnownKey,
): Promise<number> {
  const { id, response } = credential;
  const origin = acceptedOrigin(credential, party);
  const { userHandle } = response;
  if (userHandle && userHandle !== userHandleOf(key.userId)) throw new KeyRejected('user_handle');
  const { verified, authenticationInfo } = await verification(() =>
    verifyAuthenticationResponse({
      response: {
        id,
        rawId: id,
        type: 'public-key',
        clientExtensionResults: {},
        response: {
          clientDataJSON: response.clientDataJSON,
          authenticatorData: response.authenticatorData,
          signature: response.signature,
        },
      },
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: party.id,
      // The counter is judged below, once the signature says that it is the key's own.
      credential: { id: key.id, publicKey: new Uint8Array(key.publicKey), counter: 0 },
      requireUserVerification: key.userVerified,
    }),
  );
  if (!verified) throw new KeyRejected('signature');
  if (!counterAdvances(key.counter, authenticationInfo.newCounter)) throw new KeyRejected('counter');
  return authenticationInfo.newCounter;
}

const clientDataSchema = z.object({
  origin: z.string(),
  crossOrigin: z.boolean().optional(),
  topOrigin: z.never().optional(),
});

/**
 * The page's origin. A page inside a page of somebody else's is not accepted: who clicks there may not see what for.
 */
function acceptedOrigin(
  { id, rawId, response }: { id: string; rawId?: string | undefined; response: { clientDataJSON: string } },
  party: RelyingParty,
): string {
  if (rawId !== undefined && rawId !== id) throw new KeyRejected('malformed');
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(response.clientDataJSON, 'base64url').toString('utf8'));
  } catch (cause) {
    throw new KeyRejected('malformed', cause);
  }
  const clientData = clientDataSchema.safeParse(parsed);
  if (!clientData.success) throw new KeyRejected('malformed');
  const { origin, crossOrigin } = clientData.data;
  if (crossOrigin === true || !acceptsOrigin(party, origin)) throw new KeyRejected('origin');
  return origin;
}

/**
 * We ask for no attestation, so browsers send none, or one that the key itself signed. Certificates would prove nothing
 * to us, who trust no maker's root, and following them would let strangers choose addresses for this server to fetch.
 */
function checkAttestation(attestationObject: string): void {
  let plain: boolean;
  try {
    const attestation = decodeAttestationObject(isoBase64URL.toBuffer(attestationObject));
    const format = attestation.get('fmt');
    plain = format === 'none' || (format === 'packed' && attestation.get('attStmt').get('x5c') === undefined);
  } catch (cause) {
    throw new KeyRejected('malformed', cause);
  }
  if (!plain) throw new KeyRejected('attestation');
}

/** The library throws plain errors for whatever it does not accept, and for bytes that it cannot read. */
async function verification<T>(verify: () => Promise<T>): Promise<T> {
  try {
    return await verify();
  } catch (cause) {
    throw new KeyRejected('verification', cause);
  }
}

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
