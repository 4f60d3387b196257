/** `troupe image push`, `image import` and `image rm`: images of one's own, in the platform's registry. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { ClientFailure } from '../failure.ts';
import { type FileSession, openFiles } from '../own-client.ts';
import type { ClientCommandOptions } from '../session.ts';
import { type ArchivedImage, ImageArchive, MEDIA } from './archive.ts';
import { digestOf, imageName, Repository, referenceOf, registryOf } from './registry.ts';
import { ImageSource, sourceName } from './source.ts';
import { askedLogin, keptLogin } from './source-login.ts';

/** A blob, as a manifest names it. */
interface ImageBlob {
  readonly digest: string;
  readonly size: number;
}

/** Sends the image of an archive to the registry; layers that are there are not sent again. */
export async function pushImage(file: string, text: string, options: ClientCommandOptions): Promise<void> {
  const session = openFiles(options);
  const { host, url, architecture } = await registryOf(session);
  const name = imageName(text, host, await usernameOf(session));
  const archive = await ImageArchive.open(file);
  const image = await archive.image(architecture);
  const repository = Repository.own(session, url, name, ['pull', 'push']);
  const counts = { sent: 0, present: 0 };
  const note = (line: string): void => {
    if (session.out.isTerminal && !session.out.json) session.out.note(line);
  };
  const send = async (
    { digest, size }: ImageBlob,
    open: (into: (body: Readable) => Promise<void>) => Promise<void>,
  ) => {
    if (await repository.hasBlob(digest)) {
      counts.present++;
      return;
    }
    note(`sending ${digest.slice(7, 19)}, ${Math.ceil(size / 1024)} KiB`);
    await open((body) => repository.putBlob(digest, size, body));
    counts.sent++;
  };
  const layers: ImageBlob[] = [];
  for (const { path, blob } of image.layers) {
    if (blob === undefined) layers.push(await sendPacked(archive, path, send));
    else await send(blob, (into) => archive.read(path, into));
  }
  const config = { digest: digestOf(image.config), size: image.config.length };
  await send(config, (into) => into(Readable.from([image.config])));
  const { bytes, mediaType } = manifestOf(image, config, layers);
  const digest = await repository.putManifest(bytes, mediaType);
  const reference = referenceOf(name);
  session.out.done(
    { image: reference, digest, blobs_sent: counts.sent, blobs_present: counts.present },
    `${reference} is there (${counts.sent} sent, ${counts.present} were there): troupe run NAME --image ${reference}`,
  );
}

export interface ImportOptions extends ClientCommandOptions {
  /** Of the other registry. */
  readonly username?: string;
}

/**
 * Copies an image of another registry, by way of this machine: it, and not the platform, asks the other registry. What
 * is there is not copied again.
 */
export async function importImage(text: string, to: string | undefined, options: ImportOptions): Promise<void> {
  const from = sourceName(text);
  const session = openFiles(options);
  const { host, url, architecture } = await registryOf(session);
  const tag = from.version.startsWith('sha256:') ? 'latest' : from.version;
  const name = imageName(to ?? `${from.repository.split('/').at(-1)}:${tag}`, host, await usernameOf(session));
  const { machine } = session.out.place;
  const login =
    options.username !== undefined
      ? await askedLogin(session.out, options.username, from.host)
      : machine && keptLogin(machine, from.host);
  const source = new ImageSource(from, login);
  const image = await source.image(architecture);
  const repository = Repository.own(session, url, name, ['pull', 'push']);
  const digest = digestOf(image.bytes);
  const counts = { sent: 0, present: 0 };
  for (const [i, blob] of image.blobs.entries()) {
    if (await repository.hasBlob(blob.digest)) {
      counts.present++;
      continue;
    }
    if (session.out.isTerminal && !session.out.json) {
      const part = `part ${i + 1} of ${image.blobs.length}`;
      session.out.note(`copying ${part}, ${blob.digest.slice(7, 19)}, ${Math.ceil(blob.size / 1024)} KiB`);
    }
    await repository.putBlob(blob.digest, blob.size, await source.blob(blob));
    counts.sent++;
  }
  const present = await repository.manifest(name.tag);
  if (present?.bytes.equals(image.bytes) !== true) await repository.putManifest(image.bytes, image.mediaType);
  const reference = referenceOf(name);
  session.out.done(
    { image: reference, digest, blobs_sent: counts.sent, blobs_present: counts.present },
    `${reference} is there (${counts.sent} copied, ${counts.present} were there): ` +
      `troupe run NAME --image ${reference}`,
  );
}

