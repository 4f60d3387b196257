import { z } from 'zod';
import { BASE_NAME, builtInName, builtInReference } from '../../../../proto/built-in-images.ts';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { listOf } from '../../common/calls.ts';
import type { DockerClient } from '../api/client.ts';
import type { BaseImage } from './base-image.ts';
import type { CatalogImage } from './catalog.ts';

const listedImages = z.array(
  z.object({
    Created: z.number(),
    RepoTags: listOf(z.string()),
  }),
);

/** The images that this machine builds, and what their names mean. */
export class BuiltIns {
  readonly base: BaseImage;
  readonly catalog: readonly CatalogImage[];
  readonly #client: DockerClient;

  constructor(client: DockerClient, base: BaseImage, catalog: readonly CatalogImage[]) {
    this.#client = client;
    this.base = base;
    this.catalog = catalog;
  }

  /** The one that has this reference. */
  made(reference: string): BaseImage | undefined {
    return [this.base, ...this.catalog].find((image) => image.reference === reference);
  }

  /**
   * The reference to use for an image: for a built-in one, that of today's recipe. One that only versions before have
   * built is the newest that is here. Rejects with EngineError `image_not_found` when there is none.
   */
  async current(image: string): Promise<string> {
    const name = builtInName(image);
    if (name === undefined) return image;
    if (name === BASE_NAME) return this.base.reference;
    return this.catalog.find((one) => one.name === name)?.reference ?? (await this.#newest(name));
  }

  async #newest(name: string): Promise<string> {
    const repository = builtInReference(name);
    const filters = JSON.stringify({ reference: [repository] });
    const found = await this.#client.json('GET', '/images/json', listedImages, { query: { filters } });
    const [newest] = found.sort((a, b) => b.Created - a.Created);
    const tag = newest?.RepoTags.find((one) => one.startsWith(`${repository}:`));
    if (tag !== undefined) return tag;
    throw new EngineError(
      'image_not_found',
      `This version of the platform does not build the image ${name}, and no earlier one has built it here.`,
    );
  }
}
