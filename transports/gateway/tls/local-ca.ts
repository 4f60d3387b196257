/**
 * This installation's own certificate authority, for names that no public one certifies: made once, and kept. Loaded
 * when it has something to make: its library is large.
 */
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
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import type { Pem } from './pem.ts';

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
  const signingKey = await webcrypto.subtle.importKey('pkcs8', derOf(authority.key), ALGORITHM, false, ['sign']);
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

/** 126 random bits, positive (RFC 5280, section 4.1.2.2). */
function serial(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString('hex');
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`;
}

function derOf(pem: string): Buffer {
  return Buffer.from(pem.replace(/-----[A-Z ]+-----|\s/g, ''), 'base64');
}
