/**
 * The key that signs registry tokens, and its certificate. CNCF Distribution takes a token whose `x5c` header leads to
 * a certificate of its `rootcertbundle`, so the certificate must stay the same over restarts and nodes.
 */
import {
  createHash,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from 'node:crypto';
import { CodedError } from '../../../lib/errors.ts';
import { readPrivateKey } from '../../../lib/private-key.ts';
import type { Queries } from '../../../storage/db.ts';
import { getOrCreateSetting } from '../../../storage/settings.ts';

/** What an operator gave as REGISTRY_SIGNING_KEY. */
export interface RegistryKey {
  readonly privateKey: KeyObject;
  /** Distribution's name of the public key. */
  readonly kid: string;
  /** The certificates that came with it, base64 of DER, the key's own first. Empty when none came. */
  readonly chain: readonly string[];
}

/** The key with its certificate: what signs. */
export interface RegistrySigner {
  readonly privateKey: KeyObject;
  readonly kid: string;
  /** As the `x5c` header has them (RFC 7515, section 4.1.6): never empty. */
  readonly chain: readonly string[];
}

/** The key is not usable; the message says what was expected and shows nothing of it. */
export class RegistryKeyError extends CodedError<'bad_registry_key'> {
  constructor(expected: string, cause?: unknown) {
    super('bad_registry_key', expected, cause === undefined ? undefined : { cause });
  }
}

const KEY_BLOCK = /-----BEGIN ((?:[A-Z]+ )*PRIVATE KEY)-----[^-]*-----END \1-----/g;
const CERTIFICATE_BLOCK = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** Reads a PEM of one EC P-256 key (PKCS#8, SEC1), with its chain if there is one. Throws RegistryKeyError. */
export function parseRegistryKey(pem: string): RegistryKey {
  const [block, another] = pem.match(KEY_BLOCK) ?? [];
  if (block === undefined || another !== undefined) {
    throw new RegistryKeyError('must hold one PEM private key, without a password');
  }
  let privateKey: KeyObject;
  try {
    privateKey = readPrivateKey(block);
  } catch (cause) {
    throw new RegistryKeyError('must be a PEM private key, without a password', cause);
  }
  if (privateKey.asymmetricKeyType !== 'ec' || privateKey.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw new RegistryKeyError('must be an EC key on the curve P-256');
  }
  const certificates = (pem.match(CERTIFICATE_BLOCK) ?? []).map(certificateOf);
  const [own] = certificates;
  if (own !== undefined && !own.checkPrivateKey(privateKey)) {
    throw new RegistryKeyError('has a first certificate that is not of the key');
  }
  return { privateKey, kid: keyId(privateKey), chain: certificates.map(({ raw }) => raw.toString('base64')) };
}

/** The certificates of a PEM. Throws RegistryKeyError for one that cannot be read, and without any. */
export function certificatesIn(pem: string): X509Certificate[] {
  const blocks = pem.match(CERTIFICATE_BLOCK) ?? [];
  if (blocks.length === 0) throw new RegistryKeyError('must hold a PEM certificate');
  return blocks.map(certificateOf);
}

function certificateOf(block: string): X509Certificate {
  try {
    return new X509Certificate(block);
  } catch (cause) {
    throw new RegistryKeyError('has a certificate that cannot be read', cause);
  }
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/**
 * The key id as Distribution's token specification has it: the first 240 bits of the SHA-256 of the DER public key, in
 * base32, in twelve groups of four.
 */
export function keyId(key: KeyObject): string {
  const der = (key.type === 'public' ? key : createPublicKey(key)).export({ type: 'spki', format: 'der' });
  const bits = [...createHash('sha256').update(der).digest().subarray(0, 30)]
    .map((byte) => byte.toString(2).padStart(8, '0'))
    .join('');
  const letters = bits.replace(/.{5}/g, (five) => BASE32[Number.parseInt(five, 2)] ?? '');
  return letters.match(/.{4}/g)?.join(':') ?? '';
}

/** The key with the chain that came with it, else with a self-signed one, made once and kept in the settings. */
export async function registrySigner(db: Queries, { privateKey, kid, chain }: RegistryKey): Promise<RegistrySigner> {
  if (chain.length > 0) return { privateKey, kid, chain };
  const certificate = await getOrCreateSetting(db, `registry_certificate:${kid}`, () => selfSigned(privateKey));
  return { privateKey, kid, chain: [certificate] };
}

/** Makes a key with its self-signed certificate: PEM, as `parseRegistryKey` reads it. */
export async function newRegistryKey(): Promise<string> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const certificate = new X509Certificate(Buffer.from(await selfSigned(privateKey), 'base64'));
  return `${privateKey.export({ type: 'pkcs8', format: 'pem' })}${certificate.toString()}`;
}

/** The certificates as a PEM file, for the registry's `rootcertbundle`. */
export function certificateBundle({ chain }: Pick<RegistrySigner, 'chain'>): string {
  return chain.map((der) => new X509Certificate(Buffer.from(der, 'base64')).toString()).join('');
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
/** "No well-defined expiration date" (RFC 5280, section 4.1.2.5): it ends when the operator takes another key. */
const NEVER = new Date('9999-12-31T23:59:59Z');
const DAY_MS = 86_400_000;

/** Base64 of the DER. The library is loaded only here: few installations need it, and those once. */
async function selfSigned(privateKey: KeyObject): Promise<string> {
  await import('reflect-metadata');
  const x509 = await import('@peculiar/x509');
  const spki = createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'der' });
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    // Positive, and long enough to be nobody else's.
    serialNumber: `01${randomBytes(15).toString('hex')}`,
    name: 'CN=Troupe registry tokens',
    // The registry's clock may be behind ours.
    notBefore: new Date(Date.now() - DAY_MS),
    notAfter: NEVER,
    signingAlgorithm: ALGORITHM,
    keys: {
      privateKey: await crypto.subtle.importKey('pkcs8', pkcs8, ALGORITHM, false, ['sign']),
      publicKey: await crypto.subtle.importKey('spki', spki, ALGORITHM, true, ['verify']),
    },
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    ],
  });
  return Buffer.from(certificate.rawData).toString('base64');
}