/** Removes a tag. Other tags of the same image stay. */
export async function removeImage(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openFiles(options);
  const { host, url } = await registryOf(session);
  if (!/:[^/]+$/.test(text)) throw new ClientFailure('usage', `Name the tag, too: ${text}:latest, for example.`);
  const name = imageName(text, host, await usernameOf(session));
  const repository = Repository.own(session, url, name, ['pull', 'push', 'delete']);
  const found = await repository.manifest(name.tag);
  if (found === undefined)
    throw new ClientFailure('missing', `There is no ${referenceOf(name)}: \`troupe image ls\` lists what there is.`);
  // A registry removes manifests, and with one all tags that lead to it. So the tag gets one of its own first: the
  // same, and a space.
  const own = await repository.putManifest(Buffer.concat([found.bytes, Buffer.from(' ')]), found.mediaType);
  await repository.deleteManifest(own);
  const reference = referenceOf(name);
  session.out.done({ image: reference }, `${reference} is removed. Containers that were made of it stay.`);
}

async function usernameOf({ client, profile }: FileSession): Promise<string> {
  return profile.username ?? (await client.call('session')).username;
}

/** Packs a layer into a file first: what it is called in the registry is known when it is packed. */
async function sendPacked(
  archive: ImageArchive,
  path: string,
  send: (blob: ImageBlob, open: (into: (body: Readable) => Promise<void>) => Promise<void>) => Promise<void>,
): Promise<ImageBlob> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-image-'));
  try {
    const file = join(folder, 'layer');
    const hash = createHash('sha256');
    let size = 0;
    const counted = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        hash.update(chunk);
        size += chunk.length;
        done(null, chunk);
      },
    });
    let isThere = false;
    await archive.read(path, async (entry) => {
      isThere = true;
      const { first, whole } = await peek(entry);
      const pack = first[0] === 0x1f && first[1] === 0x8b ? new PassThrough() : createGzip();
      await pipeline(whole, pack, counted, createWriteStream(file, { mode: 0o600 }));
    });
    if (!isThere) throw new ClientFailure('usage', `The archive is not whole: it has no ${path}.`);
    const blob = { digest: `sha256:${hash.digest('hex')}`, size };
    await send(blob, (into) => into(createReadStream(file)));
    return blob;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The first bytes of a stream, and all of it. */
async function peek(stream: Readable): Promise<{ readonly first: Buffer; readonly whole: Readable }> {
  const chunks: AsyncIterator<unknown> = stream[Symbol.asyncIterator]();
  const begun = await chunks.next();
  const first = begun.done === true ? Buffer.alloc(0) : bytesOf(begun.value);
  async function* all() {
    yield first;
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) yield bytesOf(next.value);
  }
  return { first, whole: Readable.from(all(), { objectMode: false }) };
}

function bytesOf(chunk: unknown): Buffer {
  if (chunk instanceof Uint8Array) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError('a stream of bytes');
}

/** The archive's own manifest, or one in Docker's form. */
function manifestOf({ manifest }: ArchivedImage, config: ImageBlob, layers: readonly ImageBlob[]) {
  if (manifest !== undefined) return manifest;
  const text = JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.dockerManifest,
    config: { mediaType: MEDIA.dockerConfig, ...sizeFirst(config) },
    layers: layers.map((layer) => ({ mediaType: MEDIA.dockerLayer, ...sizeFirst(layer) })),
  });
  return { bytes: Buffer.from(text), mediaType: MEDIA.dockerManifest };
}

const sizeFirst = ({ digest, size }: ImageBlob) => ({ size, digest });
