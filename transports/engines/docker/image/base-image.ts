import type { Readable } from 'node:stream';
import { z } from 'zod';
import { BASE_NAME, builtInReference } from '../../../../proto/built-in-images.ts';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { cleanReason, jsonLines } from '../../common/calls.ts';
import { parseImageReference } from '../../common/image-reference.ts';
import { INIT } from '../../common/workload.ts';
import type { DockerClient } from '../api/client.ts';
import { type AptSettings, hostAptSettings } from './apt-sources.ts';
import { type DebianRecipe, debianRecipe, recipeHash } from './debian-recipe.ts';
import { debianRootArchive } from './mmdebstrap.ts';

/** An image the engine makes itself when it is missing. */
export interface BaseImage {
  /** The name it goes by. Another content has another name. */
  readonly reference: string;
  /** What a version before called the same content: taken over under `reference` where it was built. */
  readonly former?: string;
  /** Builds and tags it. Leaves nothing behind when it fails or `signal` aborts. Rejects with EngineError. */
  build(client: DockerClient, onProgress: (line: string) => void, signal: AbortSignal): Promise<void>;
}

/** Image settings of the contract in deploy/base-image/README.md, as Dockerfile instructions. */
export const contractChanges: readonly string[] = [
  `CMD ["${INIT}"]`,
  'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  'ENV LANG=C.UTF-8',
  'WORKDIR /root',
  'EXPOSE 22',
];

/** Its name in versions before, which stands for one of a public registry. */
const FORMER_REPOSITORY = 'docker.io/troupe/base';

/**
 * The base image made from Debian packages with mmdebstrap, from the mirror this machine's own apt uses, else
 * mmdebstrap's default. Named `troupe.invalid/base:<hash of the recipe>`, so it is built once, and again when the
 * recipe changes.
 */
export async function debianBaseImage(settings?: AptSettings): Promise<BaseImage> {
  const recipe: DebianRecipe = await debianRecipe(settings ?? (await hostAptSettings()));
  const hash = recipeHash(recipe, contractChanges);
  const reference = builtInReference(BASE_NAME, hash);
  return {
    reference,
    former: `${FORMER_REPOSITORY}:${hash}`,
    build: (client, onProgress, signal) =>
      debianRootArchive('base image', recipe, onProgress, signal, (archive) =>
        importImage(client, reference, archive, contractChanges, signal),
      ),
  };
}

/** A line of what /images/create answers while it works. `error` goes from API 1.48 on; `errorDetail` stays. */
const answeredLine = z.object({
  id: z.string().optional(),
  status: z.string().optional(),
  error: z.string().optional(),
  errorDetail: z.object({ message: z.string().optional() }).nullish(),
  progressDetail: z.object({ current: z.number().optional(), total: z.number().optional() }).nullish(),
});

/** The same, with why it failed in one field; undefined while it works. */
export const progressLine = answeredLine.transform(({ error, errorDetail, ...line }) => ({
  ...line,
  error: errorDetail?.message || error || (errorDetail ? 'it does not say why' : undefined),
}));

/** Imports a root file system as an image and tags it. Nothing is tagged unless `archive` ends without an error. */
export async function importImage(
  client: DockerClient,
  image: string,
  archive: Readable | Uint8Array,
  changes: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  const reference = parseImageReference(image);
  const stream = await client.stream('POST', '/images/create', {
    query: { fromSrc: '-', repo: reference.repository, tag: reference.version, changes },
    body: archive,
    headTimeoutMs: 30 * 60_000,
    signal,
  });
  for await (const line of jsonLines(stream)) {
    const parsed = progressLine.safeParse(line);
    if (parsed.success && parsed.data.error !== undefined) {
      throw new EngineError('unavailable', `The image cannot be imported: ${cleanReason(parsed.data.error)}`);
    }
  }
}
