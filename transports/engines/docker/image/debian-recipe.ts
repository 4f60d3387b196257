import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { SYSTEM_PATH } from '../run.ts';
import { type TarEntry, tar } from './tar.ts';

/** The folder deploy/base-image, from the sources as from the built files, which lie one level deeper. */
function baseImageFolder(): string {
  const candidates = ['../../../../deploy/base-image/', '../../../../../deploy/base-image/'];
  const found = candidates
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
  if (found === undefined) throw new Error('the folder deploy/base-image is missing from this installation');
  return found;
}

/**
 * The files every base image gets, as archive entries (owner root, modes by place: programs in `sbin` may be run, all
 * may be read). Folders come along only where they need a mode of their own.
 */
export async function rootfsFiles(): Promise<TarEntry[]> {
  const root = join(baseImageFolder(), 'rootfs');
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = found
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .sort();
  const files = await Promise.all(
    paths.map(async (path): Promise<TarEntry> => {
      const mode = /(?:^|\/)sbin\//.test(path) ? 0o755 : 0o644;
      return { kind: 'file', path, mode, data: await readFile(join(root, path)) };
    }),
  );
  return [
    { kind: 'directory', path: 'etc/troupe', mode: 0o755 },
    { kind: 'directory', path: 'root', mode: 0o700 },
    ...files,
  ];
}

/** Everything that goes into the Debian base image. */
export interface DebianRecipe {
  readonly suite: string;
  readonly architecture: string;
  readonly packages: readonly string[];
  /** Text of sources.list, for the build and inside; undefined: mmdebstrap's default for the suite. */
  readonly sources: string | undefined;
  /** apt settings that only the build has. */
  readonly buildSettings: readonly string[];
  /** Options of dpkg, kept inside: what is stripped stays stripped. */
  readonly dpkgOptions: readonly string[];
  /** Commands of the build's last step, with the new root in `$1`. */
  readonly lastSteps: readonly string[];
  /** Archive laid over the new root. */
  readonly files: Buffer;
}

const SUITE = 'bookworm';

/** Documentation and translations are left out, licences kept. */
const dpkgOptions = [
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
  'path-exclude=/usr/share/man/*',
  'path-exclude=/usr/share/info/*',
  'path-exclude=/usr/share/locale/*',
  'path-include=/usr/share/locale/locale.alias',
];

const lastSteps = [
  // Every container makes its own.
  'rm -f "$1"/etc/ssh/ssh_host_*',
  // A copy without file capabilities: with them ping cannot be run where NET_RAW is not given, without them the
  // kernel's ping sockets do (net.ipv4.ping_group_range, which Docker opens for containers).
  'cp "$1"/bin/ping "$1"/bin/ping.new && mv "$1"/bin/ping.new "$1"/bin/ping',
  // Settings of the build: a proxy may name credentials.
  'rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap',
  'rm -rf "$1"/var/log/apt "$1"/var/log/*.log "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old',
];

/** The recipe of deploy/base-image on this machine. */
export async function debianRecipe(settings: AptSettings): Promise<DebianRecipe> {
  const { mirror, securityMirror, build, inside } = settings;
  const option = '[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]';
  const archives = [
    [mirror, SUITE],
    [mirror, `${SUITE}-updates`],
    ...(securityMirror === undefined ? [] : [[securityMirror, `${SUITE}-security`]]),
  ];
  const sources = archives.map(([address, release]) => `deb ${option} ${address} ${release} main\n`).join('');
  const packages = (await readFile(join(baseImageFolder(), 'packages'), 'utf8'))
    .split('\n')
    .filter((line) => line !== '');
  const insideSettings = inside.length === 0 ? [] : [`${inside.join('\n')}\n`];
  const files = await rootfsFiles();
  return {
    suite: SUITE,
    architecture: process.arch,
    packages,
    sources: mirror === undefined ? undefined : sources,
    buildSettings: build,
    dpkgOptions,
    lastSteps,
    files: tar([
      ...files,
      ...insideSettings.map((text) => ({
        kind: 'file' as const,
        path: 'etc/apt/apt.conf.d/60network',
        mode: 0o644,
        data: Buffer.from(text),
      })),
    ]),
  };
}

/** 16 hex digits that change with the content of the image. Settings of the build alone do not count. */
export function recipeHash(recipe: DebianRecipe, changes: readonly string[]): string {
  const { files, buildSettings: _, ...rest } = recipe;
  return createHash('sha256')
    .update(JSON.stringify([rest, changes]))
    .update(files)
    .digest('hex')
    .slice(0, 16);
}

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
