import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { EngineError } from '../../../../proto/ports/engine.ts';

/** Where a private dockerd keeps its things. */
export interface DockerdFiles {
  readonly dataRoot: string;
  readonly execRoot: string;
  readonly socket: string;
  readonly pidFile: string;
  readonly configFile: string;
  readonly logFile: string;
  readonly containerdPidFile: string;
}

/** A socket's path has at most 107 bytes (unix(7)); the longest one under `run` is containerd's. */
const LONGEST_SOCKET = '/exec/containerd/containerd-debug.sock';
const MOST_BYTES = 100;

/**
 * The places of the private dockerd of a data folder; makes the folders, for the owner alone. Sockets and what lasts
 * only until the next boot move to `/run/troupe-<hash>` when the data folder's path is too long for a socket. Throws
 * EngineError `refused` when a folder there is not ours.
 */
export function dockerdFiles(dataDir: string): DockerdFiles {
  mkdirSync(dataDir, { recursive: true });
  const home = join(realpathSync(dataDir), 'docker');
  ownFolder(home);
  const near = join(home, 'run');
  const far = `/run/troupe-${createHash('sha256').update(home).digest('hex').slice(0, 16)}`;
  const run = Buffer.byteLength(near + LONGEST_SOCKET) <= MOST_BYTES ? near : far;
  ownFolder(run);
  return {
    dataRoot: join(home, 'data'),
    execRoot: join(run, 'exec'),
    socket: join(run, 'docker.sock'),
    pidFile: join(run, 'dockerd.pid'),
    configFile: join(home, 'daemon.json'),
    logFile: join(home, 'dockerd.log'),
    containerdPidFile: join(run, 'exec/containerd/containerd.pid'),
  };
}

function ownFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const found = lstatSync(path);
  if (!found.isDirectory() || found.uid !== (process.getuid?.() ?? found.uid)) {
    throw new EngineError('refused', `${path} is not a folder of this user.`);
  }
}

/** What a private Docker should share with the machine's own: how images are reached, which addresses are free. */
export function sharedSettings(systemConfig: string): Record<string, unknown> {
  const shared = ['registry-mirrors', 'insecure-registries', 'dns', 'mtu', 'default-address-pools', 'proxies'];
  let config: unknown;
  try {
    config = JSON.parse(readFileSync(systemConfig, 'utf8'));
  } catch {
    return {};
  }
  if (typeof config !== 'object' || config === null) return {};
  const settings = Object.fromEntries(Object.entries(config).filter(([key]) => shared.includes(key)));
  const { [INSECURE]: insecure } = settings;
  // The platform's own registry is asked at a loopback address, without TLS.
  return Array.isArray(insecure) ? { ...settings, [INSECURE]: [...new Set([...insecure, ...LOOPBACK])] } : settings;
}

/** Registries without TLS. From Docker 29.10 on, those at loopback addresses count only while this is not set. */
const INSECURE = 'insecure-registries';
const LOOPBACK = ['127.0.0.0/8', '::1/128'];

/** Mount points at or below `folders` in /proc/self/mounts, innermost first; blanks are octal there (proc(5)). */
export function mountsBelow(mounts: string, folders: readonly string[]): string[] {
  return mounts
    .split('\n')
    .map((line) =>
      (line.split(' ')[1] ?? '').replace(/\\([0-7]{3})/g, (_, octal: string) =>
        String.fromCharCode(Number.parseInt(octal, 8)),
      ),
    )
    .filter((path) => folders.some((folder) => path === folder || path.startsWith(`${folder}/`)))
    .sort((a, b) => b.length - a.length);
}
