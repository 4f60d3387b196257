/** This installation's own certificate authority, for names that no public one certifies: made once, and kept. */
import { randomBytes, webcrypto } from 'node:crypto';
// The certificate library needs it, and before itself.
import 'reflect-metadata';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

/** A certificate and its key, both PEM. */
export interface Pem {
  readonly cert: string;
  readonly key: string;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY = 86_400_000;
const CA_DAYS = 3650;
/** Browsers take no longer ones. */
const LEAF_DAYS = 397;

/** Makes the authority. `name` is what people see in their trust stores. */
export async function makeAuthority(name: string, now: number): Promise<Pem> {
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const cert = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serial(),
      name: [{ CN: [name] }],
      notBefore: new Date(now - DAY),
      notAfter: new Date(now + CA_DAYS * DAY),
      signingAlgorithm: ALGORITHM,
      keys,
      extensions: [
        new BasicConstraintsExtension(true, 0, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return { cert: cert.toString('pem'), key: await pemOf(keys.privateKey) };
}

/** Issues a certificate for DNS names (wildcards too), signed by the authority. The chain goes with it. */
export async function issueCertificate(authority: Pem, names: readonly string[], now: number): Promise<Pem> {
  const issuer = new X509Certificate(authority.cert);
  const signingKey = await webcrypto.subtle.importKey(
    'pkcs8',
    PemConverter.decodeFirst(authority.key),
    ALGORITHM,
    false,
    ['sign'],
  );
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const cert = await X509CertificateGenerator.create(
    {
      serialNumber: serial(),
      subject: [{ CN: [names[0] ?? 'troupe'] }],
      issuer: issuer.subject,
      notBefore: new Date(now - DAY),
      notAfter: new Date(Math.min(now + LEAF_DAYS * DAY, issuer.notAfter.getTime())),
      signingAlgorithm: ALGORITHM,
      publicKey: keys.publicKey,
      signingKey,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        await AuthorityKeyIdentifierExtension.create(issuer, false, webcrypto),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
        new SubjectAlternativeNameExtension(names.map((value) => ({ type: 'dns' as const, value }))),
      ],
    },
    webcrypto,
  );
  return { cert: `${cert.toString('pem')}\n${authority.cert}`, key: await pemOf(keys.privateKey) };
}

/** When a certificate (the first of the text) stops being valid, and for which names it is. */
export function describeCertificate(pem: string): { notAfter: Date; names: string[] } {
  const cert = new X509Certificate(pem);
  const names = cert.getExtension(SubjectAlternativeNameExtension)?.names.items ?? [];
  return { notAfter: cert.notAfter, names: names.filter(({ type }) => type === 'dns').map(({ value }) => value) };
}

/** 126 random bits, positive (RFC 5280, section 4.1.2.2). */
function serial(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString('hex');
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  return `${PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), PemConverter.PrivateKeyTag)}\n`;
}
