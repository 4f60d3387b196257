/** What archives say of their images, read with care. Without zod, which takes longer to load than commands take. */
import { ClientFailure } from '../failure.ts';

type JsonFields = Readonly<Record<string, unknown>>;

/** What names a blob (OCI image specification, "descriptor"). */
export interface Descriptor {
  readonly mediaType: string | undefined;
  readonly digest: string;
  readonly size: number;
  /** Of the machines that it is for, where it says so. */
  readonly architecture: string | undefined;
}

/** What it says is not what it has to be. */
class Unreadable extends Error {}

/** The images of `manifest.json`, as `docker save` writes it. Throws ClientFailure, as all here. */
export function savedImages(bytes: Buffer): { readonly config: string; readonly layers: readonly string[] }[] {
  return read(bytes, (json) =>
    list(json).map((one) => {
      const { Config, Layers } = fields(one);
      return { config: text(Config), layers: list(Layers).map(text) };
    }),
  );
}

/** The manifests that an index has. */
export function archivedIndex(bytes: Buffer): Descriptor[] {
  return read(bytes, (json) => list(fields(json).manifests).map(descriptor));
}

/** A manifest. */
export function archivedManifest(bytes: Buffer) {
  return read(bytes, (json) => {
    const { mediaType, config, layers } = fields(json);
    return { mediaType: optional(mediaType), config: descriptor(config), layers: list(layers).map(descriptor) };
  });
}

/** The machines that an image is for, as its configuration says. */
export function archivedConfig(bytes: Buffer) {
  return read(bytes, (json) => {
    const { architecture, os } = fields(json);
    return { architecture: optional(architecture), os: optional(os) };
  });
}

function read<T>(bytes: Buffer, from: (json: unknown) => T): T {
  try {
    return from(JSON.parse(bytes.toString('utf8')));
  } catch (cause) {
    if (!(cause instanceof Unreadable) && !(cause instanceof SyntaxError)) throw cause;
    throw new ClientFailure('usage', 'What the archive says of its image cannot be read.', { cause });
  }
}

function descriptor(value: unknown): Descriptor {
  const { mediaType, digest, size, platform } = fields(value);
  const { architecture } = platform === undefined ? {} : fields(platform);
  if (!/^sha256:[0-9a-f]{64}$/.test(text(digest))) throw new Unreadable('no digest');
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) throw new Unreadable('no size');
  return { mediaType: optional(mediaType), digest: text(digest), size, architecture: optional(architecture) };
}

function fields(value: unknown): JsonFields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Unreadable('no object');
  return { ...value };
}

function list(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Unreadable('no list');
  return value;
}

function text(value: unknown): string {
  if (typeof value !== 'string') throw new Unreadable('no text');
  return value;
}

const optional = (value: unknown): string | undefined => (value === undefined ? undefined : text(value));
