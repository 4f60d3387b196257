/** Looks for the server of a data folder, changing nothing. */
import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { CLUSTER_USER, clusterVersion } from './cluster.ts';
import { ELSEWHERE } from './home.ts';
import { findPostmaster } from './postmaster.ts';
import { DATABASE, type EmbeddedConnection } from './server.ts';

/** What is there of a database: the version that made it, and where its server takes connections while one runs. */
interface FoundEmbedded {
  readonly major: number;
  readonly connection: EmbeddedConnection | undefined;
}

/** Undefined when the folder has no database. Rejects EmbeddedError `not_a_cluster` for a damaged one. */
export async function findEmbedded(dataDir: string): Promise<FoundEmbedded | undefined> {
  const path = await realpath(dataDir).catch(() => undefined);
  if (path === undefined) return undefined;
  const place = await readFile(join(path, 'postgres-place'), 'utf8').catch(() => undefined);
  const dir = join(place === undefined ? path : join(ELSEWHERE, place.trim()), 'postgres');
  const major = await clusterVersion(dir);
  if (major === undefined) return undefined;
  const running = await findPostmaster(dir);
  if (running === undefined) return { major, connection: undefined };
  const { socketDir, port } = running;
  return { major, connection: { socketDir, port, user: CLUSTER_USER, database: DATABASE } };
}
