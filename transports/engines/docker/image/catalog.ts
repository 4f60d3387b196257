/** The catalog: images of Debian packages beside the base image, each built when it is first asked for. */
import { builtInReference } from '../../../../proto/built-in-images.ts';
import type { BuiltInImage } from '../../../../proto/ports/engine.ts';
import { type AptSettings, hostAptSettings } from './apt-sources.ts';
import { type BaseImage, contractChanges, importImage } from './base-image.ts';
import { type DebianAddition, debianRecipe, recipeHash } from './debian-recipe.ts';
import { debianRootArchive } from './mmdebstrap.ts';

/** One of the catalog, which the engine makes when it is missing. */
export type CatalogImage = BaseImage & BuiltInImage;

/** What makes an image of the catalog. */
export interface CatalogEntry extends Omit<DebianAddition, 'folders'> {
  /** Also its folder below deploy/catalog. */
  readonly name: string;
  /** Another folder there whose files it has. */
  readonly shared?: string;
  readonly title: string;
  /** Image settings besides those of the contract. */
  readonly changes?: readonly string[];
}

const POSTGRES = {
  shared: 'postgres',
  changes: ['EXPOSE 5432'],
  // Its container makes the database, and the package none.
  firstSteps: [
    'mkdir -p "$1"/etc/postgresql-common && ' +
      'echo "create_main_cluster = false" > "$1"/etc/postgresql-common/createcluster.conf',
  ],
  // A certificate whose key all containers would share.
  lastSteps: [
    'rm -f "$1"/etc/ssl/private/ssl-cert-snakeoil.key "$1"/etc/ssl/certs/ssl-cert-snakeoil.pem',
    'find "$1"/etc/ssl/certs -xtype l -lname ssl-cert-snakeoil.pem -delete',
  ],
};

/** All of them. The versions are those of their suite. A database's is in its name: none moves. */
export const CATALOG: readonly CatalogEntry[] = [
  { name: 'node', title: 'Node.js 20 (Debian)' },
  { name: 'python', title: 'Python 3.13 (Debian)' },
  { name: 'postgres-17', title: 'PostgreSQL 17 (Debian)', ...POSTGRES },
  // Of Debian 12, for the containers that have it.
  { name: 'postgres-15', title: 'PostgreSQL 15 (Debian)', suite: 'bookworm', ...POSTGRES },
  { name: 'dev', title: 'Development tools (Debian)' },
];

/** The catalog, as it is built here. Each is named `troupe.invalid/<name>:<hash of its recipe>`, as the base is. */
export async function debianCatalog(given?: AptSettings): Promise<CatalogImage[]> {
  const settings = given ?? (await hostAptSettings());
  return Promise.all(CATALOG.map((entry) => catalogImage(entry, settings)));
}

async function catalogImage(entry: CatalogEntry, settings: AptSettings): Promise<CatalogImage> {
  const { name, title, changes: own = [] } = entry;
  const recipe = await debianRecipe(settings, additionOf(entry));
  const changes = [...contractChanges, ...own];
  const reference = builtInReference(name, recipeHash(recipe, changes));
  return {
    name,
    title,
    reference,
    build: (client, onProgress, signal) =>
      debianRootArchive(`image ${name}`, recipe, onProgress, signal, (archive) =>
        importImage(client, reference, archive, changes, signal),
      ),
  };
}

/** What its image has beside the base image's parts. */
export function additionOf({ name, shared, suite, firstSteps = [], lastSteps = [] }: CatalogEntry): DebianAddition {
  const folders = [name, ...(shared === undefined ? [] : [shared])].map((folder) => `catalog/${folder}`);
  return { folders, firstSteps, lastSteps, ...(suite === undefined ? {} : { suite }) };
}
