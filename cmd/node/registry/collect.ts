/**
 * Gives back the space of images that have no name any more. It is done while the registry does not run: Distribution
 * loses parts of what is pushed during its own collection. That collection keeps each manifest. With its option for
 * untagged ones it removes those that an image for several machines is made of. So manifests are chosen here, and
 * Distribution sweeps what they leave.
 */
import type { Dirent } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isCode } from '../../../lib/errors.ts';
import { jsonOf } from '../../../lib/input.ts';
import { runProgram } from '../../../transports/engines/docker/run.ts';
import type { RegistryFiles } from './files.ts';

/** What was pushed lately may get its name soon. */
const KEPT_MS = 24 * 3_600_000;
/** Folders that a name of a repository has at most: names have 255 characters. */
const MAX_DEPTH = 128;
/** How long the sweep may take: what is left then is for the next start. */
const SWEEP_MS = 120_000;

const linkSchema = z.string().regex(/^sha256:[0-9a-f]{64}$/);
const indexSchema = z.object({ manifests: z.array(z.object({ digest: z.string() })).optional() });

/** Collects. Resolves with how many manifests went. Rejects when the store cannot be read, or the sweep fails. */
export async function collectGarbage(files: RegistryFiles, program: string, now: number): Promise<number> {
  const root = join(files.store, 'docker/registry/v2');
  let removed = 0;
  for (const repository of await repositoriesIn(join(root, 'repositories'))) {
    const named = await reachable(root, repository);
    if (named === undefined) continue;
    const revisions = join(repository, '_manifests/revisions/sha256');
    for (const hex of await namesIn(revisions)) {
      const pushed = await stat(join(revisions, hex, 'link')).catch(() => undefined);
      if (named.has(hex) || pushed === undefined || now - pushed.mtimeMs < KEPT_MS) continue;
      await rm(join(revisions, hex), { recursive: true, force: true });
      removed += 1;
    }
  }
  // Also when none went: clients remove some by themselves, and leave their parts.
  const { code, tail } = await runProgram(program, ['garbage-collect', files.config], {
    signal: AbortSignal.timeout(SWEEP_MS),
  });
  if (code !== 0) throw new Error(`docker-registry garbage-collect ended with ${code}: ${tail.slice(-2).join(' ')}`);
  return removed;
}

/** The manifests that a repository's tags lead to, as digits; undefined when one cannot be read: nothing goes then. */
async function reachable(root: string, repository: string): Promise<ReadonlySet<string> | undefined> {
  const tags = join(repository, '_manifests/tags');
  const waiting: string[] = [];
  for (const tag of await namesIn(tags)) {
    const link = linkSchema.safeParse(await readIfThere(join(tags, tag, 'current/link')));
    if (!link.success) return undefined;
    waiting.push(link.data.slice('sha256:'.length));
  }
  const found = new Set<string>();
  for (let hex = waiting.pop(); hex !== undefined; hex = waiting.pop()) {
    if (found.has(hex)) continue;
    found.add(hex);
    const text = await readIfThere(join(root, 'blobs/sha256', hex.slice(0, 2), hex, 'data'));
    const manifest = indexSchema.safeParse(text === undefined ? undefined : jsonOf(text));
    if (!manifest.success) return undefined;
    for (const { digest } of manifest.data.manifests ?? []) {
      if (!linkSchema.safeParse(digest).success) return undefined;
      waiting.push(digest.slice('sha256:'.length));
    }
  }
  return found;
}

/** The folders of repositories: those that have manifests. */
async function repositoriesIn(folder: string, depth = 0): Promise<string[]> {
  const inside = await namesIn(folder);
  const found = inside.includes('_manifests') ? [folder] : [];
  if (depth === MAX_DEPTH) return found;
  for (const name of inside)
    if (!name.startsWith('_')) found.push(...(await repositoriesIn(join(folder, name), depth + 1)));
  return found;
}

/** The folders in one; none when it is not there. */
async function namesIn(folder: string): Promise<string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (isCode(error, 'ENOENT')) return [];
    throw error;
  }
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
