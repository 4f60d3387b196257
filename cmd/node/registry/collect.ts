/**
 * Gives back the space of images that have no name any more. It is done while the registry does not run: Distribution
 * loses parts of what is pushed during its own collection. That collection keeps each manifest. With its option for
 * untagged ones it removes those that an image for several machines is made of. So manifests are chosen here, and
 * Distribution sweeps what they leave.
 */
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isCode } from '../../../lib/errors.ts';
import { jsonOf } from '../../../lib/input.ts';
import { runProgram } from '../../../transports/engines/docker/run.ts';
import type { RegistryFiles } from './files.ts';
import { namesIn, repositoriesWith, rootOf } from './store.ts';

/** What was pushed lately may get its name soon. */
const KEPT_MS = 24 * 3_600_000;
/** How long all of it may take: what is left then is for the next start. */
const COLLECT_MS = 120_000;
/** Manifests that are remembered at most, so that one in many repositories is read once. */
const MOST_KNOWN = 100_000;

const linkSchema = z.string().regex(/^sha256:[0-9a-f]{64}$/);
const indexSchema = z.object({ manifests: z.array(z.object({ digest: z.string() })).optional() });

/** What a collection works with. */
interface CollectOptions {
  /** Distribution's program. */
  readonly program: string;
  readonly now: number;
  /** Ends all parts of it. Default: after two minutes. */
  readonly signal?: AbortSignal;
}

/**
 * Collects. Resolves with how many manifests went. Rejects when the store cannot be read, when the sweep fails, and
 * when `signal` ends it: nothing went if not all repositories were looked at by then.
 */
export async function collectGarbage(files: RegistryFiles, options: CollectOptions): Promise<number> {
  const { program, now, signal = AbortSignal.timeout(COLLECT_MS) } = options;
  const found = await unnamed(files, now, signal).catch((cause: unknown) => {
    throw signal.aborted ? new Error('looking at them took too long: nothing was collected', { cause }) : cause;
  });
  try {
    for (const revision of found) {
      signal.throwIfAborted();
      await rm(revision, { recursive: true, force: true });
    }
    // Also when none went: clients remove some by themselves, and leave their parts.
    const { code, tail } = await runProgram(program, ['garbage-collect', files.config], { signal });
    if (code !== 0) throw new Error(`docker-registry garbage-collect ended with ${code}: ${tail.slice(-2).join(' ')}`);
  } catch (cause) {
    throw signal.aborted ? new Error('removing them took too long: the rest is for the next start', { cause }) : cause;
  }
  return found.length;
}

/** The folders of the manifests that no tag of their repository leads to, and that are not young. */
async function unnamed(files: RegistryFiles, now: number, signal: AbortSignal): Promise<string[]> {
  const manifests = manifestReader(rootOf(files));
  const found: string[] = [];
  for (const repository of await repositoriesWith('_manifests', files, signal)) {
    const named = await reachable(manifests, repository, signal);
    if (named === undefined) continue;
    const revisions = join(repository, '_manifests/revisions/sha256');
    for (const hex of await namesIn(revisions)) {
      signal.throwIfAborted();
      if (named.has(hex)) continue;
      const pushed = await stat(join(revisions, hex, 'link')).catch(() => undefined);
      if (pushed !== undefined && now - pushed.mtimeMs >= KEPT_MS) found.push(join(revisions, hex));
    }
  }
  return found;
}

/** The manifests that a manifest is made of, as digits; undefined when it cannot be read. */
type ManifestParts = (hex: string) => Promise<readonly string[] | undefined>;

/** The manifests that a repository's tags lead to, as digits; undefined when one cannot be read: nothing goes then. */
async function reachable(
  partsOf: ManifestParts,
  repository: string,
  signal: AbortSignal,
): Promise<ReadonlySet<string> | undefined> {
  const tags = join(repository, '_manifests/tags');
  const waiting: string[] = [];
  for (const tag of await namesIn(tags)) {
    signal.throwIfAborted();
    const link = linkSchema.safeParse(await readIfThere(join(tags, tag, 'current/link')));
    if (!link.success) return undefined;
    waiting.push(link.data.slice('sha256:'.length));
  }
  const found = new Set<string>();
  for (let hex = waiting.pop(); hex !== undefined; hex = waiting.pop()) {
    if (found.has(hex)) continue;
    signal.throwIfAborted();
    found.add(hex);
    const parts = await partsOf(hex);
    if (parts === undefined) return undefined;
    waiting.push(...parts);
  }
  return found;
}

/** Reads manifests, each once: the same digest is the same text in all repositories. */
function manifestReader(root: string): ManifestParts {
  const known = new Map<string, readonly string[] | undefined>();
  const read: ManifestParts = async (hex) => {
    const text = await readIfThere(join(root, 'blobs/sha256', hex.slice(0, 2), hex, 'data'));
    const manifest = indexSchema.safeParse(text === undefined ? undefined : jsonOf(text));
    if (!manifest.success) return undefined;
    const digests = (manifest.data.manifests ?? []).map(({ digest }) => digest);
    if (!digests.every((digest) => linkSchema.safeParse(digest).success)) return undefined;
    return digests.map((digest) => digest.slice('sha256:'.length));
  };
  return async (hex) => {
    if (known.has(hex)) return known.get(hex);
    const parts = await read(hex);
    if (known.size < MOST_KNOWN) known.set(hex, parts);
    return parts;
  };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
