import { type AptSettings, hostAptSettings } from './apt-sources.ts';
import type { DockerClient } from './client.ts';
import { type DebianRecipe, debianRecipe, recipeHash } from './debian-recipe.ts';
import { importImage } from './import-image.ts';
import { debianRootArchive } from './mmdebstrap.ts';

/** An image the engine makes itself when it is missing. */
export interface BaseImage {
  /** The name it goes by. Another content has another name. */
  readonly reference: string;
  /** Builds and tags it. Tags nothing when it fails or `signal` aborts; leaves nothing behind. Rejects with EngineError. */
  build(client: DockerClient, onProgress: (line: string) => void, signal: AbortSignal): Promise<void>;
}

/** Image settings of the contract in deploy/base-image/README.md, as Dockerfile instructions. */
export const contractChanges: readonly string[] = [
  'CMD ["/usr/local/sbin/troupe-init"]',
  'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  'ENV LANG=C.UTF-8',
  'WORKDIR /root',
  'EXPOSE 22',
];

/**
 * The base image made from Debian packages with mmdebstrap, from the mirror this machine's own apt uses, else mmdebstrap's default. Named
 * `troupe/base:<hash of the recipe>`, so it is built once, and again when the recipe changes.
 */
export async function debianBaseImage(settings?: AptSettings): Promise<BaseImage> {
  const recipe: DebianRecipe = await debianRecipe(settings ?? (await hostAptSettings()));
  const reference = `troupe/base:${recipeHash(recipe, contractChanges)}`;
  return {
    reference,
    build: (client, onProgress, signal) =>
      debianRootArchive(recipe, onProgress, signal, (archive) =>
        importImage(client, reference, archive, contractChanges, signal),
      ),
  };
}
