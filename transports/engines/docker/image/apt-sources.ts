import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SYSTEM_PATH } from '../run.ts';

/** How packages are fetched. */
export interface AptSettings {
  /** Address of the Debian archive; undefined when this machine's apt has none, and mmdebstrap's own choice holds. */
  readonly mirror: string | undefined;
  /** Address of the security archive; undefined when this machine's own mirror has none. */
  readonly securityMirror: string | undefined;
  /** Settings as `Name "value";`, for the build. */
  readonly build: readonly string[];
  /** Those that also make sense inside a container: no credentials, nothing that only this machine reaches. */
  readonly inside: readonly string[];
}

const WANTED_SETTINGS = /^(Acquire::(?:(?:http|https)::Proxy|Check-Valid-Until|Check-Date)) "([^"\r\n]*)";$/;

/**
 * This machine's own mirrors and proxy, so that a build works wherever its `apt-get install` does. No mirror when it
 * has no apt, or that of another distribution.
 */
export async function hostAptSettings(): Promise<AptSettings> {
  const files = ['/etc/apt/sources.list'];
  const parts = await readdir('/etc/apt/sources.list.d').catch(() => []);
  files.push(...parts.sort().map((name) => join('/etc/apt/sources.list.d', name)));
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8').catch(() => '')));
  const dump = await promisify(execFile)('apt-config', ['dump'], { env: { PATH: SYSTEM_PATH, APT_CONFIG: '' } }).then(
    ({ stdout }) => stdout,
    () => '',
  );
  return { ...mirrorsIn(texts.join('\n\n')), ...settingsIn(dump) };
}

/** The first Debian archive and security archive in a sources.list(5), in one-line or deb822 form. */
export function mirrorsIn(text: string): Pick<AptSettings, 'mirror' | 'securityMirror'> {
  const addresses = [...oneLineAddresses(text), ...stanzaAddresses(text)].filter(usable);
  const mirror = addresses.find((address) => /\/debian\/?$/.test(address));
  if (mirror === undefined) return { mirror, securityMirror: undefined };
  const security = addresses.find((address) => /\/debian-security\/?$/.test(address));
  return { mirror: trimmed(mirror), securityMirror: security === undefined ? undefined : trimmed(security) };
}

/** What of `apt-config dump` concerns fetching. */
export function settingsIn(dump: string): Pick<AptSettings, 'build' | 'inside'> {
  const found = dump.split('\n').flatMap((line) => {
    const match = WANTED_SETTINGS.exec(line);
    return match === null ? [] : [{ line, name: match[1] ?? '', value: match[2] ?? '' }];
  });
  const local = /^[a-z]+:\/\/(?:localhost|127\.|\[::1\])/;
  const inside = found.filter(
    ({ name, value }) => !name.endsWith('Proxy') || (!value.includes('@') && !local.test(value)),
  );
  return { build: found.map(({ line }) => line), inside: inside.map(({ line }) => line) };
}

function oneLineAddresses(text: string): string[] {
  return [...text.matchAll(/^deb\s+(?:\[[^\]\n]*\]\s+)?(\S+)/gm)].map((match) => match[1] ?? '');
}

function stanzaAddresses(text: string): string[] {
  return text
    .split(/\n\s*\n/)
    .filter((stanza) => /^Types:.*\bdeb\b/m.test(stanza) && !/^Enabled:\s*no/im.test(stanza))
    .flatMap((stanza) => (/^URIs:\s*(.+)$/m.exec(stanza)?.[1] ?? '').trim().split(/\s+/));
}

/** Plain web addresses: others need files or helpers a container lacks, and credentials must not get into an image. */
function usable(address: string): boolean {
  if (!/^https?:\/\//.test(address) || !URL.canParse(address)) return false;
  const { username, password } = new URL(address);
  return username === '' && password === '';
}

function trimmed(address: string): string {
  return address.replace(/\/$/, '');
}
