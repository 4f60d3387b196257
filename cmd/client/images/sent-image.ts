/** An image of the platform on its way to a registry: built here, and put beside those for other kinds of machines. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { imageConfig, type SentImage } from '../../../transports/engines/docker/image/sent-images.ts';
import { MEDIA } from './archive.ts';
import { archivedIndex } from './archive-json.ts';
import { digestOf, type Repository } from './registry.ts';

/** What an index says of an image for one kind of machine. */
interface IndexEntry {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly platform: { readonly architecture: string; readonly os: 'linux' };
}

const LAYER_TYPE = 'application/vnd.oci.image.layer.v1.tar+gzip';
const CONFIG_TYPE = 'application/vnd.oci.image.config.v1+json';

/** Where it goes, and for which machines. */
interface ImageWay {
  readonly repository: Repository;
  readonly architecture: string;
  readonly signal: AbortSignal;
}

/** The digest of the image for this kind of machine, where it is there. */
export async function presentFor({ repository, architecture }: ImageWay): Promise<string | undefined> {
  return (await entriesOf(repository)).find(({ platform }) => platform.architecture === architecture)?.digest;
}

/** For which kinds of machines there is something under the tag. */
async function entriesOf(repository: Repository): Promise<IndexEntry[]> {
  const present = await repository.manifest();
  if (present === undefined || ![MEDIA.ociIndex, MEDIA.dockerList].some((type) => type === present.mediaType))
    return [];
  return archivedIndex(present.bytes).flatMap(({ mediaType = MEDIA.ociManifest, digest, size, architecture }) =>
    architecture === undefined ? [] : [{ mediaType, digest, size, platform: { architecture, os: 'linux' } }],
  );
}

/** Builds an image, and sends it under its tag beside those for other kinds of machines. Resolves with its digest. */
export async function sendImage(
  image: SentImage,
  { repository, architecture, signal }: ImageWay,
  tell: (line: string) => void,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-image-'));
  try {
    const file = join(folder, 'layer');
    const [whole, packed] = [new Measure(), new Measure()];
    await image.build(tell, signal, (archive) =>
      pipeline(archive, whole.stream(), createGzip(), packed.stream(), createWriteStream(file, { mode: 0o600 }), {
        signal,
      }),
    );
    const layer = { mediaType: LAYER_TYPE, digest: packed.digest(), size: packed.size };
    tell(`sending ${Math.ceil(layer.size / 1024 / 1024)} MiB`);
    if (!(await repository.hasBlob(layer.digest)))
      await repository.putBlob(layer.digest, layer.size, createReadStream(file));
    const bytes = imageConfig(image.changes, whole.digest(), architecture);
    const config = { mediaType: CONFIG_TYPE, digest: digestOf(bytes), size: bytes.length };
    if (!(await repository.hasBlob(config.digest)))
      await repository.putBlob(config.digest, config.size, Readable.from([bytes]));
    signal.throwIfAborted();
    const manifest = jsonBytes({ mediaType: MEDIA.ociManifest, config, layers: [layer] });
    const digest = await repository.putManifest(manifest, MEDIA.ociManifest, 'digest');
    const entry = { mediaType: MEDIA.ociManifest, digest, size: manifest.length };
    const others = (await entriesOf(repository)).filter(({ platform }) => platform.architecture !== architecture);
    const manifests = [...others, { ...entry, platform: { architecture, os: 'linux' } }];
    await repository.putManifest(jsonBytes({ mediaType: MEDIA.ociIndex, manifests }), MEDIA.ociIndex);
    return digest;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function jsonBytes(fields: object): Buffer {
  return Buffer.from(JSON.stringify({ schemaVersion: 2, ...fields }));
}

/** Counts and hashes what goes through. */
class Measure {
  size = 0;
  readonly #hash = createHash('sha256');

  stream(): Transform {
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        this.#hash.update(chunk);
        this.size += chunk.length;
        done(null, chunk);
      },
    });
  }

  digest(): string {
    return `sha256:${this.#hash.digest('hex')}`;
  }
}
