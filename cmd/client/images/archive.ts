/**
 * Reads image archives: those of `docker save`, and OCI image layouts in a tar archive. An archive is read from its
 * file again for each thing that is wanted of it, so that no layer has to be kept in memory.
 */
import { createReadStream } from 'node:fs';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { extract } from 'tar-stream';
import { isCode } from '../../../lib/errors.ts';
import { readAtMost } from '../../../lib/input.ts';
import { ClientFailure } from '../failure.ts';
import { archivedConfig, archivedIndex, archivedManifest, type Descriptor, savedImages } from './archive-json.ts';

/** Of a manifest, an index or a configuration: far more than those have. */
const MOST_JSON_BYTES = 4 * 1024 * 1024;

export const MEDIA = {
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerConfig: 'application/vnd.docker.container.image.v1+json',
  dockerLayer: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
  dockerList: 'application/vnd.docker.distribution.manifest.list.v2+json',
  ociManifest: 'application/vnd.oci.image.manifest.v1+json',
  ociIndex: 'application/vnd.oci.image.index.v1+json',
} as const;

/** A layer of an image: an entry of the archive. */
interface ArchivedLayer {
  readonly path: string;
  /** As the image's manifest names it; undefined in an archive without one, where it is made as the layer is sent. */
  readonly blob: { readonly digest: string; readonly size: number } | undefined;
}

/** An image in an archive. */
export interface ArchivedImage {
  readonly config: Buffer;
  readonly layers: readonly ArchivedLayer[];
  /** Undefined in an archive without one. */
  readonly manifest: { readonly bytes: Buffer; readonly mediaType: string } | undefined;
}

/** An archive in a file. */
export class ImageArchive {
  readonly #file: string;
  /** All entries by their names; of a link, the name that it leads to. */
  readonly #links = new Map<string, string | undefined>();

  private constructor(file: string) {
    this.#file = file;
  }

  /** Rejects with ClientFailure for what is no archive. */
  static async open(file: string): Promise<ImageArchive> {
    const archive = new ImageArchive(file);
    await archive.#walk(({ name, linkname, type }) => {
      const isLink = type === 'symlink' || type === 'link';
      const target = type === 'symlink' ? posix.join(posix.dirname(name), linkname) : plainName(linkname);
      archive.#links.set(name, isLink ? target : undefined);
      return undefined;
    });
    return archive;
  }

  /**
   * The image in it for machines of `architecture`, whichever it is when that is undefined. Rejects with ClientFailure
   * when it has none, or several.
   */
  async image(architecture: string | undefined): Promise<ArchivedImage> {
    const image = this.#links.has('manifest.json') ? await this.#saved() : await this.#layout(architecture);
    const { architecture: found = 'amd64', os = 'linux' } = archivedConfig(image.config);
    if (os !== 'linux' || (architecture !== undefined && found !== architecture))
      throw new ClientFailure(
        'usage',
        `The image is for ${os}/${found}, and the platform runs linux/${architecture ?? found}: build it for that ` +
          `(docker build --platform linux/${architecture ?? found}).`,
      );
    return image;
  }

  /** Hands the entry as a stream to `work`, which reads it to its end. */
  async read(path: string, work: (entry: Readable) => Promise<void>): Promise<void> {
    const wanted = this.#target(path);
    await this.#walk(({ name }) => (name === wanted ? work : undefined));
  }

  async #saved(): Promise<ArchivedImage> {
    const [image, ...others] = savedImages(await this.#small('manifest.json'));
    if (image === undefined) throw new ClientFailure('usage', `${this.#file} has no image.`);
    if (others.length > 0)
      throw new ClientFailure('usage', `${this.#file} has ${others.length + 1} images: save one alone.`);
    const layers = image.layers.map((path) => ({ path: plainName(path), blob: undefined }));
    return { config: await this.#small(plainName(image.config)), layers, manifest: undefined };
  }

  async #layout(architecture: string | undefined): Promise<ArchivedImage> {
    if (!this.#links.has('index.json') || !this.#links.has('oci-layout'))
      throw new ClientFailure('usage', `${this.#file} is no archive of \`docker save\` and no OCI image layout.`);
    let manifests = archivedIndex(await this.#small('index.json'));
    for (let depth = 0; depth < 3; depth++) {
      const chosen = this.#choose(manifests, architecture);
      const bytes = await this.#small(blobPath(chosen.digest));
      if (chosen.mediaType === MEDIA.ociIndex || chosen.mediaType === MEDIA.dockerList) {
        manifests = archivedIndex(bytes);
        continue;
      }
      const { config, layers, mediaType = chosen.mediaType ?? MEDIA.ociManifest } = archivedManifest(bytes);
      return {
        config: await this.#small(blobPath(config.digest)),
        layers: layers.map(({ digest, size }) => ({ path: blobPath(digest), blob: { digest, size } })),
        manifest: { bytes, mediaType },
      };
    }
    throw new ClientFailure('usage', `${this.#file} has indexes in indexes: copy the image out of it first.`);
  }

  #choose(manifests: readonly Descriptor[], architecture: string | undefined) {
    // Builders put their attestations beside images, as of an unknown machine.
    const images = manifests.filter(({ architecture: made }) => made !== 'unknown');
    const fitting = images.filter(({ architecture: made }) => made === undefined || made === architecture);
    const [one, another] = architecture === undefined || fitting.length === 0 ? images : fitting;
    if (one === undefined) throw new ClientFailure('usage', `${this.#file} has no image.`);
    if (another !== undefined) throw new ClientFailure('usage', `${this.#file} has several images: save one alone.`);
    return one;
  }

  /** An entry that is not large, as a whole. */
  async #small(path: string): Promise<Buffer> {
    let bytes: Buffer | undefined;
    await this.read(path, async (entry) => {
      bytes = await readAtMost(entry, MOST_JSON_BYTES);
      if (bytes === undefined) throw new ClientFailure('usage', `${path} in ${this.#file} is too large.`);
    });
    if (bytes === undefined) throw new ClientFailure('usage', `${this.#file} is not whole: it has no ${path}.`);
    return bytes;
  }

  /** The entry that has the bytes: older versions of Docker save a layer once, and link to it. */
  #target(path: string): string {
    let name = path;
    for (let depth = 0; depth < 5; depth++) name = this.#links.get(name) ?? name;
    return name;
  }

  async #walk(
    visit: (header: {
      name: string;
      linkname: string;
      type: string;
    }) => ((entry: Readable) => Promise<void>) | undefined,
  ): Promise<void> {
    const reader = extract();
    const source = createReadStream(this.#file);
    source.on('error', (error) => reader.destroy(error));
    source.pipe(reader);
    try {
      for await (const entry of reader) {
        const { name, linkname, type } = entry.header;
        const work = visit({ name: plainName(name), linkname: linkname ?? '', type });
        if (work === undefined) entry.resume();
        else await work(Readable.from(entry));
      }
    } catch (cause) {
      if (cause instanceof ClientFailure) throw cause;
      if (isCode(cause, 'ENOENT')) throw new ClientFailure('missing', `There is no ${this.#file}.`, { cause });
      if (cause instanceof Error && /tar|header|Unexpected end/i.test(cause.message))
        throw new ClientFailure('usage', `${this.#file} is no tar archive that can be read: ${cause.message}.`, {
          cause,
        });
      throw cause;
    } finally {
      source.destroy();
    }
  }
}

const blobPath = (digest: string): string => `blobs/${digest.replace(':', '/')}`;
const plainName = (name: string): string =>
  posix
    .normalize(name)
    .replace(/^\.?\//, '')
    .replace(/\/$/, '');
