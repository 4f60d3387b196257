/** A certificate that is replaced while it is in use: new handshakes take the new one, open connections go on. */
import { statSync } from 'node:fs';
import type { Log } from '../../../proto/ports/log.ts';
import type { Certificate } from './front.ts';
import type { PlatformCertificate } from './platform-certificate.ts';

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
