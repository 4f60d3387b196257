/** What most trials of a cluster begin with: processes that hold everything, clients who are logged in, and whoever judges them. */
import type { TestContext } from 'node:test';
import { startChronicle } from './chronicle.ts';
import { type ClusterOptions, startCluster, type TestCluster } from './cluster.ts';
import { addClients, type Client, Load, type LoadOptions } from './load.ts';

const CLIENTS = 12;

export interface Setting {
  readonly cluster: TestCluster;
  readonly clients: readonly Client[];
  /** Not started yet; it ends with the test. */
  readonly load: Load;
}

/** So many processes of `troupe auth`, and twelve users. `nodeArgs`, `poolSize`: of all processes; `how`: what the clients do. */
export async function setting(
  t: TestContext,
  size: number,
  {
    nodeArgs = [],
    poolSize,
    ...how
  }: Pick<ClusterOptions, 'nodeArgs' | 'poolSize'> & Pick<LoadOptions, 'timeoutMs' | 'retries'> = {},
): Promise<Setting> {
  const cluster = await startCluster(t, {
    ...{ size, started: 0, nodeArgs },
    ...(poolSize === undefined ? {} : { poolSize }),
  });
  const chronicle = await startChronicle(cluster.db);
  await Promise.all(cluster.members.map((member) => member.start()));
  await cluster.settled();
  const clients = await addClients(cluster.db, cluster.front, chronicle, CLIENTS);
  const load = await Load.over({ front: cluster.front, chronicle, clients, ...how });
  t.after(() => load.stop());
  return { cluster, clients, load };
}
