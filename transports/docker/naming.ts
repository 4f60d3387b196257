import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { EngineError } from '../../proto/ports.ts';

/** The labels by which containers, volumes and networks are known as ours. */
export const labels = {
  installation: 'troupe.installation',
  container: 'troupe.container',
  user: 'troupe.user',
  /** On volumes: the path it is mounted at. */
  path: 'troupe.path',
  /** On containers that only lend a hand, and never run. */
  helper: 'troupe.helper',
} as const;

/** Names and label filters of one installation. `installation` keeps two platforms on one Docker apart. */
export interface Naming {
  readonly installation: string;
  container(id: string): string;
  /** Each container has a network of its own. */
  network(id: string): string;
  /** One volume for each mount path: the same path finds the same volume again. */
  volume(id: string, path: string): string;
  /** Docker's `filters` parameter for what is ours, or what is ours of one container. */
  filters(id?: string): string;
  /** The platform's id from Docker's labels, when they are of this installation. */
  idOf(found: Readonly<Record<string, string>> | null | undefined): string | undefined;
}

/** Throws EngineError `refused` when `installation` is not 1 to 32 of `[a-z0-9-]`, first and last not `-`. */
export function namingOf(installation: string): Naming {
  if (!/^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/.test(installation)) {
    throw new EngineError('refused', `"${installation}" cannot name an installation.`);
  }
  const prefix = `troupe-${installation}`;
  return {
    installation,
    container: (id) => `${prefix}-${checkedId(id)}`,
    network: (id) => `${prefix}-${checkedId(id)}`,
    volume: (id, path) => `${prefix}-${checkedId(id)}-${createHash('sha256').update(path).digest('hex').slice(0, 12)}`,
    filters: (id) =>
      JSON.stringify({
        label: [
          `${labels.installation}=${installation}`,
          ...(id === undefined ? [] : [`${labels.container}=${checkedId(id)}`]),
        ],
      }),
    idOf: (found) => (found?.[labels.installation] === installation ? found[labels.container] : undefined),
  };
}

/** Ids go into names, paths and filters: anything but a plain word is refused. */
function checkedId(id: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(id)) throw new EngineError('refused', 'This is not a container id.');
  return id;
}

/**
 * The mount paths in a normal form, without doubles. Throws EngineError `refused` for a path that is relative, is or climbs above
 * the root, holds control characters or a colon, or hides what the kernel or the platform puts there.
 */
export function checkedMountPaths(paths: readonly string[]): string[] {
  const normal = paths.map((path) => {
    const clean = posix.normalize(path).replace(/\/+$/, '');
    const reserved = /^\/(?:proc|sys|dev|run|var\/run|etc\/troupe)(?:\/|$)/.test(clean) || clean === '/etc';
    const bad = !path.startsWith('/') || clean === '' || path.split('/').includes('..') || reserved;
    if (bad || path.length > 4096 || /[\p{Cc}:]/u.test(path)) {
      throw new EngineError('refused', `Cannot keep data at ${JSON.stringify(path.slice(0, 200))}.`);
    }
    return clean;
  });
  return [...new Set(normal)].sort();
}
