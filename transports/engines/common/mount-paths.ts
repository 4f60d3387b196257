/** Where a container may keep data. */
import { posix } from 'node:path';
import { EngineError } from '../../../proto/ports/engine.ts';

/**
 * The mount paths in a normal form, without doubles. Throws EngineError `refused` for a path that is relative, is or
 * climbs above the root, holds control characters or a colon, or hides what the kernel or the platform puts there.
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
