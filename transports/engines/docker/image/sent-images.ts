/** The platform's own images as they are sent to a registry, for engines that build nothing themselves. */
import type { Readable } from 'node:stream';
import { BASE_NAME, builtInReference } from '../../../../proto/built-in-images.ts';
import type { BuiltInImage } from '../../../../proto/ports/engine.ts';
import { type AptSettings, hostAptSettings } from './apt-sources.ts';
import { contractChanges } from './base-image.ts';
import { additionOf, CATALOG, type CatalogEntry } from './catalog.ts';
import { debianRecipe, recipeHash } from './debian-recipe.ts';
import { debianRootArchive } from './mmdebstrap.ts';

/** One of them. */
export interface SentImage {
  readonly name: string;
  /** Of its recipe: on each machine the same, whichever mirror and kind of processor that has. */
  readonly hash: string;
  /** Image settings, as Dockerfile instructions. */
  readonly changes: readonly string[];
  /** Builds its root file system for machines like this one, and hands `use` the archive, as `debianRootArchive`. */
  build(
    onProgress: (line: string) => void,
    signal: AbortSignal,
    use: (archive: Readable) => Promise<void>,
  ): Promise<void>;
}

const NO_SETTINGS: AptSettings = { mirror: undefined, securityMirror: undefined, build: [], inside: [] };
const BASE: CatalogEntry = { name: BASE_NAME, title: 'Debian' };

/** The base image, and all of the catalog. */
export function sentImages(): Promise<SentImage[]> {
  return Promise.all([BASE, ...CATALOG].map(sentImage));
}

/** The catalog for an engine whose machines pull it from below `place`, which ends with a slash. */
export async function catalogAt(place: string): Promise<BuiltInImage[]> {
  return Promise.all(
    CATALOG.map(async (entry) => {
      const { name, hash } = await sentImage(entry);
      const reference = builtInReference(name, hash);
      return { name, title: entry.title, reference, repository: `${place}${name}` };
    }),
  );
}

async function sentImage(entry: CatalogEntry): Promise<SentImage> {
  const { name, changes: own = [] } = entry;
  const addition = name === BASE_NAME ? undefined : additionOf(entry);
  const changes = [...contractChanges, ...own];
  const plain = await debianRecipe(NO_SETTINGS, addition);
  const hash = recipeHash({ ...plain, architecture: 'any' }, changes);
  return {
    name,
    hash,
    changes,
    build: async (onProgress, signal, use) => {
      const recipe = await debianRecipe(await hostAptSettings(), addition);
      await debianRootArchive(`image ${name}`, recipe, onProgress, signal, use);
    },
  };
}

/** The configuration of an image of one layer, whose archive has that digest (OCI image specification). */
export function imageConfig(changes: readonly string[], diffId: string, architecture: string): Buffer {
  const config: { Cmd?: unknown; WorkingDir?: string; Env: string[]; ExposedPorts: Record<string, object> } = {
    Env: [],
    ExposedPorts: {},
  };
  for (const change of changes) {
    const [word = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(change)?.slice(1) ?? [];
    if (word === 'CMD') config.Cmd = JSON.parse(rest);
    else if (word === 'ENV') config.Env.push(rest);
    else if (word === 'WORKDIR') config.WorkingDir = rest;
    else if (word === 'EXPOSE') config.ExposedPorts[`${rest}/tcp`] = {};
    else throw new Error(`an image cannot be given ${change}`);
  }
  const rootfs = { type: 'layers', diff_ids: [diffId] };
  return Buffer.from(JSON.stringify({ architecture, os: 'linux', config, rootfs }));
}
