/** A small file system of a test's own. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { skipUnless } from '../require.ts';
import type { Cleanup } from '../temp.ts';

/** For the `skip` option of tests that need one. */
export const mountSkip = (): string | false =>
  skipUnless(process.platform === 'linux' && process.getuid?.() === 0, 'needs root to mount a small disk');

/** Mounts one of `size` (as `mount -t tmpfs` has it) in a folder that goes with `t`. */
export async function mountSmall(t: Cleanup, size: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=700`, 'troupe-test', folder], { stdio: 'pipe' });
  t.after(async () => {
    execFileSync('umount', ['-l', folder]);
    await rm(folder, { recursive: true });
  });
  return folder;
}
