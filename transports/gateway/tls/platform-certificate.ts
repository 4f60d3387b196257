/** The wildcard certificate of the platform's own hosts: the operator's, or one of an authority in a data folder. */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError, errorText } from '../../../lib/errors.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { type Certificate, certificateContext } from './front.ts';
import { describeCertificate, issueCertificate, makeAuthority, type Pem } from './local-ca.ts';

/** A certificate is issued anew when it has less than this left. */
const RENEW_MS = 30 * 86_400_000;

/** The certificate in use. */
export interface PlatformCertificate {
  readonly context: Certificate;
  /** The local authority's certificate, for trust stores; null when the operator gave a certificate. */
  readonly authorityFile: string | null;
  /** The files it was read from: certificate and key. */
  readonly files: readonly string[];
}

/** The operator's files hold no certificate with its key. */
export class CertificateError extends CodedError<'unusable'> {}

/** Reads the operator's files. Throws CertificateError, which names them. */
export function givenCertificate(certFile: string, keyFile: string): PlatformCertificate {
  try {
    const pem = { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
    return { context: certificateContext(pem), authorityFile: null, files: [certFile, keyFile] };
  } catch (cause) {
    const text = `The certificate ${certFile} with the key ${keyFile} cannot be used: ${errorText(cause)}`;
    throw new CertificateError('unusable', text, { cause });
  }
}

/** The certificate for `domain`, all below and its services, by the authority in `dataDir`; makes what is not there. */
export async function localCertificate(dataDir: string, domain: string, now: number): Promise<PlatformCertificate> {
  const file = (name: string) => join(dataDir, name);
  const authorityFile = file('ca.pem');
  const authority = await kept(authorityFile, file('ca-key.pem'), () => makeAuthority(`Troupe (${domain})`, now));
  const names = [domain, `*.${domain}`];
  const files = [file('tls.pem'), file('tls-key.pem')] as const;
  let pem = readPem(...files);
  if (pem === undefined || !isGood(pem, names, now)) {
    pem = await issueCertificate(authority, names, now);
    writePem(...files, pem);
  }
  return { context: certificateContext(pem), authorityFile, files };
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

/** How often the files are looked at, ms, and how often the certificate is made anew in any case, in looks. */
const EVERY_MS = 5000;
const RELOAD_LOOKS = 12 * 3600 * (1000 / EVERY_MS);

/** A certificate, kept up to date. */
export interface LiveCertificate {
  /** The one for the next handshake. */
  readonly context: Certificate;
  readonly authorityFile: string | null;
  close(): void;
}

/**
 * Loads a certificate, and again whenever one of its files has changed (`everyMs` between looks) and twice a day, so
 * that one of the platform's own is renewed in time. Where that fails, the one in use goes on and the log says why.
 * Rejects when the first fails.
 */
export async function keepCertificate(
  load: () => PlatformCertificate | Promise<PlatformCertificate>,
  log: Log,
  everyMs = EVERY_MS,
): Promise<LiveCertificate> {
  let current = await load();
  let seen = stateOf(current.files);
  let looks = 0;
  let problem: string | undefined;
  const look = async () => {
    const state = stateOf(current.files);
    if (state === seen && problem === undefined && ++looks < RELOAD_LOOKS) return;
    looks = 0;
    try {
      current = await load();
      if (state !== seen) log.info({ files: current.files }, 'the certificate was replaced');
      // What was written since is seen at the next look.
      seen = state;
      problem = undefined;
    } catch (error) {
      // A certificate is often written before its key: said once, and tried until they fit.
      const text = String(error);
      if (text !== problem) log.warn({ err: error }, 'the new certificate cannot be used: the one before goes on');
      problem = text;
    }
  };
  let isLooking = false;
  const timer = setInterval(async () => {
    if (isLooking) return;
    isLooking = true;
    await look();
    isLooking = false;
  }, everyMs);
  timer.unref();
  return {
    get context() {
      return current.context;
    },
    authorityFile: current.authorityFile,
    close: () => clearInterval(timer),
  };
}

/** What changes when a file is written or another takes its place, also behind a symbolic link. */
function stateOf(files: readonly string[]): string {
  return files
    .map((file) => {
      const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
      return stats === undefined ? 'none' : `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeNs}`;
    })
    .join(' ');
}
