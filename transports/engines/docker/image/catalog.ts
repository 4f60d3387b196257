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
export interface CatalogEntry extends Omit<DebianAddition, 'folder'> {
  /** Also its folder below deploy/catalog. */
  readonly name: string;
  readonly title: string;
  /** Image settings besides those of the contract. */
  readonly changes?: readonly string[];
}

/** All of them. The versions are those of the suite in debian-recipe.ts. A database's is in its name: none moves. */
export const CATALOG: readonly CatalogEntry[] = [
  { name: 'node', title: 'Node.js 18 (Debian)' },
  { name: 'python', title: 'Python 3.11 (Debian)' },
  {
    name: 'postgres-15',
    title: 'PostgreSQL 15 (Debian)',
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
  },
  { name: 'dev', title: 'Development tools (Debian)' },
];

/** The catalog, as it is built here. Each is named `troupe.invalid/<name>:<hash of its recipe>`, as the base is. */
export async function debianCatalog(given?: AptSettings): Promise<CatalogImage[]> {
  const settings = given ?? (await hostAptSettings());
  return Promise.all(CATALOG.map((entry) => catalogImage(entry, settings)));
}

async function catalogImage(entry: CatalogEntry, settings: AptSettings): Promise<CatalogImage> {
  const { name, title, changes: own = [], ...steps } = entry;
  const recipe = await debianRecipe(settings, { ...steps, folder: `catalog/${name}` });
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
