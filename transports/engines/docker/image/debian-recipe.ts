import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageFile } from '../../../../lib/package-file.ts';
import { type TarEntry, tar } from '../../../../lib/tar.ts';
import type { AptSettings } from './apt-sources.ts';

function deployFolder(name: string): string {
  const path = packageFile(`deploy/${name}`);
  if (!existsSync(path)) throw new Error(`the folder deploy/${name} is missing from this installation`);
  return path;
}

/** The files of every base image as archive entries. Folders come along only where they need an own mode. */
export async function rootfsFiles(): Promise<TarEntry[]> {
  return [
    { kind: 'directory', path: 'etc/troupe', mode: 0o755 },
    { kind: 'directory', path: 'root', mode: 0o700 },
    ...(await filesBelow(join(deployFolder(BASE_FOLDER), 'rootfs'))),
  ];
}

/** Files below a folder, if there is one: owner root, all may be read, and programs be run, as their place says. */
async function filesBelow(root: string): Promise<TarEntry[]> {
  if (!existsSync(root)) return [];
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = found
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .sort();
  return Promise.all(
    paths.map(async (path): Promise<TarEntry> => {
      const mode = /(?:^|\/)(?:sbin|lib\/troupe)\//.test(path) ? 0o755 : 0o644;
      return { kind: 'file', path, mode, data: await readFile(join(root, path)) };
    }),
  );
}

async function packagesOf(folder: string): Promise<string[]> {
  const path = join(folder, 'packages');
  return existsSync(path) ? (await readFile(path, 'utf8')).split('\n').filter((line) => line !== '') : [];
}

/** Releases of Debian that images are made of: 12 and 13. */
type DebianSuite = 'bookworm' | 'trixie';

/** What an image has beside the base image's parts. */
export interface DebianAddition {
  /** Its folders of deploy, each with `packages`, `rootfs` or both. */
  readonly folders: readonly string[];
  /** Default: that of the base image. */
  readonly suite?: DebianSuite;
  /** Commands before its packages are installed, and after, with the new root in `$1`. */
  readonly firstSteps?: readonly string[];
  readonly lastSteps?: readonly string[];
}

/** Everything that goes into a Debian image. */
export interface DebianRecipe {
  readonly suite: DebianSuite;
  readonly architecture: string;
  readonly packages: readonly string[];
  /** Text of sources.list, for the build and inside; undefined: mmdebstrap's default for the suite. */
  readonly sources: string | undefined;
  /** apt settings that only the build has. */
  readonly buildSettings: readonly string[];
  /** Options of dpkg. Those of paths are kept inside: what is stripped stays stripped. */
  readonly dpkgOptions: readonly string[];
  /** Commands before the packages are installed, and of the build's last step, with the new root in `$1`. */
  readonly firstSteps: readonly string[];
  readonly lastSteps: readonly string[];
  /** Archive laid over the new root. */
  readonly files: Buffer;
}

const SUITE: DebianSuite = 'trixie';
const BASE_FOLDER = 'base-image';

/** Of the build alone: what a power cut leaves of it is thrown away, so no file has to be on the disk at once. */
const UNSAFE_IO = 'force-unsafe-io';

/** Documentation and translations are left out, licences kept. */
const dpkgOptions = [
  UNSAFE_IO,
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
  'path-exclude=/usr/share/man/*',
  'path-exclude=/usr/share/info/*',
  'path-exclude=/usr/share/locale/*',
  'path-include=/usr/share/locale/locale.alias',
];

const LAST_STEPS = [
  // Every container makes its own.
  'rm -f "$1"/etc/ssh/ssh_host_*',
  // A copy without file capabilities: with them ping cannot be run where NET_RAW is not given, without them the
  // kernel's ping sockets do (net.ipv4.ping_group_range, which Docker opens for containers).
  'cp "$1"/bin/ping "$1"/bin/ping.new && mv "$1"/bin/ping.new "$1"/bin/ping',
  // Settings of the build: a proxy may name credentials.
  'rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap',
  `sed -i '/^${UNSAFE_IO}$/d' "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap`,
  'rm -rf "$1"/var/log/apt "$1"/var/log/*.log "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old',
];

/** The recipe of deploy/base-image on this machine, with what another image has beside it. */
export async function debianRecipe(settings: AptSettings, addition?: DebianAddition): Promise<DebianRecipe> {
  const { mirror, securityMirror, build, inside } = settings;
  const option = '[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]';
  const suite = addition?.suite ?? SUITE;
  const archives = [
    [mirror, suite],
    [mirror, `${suite}-updates`],
    ...(securityMirror === undefined ? [] : [[securityMirror, `${suite}-security`]]),
  ];
  const sources = archives.map(([address, release]) => `deb ${option} ${address} ${release} main\n`).join('');
  const folders = [BASE_FOLDER, ...(addition?.folders ?? [])].map(deployFolder);
  const packages = (await Promise.all(folders.map(packagesOf))).flat();
  const insideSettings = inside.length === 0 ? [] : [`${inside.join('\n')}\n`];
  const more = folders.slice(1).map((folder) => filesBelow(join(folder, 'rootfs')));
  const files = [...(await rootfsFiles()), ...(await Promise.all(more)).flat()];
  return {
    suite,
    architecture: process.arch,
    packages,
    sources: mirror === undefined ? undefined : sources,
    buildSettings: build,
    dpkgOptions,
    firstSteps: addition?.firstSteps ?? [],
    lastSteps: [...(addition?.lastSteps ?? []), ...LAST_STEPS],
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
