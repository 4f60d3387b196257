import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { type TarEntry, tar } from '../../../lib/tar.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { type BaseImage, contractChanges, importImage } from '../../../transports/engines/docker/image/base-image.ts';
import { rootfsFiles } from '../../../transports/engines/docker/image/debian-recipe.ts';

const run = promisify(execFile);
const programs = ['/usr/sbin/sshd', '/usr/bin/ssh-keygen'];

/** What of this machine the tiny image needs and is missing, or undefined. */
export function tinyImageMissing(): string | undefined {
  const missing = ['/usr/bin/busybox', ...programs].filter((path) => !existsSync(path));
  return missing.length === 0 ? undefined : `${missing.join(', ')} (apt-get install busybox-static openssh-server)`;
}

/**
 * An image of the contract in deploy/base-image, made in about a second from this machine's busybox and OpenSSH. Rejects EngineError
 * `refused` when they are not installed. `label` ends its tag, so that a test can remove its own while others use theirs. `more` is what it
 * has besides.
 */
export async function buildTinyImage(label = '', more: readonly TarEntry[] = []): Promise<BaseImage> {
  const missing = tinyImageMissing();
  if (missing !== undefined) throw new EngineError('refused', `Missing for the tiny image: ${missing}`);
  const all = new Map([...(await tinyFiles()), ...more].map((entry) => [entry.path, entry]));
  const archive = tar([...all.values()]);
  const reference = `troupe/tiny:${createHash('sha256').update(archive).digest('hex').slice(0, 16)}${label}`;
  return {
    reference,
    build: (client, onProgress, signal) => {
      onProgress(`importing ${archive.length} bytes`);
      return importImage(client, reference, archive, contractChanges, signal);
    },
  };
}

/** What it holds. */
export async function tinyFiles(): Promise<TarEntry[]> {
  const file = async (path: string, mode: number): Promise<TarEntry> => ({
    kind: 'file',
    path: path.slice(1),
    mode,
    data: await readFile(path),
  });
  const text = (path: string, data: string, mode = 0o644): TarEntry => ({
    kind: 'file',
    path,
    mode,
    data: Buffer.from(data),
  });
  const { stdout: applets } = await run('/usr/bin/busybox', ['--list']);
  const libraries = new Set<string>();
  for (const program of programs) {
    const { stdout } = await run('ldd', [program]);
    for (const match of stdout.matchAll(/(\/\S+\.so\S*)/g)) libraries.add(match[1] ?? '');
  }
  return [
    ...['bin', 'dev', 'etc', 'proc', 'run', 'sys', 'usr', 'usr/bin', 'usr/sbin', 'var', 'var/log'].map(
      (path): TarEntry => ({ kind: 'directory', path, mode: 0o755 }),
    ),
    { kind: 'directory', path: 'tmp', mode: 0o1777 },
    await file('/usr/bin/busybox', 0o755),
    ...applets
      .trim()
      .split('\n')
      .filter((name) => name !== 'busybox')
      .map((name): TarEntry => ({ kind: 'symlink', path: `bin/${name}`, target: '/usr/bin/busybox' })),
    ...(await Promise.all(programs.map((path) => file(path, 0o755)))),
    ...(await Promise.all([...libraries].sort().map((path) => file(path, 0o755)))),
    text('etc/passwd', 'root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n'),
    text('etc/group', 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\n'),
    text('etc/shadow', 'root:*:19000:0:99999:7:::\n', 0o600),
    text('etc/nsswitch.conf', 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n'),
    text('etc/shells', '/bin/sh\n'),
    ...(await rootfsFiles()),
  ];
}

/** The perl of this machine's Debian (perl-base), which its own images always have: what keeps the shells of terminals needs it. */
export async function perlFiles(): Promise<TarEntry[]> {
  const { stdout: listed } = await run('dpkg', ['-L', 'perl-base']);
  const modules = listed.split('\n').filter((path) => /\/perl-base\/.*\.(pm|pl|so)$/.test(path));
  const { stdout: linked } = await run('ldd', ['/usr/bin/perl']);
  const libraries = [...linked.matchAll(/(\/\S+\.so\S*)/g)].map((match) => match[1] ?? '');
  return Promise.all(
    ['/usr/bin/perl', ...libraries, ...modules].map(async (path): Promise<TarEntry> => {
      return {
        kind: 'file',
        path: path.slice(1),
        mode: path.endsWith('.pm') ? 0o644 : 0o755,
        data: await readFile(path),
      };
    }),
  );
}
