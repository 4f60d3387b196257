/** The wildcard certificate of the platform's own hosts: the operator's, or one of an authority in a data folder. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError, errorText } from '../../../lib/errors.ts';
import { type Certificate, certificateContext } from './front.ts';
import { describeCertificate, type Pem } from './pem.ts';

/** A certificate is issued anew when it has less than this left. */
const RENEW_MS = 30 * 86_400_000;

/** The certificate in use. */
export interface PlatformCertificate {
  readonly context: Certificate;
  /** The local authority's certificate, for trust stores; null when the operator gave a certificate. */
  readonly authorityFile: string | null;
  /** The files it was read from: certificate and key. */
  readonly files: readonly string[];
  /** Hosts for which it is good; `*.` stands for one label (RFC 6125, section 6.4.3). */
  readonly names: readonly string[];
}

/** The operator's files hold no certificate with its key. */
export class CertificateError extends CodedError<'unusable'> {}

/** Reads the operator's files. Throws CertificateError, which names them. */
export function givenCertificate(certFile: string, keyFile: string): PlatformCertificate {
  try {
    const pem = { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
    const { names } = describeCertificate(pem.cert);
    return { context: certificateContext(pem), authorityFile: null, files: [certFile, keyFile], names };
  } catch (cause) {
    const text = `The certificate ${certFile} with the key ${keyFile} cannot be used: ${errorText(cause)}`;
    throw new CertificateError('unusable', text, { cause });
  }
}

/**
 * The certificate for `domain`, its services, and the names below `containers`, by the authority in `dataDir`; makes
 * what is not there.
 */
export async function localCertificate(
  dataDir: string,
  { domain, containers }: { readonly domain: string; readonly containers: string },
  now: number,
): Promise<PlatformCertificate> {
  const file = (name: string) => join(dataDir, name);
  const authorityFile = file('ca.pem');
  const authority = await kept(authorityFile, file('ca-key.pem'), async () => {
    const { makeAuthority } = await import('./local-ca.ts');
    return makeAuthority(`Troupe (${domain})`, now);
  });
  const names = [domain, `*.${domain}`, `*.${containers}`];
  const files = [file('tls.pem'), file('tls-key.pem')] as const;
  let pem = readPem(...files);
  if (pem === undefined || !isGood(pem, names, now)) {
    const { issueCertificate } = await import('./local-ca.ts');
    pem = await issueCertificate(authority, names, now);
    writePem(...files, pem);
  }
  return { context: certificateContext(pem), authorityFile, files, names };
}

function isGood({ cert }: Pem, names: readonly string[], now: number): boolean {
  try {
    const { notAfter, names: covered } = describeCertificate(cert);
    return notAfter.getTime() > now + RENEW_MS && names.every((name) => covered.includes(name));
  } catch {
    return false;
  }
}

async function kept(certFile: string, keyFile: string, make: () => Promise<Pem>): Promise<Pem> {
  const known = readPem(certFile, keyFile);
  if (known !== undefined) return known;
  const made = await make();
  writePem(certFile, keyFile, made);
  return made;
}

function readPem(certFile: string, keyFile: string): Pem | undefined {
  if (!existsSync(certFile) || !existsSync(keyFile)) return undefined;
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
}

/** The key first: a certificate without its key would be taken for whole. */
function writePem(certFile: string, keyFile: string, { cert, key }: Pem): void {
  writeFileSync(keyFile, key, { mode: 0o600 });
  writeFileSync(certFile, cert, { mode: 0o644 });
}
