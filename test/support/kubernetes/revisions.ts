/** A cluster as the world of the trial of revisions. */
import { z } from 'zod';
import { jsonLines } from '../../../transports/engines/common/calls.ts';
import type { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { authHeader } from '../../../transports/engines/docker/image/images.ts';
import type { RevisionsWorld } from '../cluster/revisions.ts';
import { startRegistry } from '../engine/troupe-registry.ts';
import { type Cleanup, freePort } from '../temp.ts';
import { startCluster } from './cluster.ts';
import { clusterDomain } from './cluster-names.ts';
import { applyAll, kubeconfigOf, manifestsOf } from './manifests.ts';

const pushed = z.object({ error: z.string().optional() });
const listed = z.object({ items: z.array(z.unknown()) });

/** Starts a cluster whose pods find each other by name, for a platform with the rights that it is deployed with. */
export async function revisionsOnKubernetes(t: Cleanup): Promise<RevisionsWorld> {
  // As the DNS of a cluster does when it is not told otherwise.
  const cluster = await startCluster({ answersNames: true, namesLastMs: 5000 });
  t.after(() => cluster.stop());
  const { docker } = cluster;
  if (docker === undefined) throw new Error('a cluster without a node');
  const rights = /^(Namespace|ServiceAccount|ClusterRole|ClusterRoleBinding)$/;
  await applyAll(
    cluster,
    manifestsOf('example').filter(({ kind }) => rights.test(kind)),
  );
  const { host } = await startRegistry(t, { port: await freePort() });
  return {
    client: docker.client,
    registry: host,
    endsByItself: true,
    // Each start asks the registry, as it does for everybody's images.
    push: (image) => pushFrom(docker.client, image),
    env: {
      COMPUTE_ENGINE: 'kubernetes',
      KUBECONFIG: await kubeconfigOf(cluster, 'troupe-core'),
      KUBERNETES_ARCHITECTURE: 'any',
      KUBERNETES_CLUSTER_DOMAIN: clusterDomain,
      // Each container names its own.
      DEFAULT_IMAGE: '127.0.0.1:1/nobody/has:it',
    },
    left: async (id) => {
      const path = `/api/v1/pods?labelSelector=troupe.dev/container=${id}`;
      return listed.parse((await cluster.call('GET', path)).json).items.length;
    },
  };
}

/** Pushes an image of a Docker Engine to its registry. */
export async function pushFrom(client: DockerClient, image: string): Promise<void> {
  const [, repository = '', tag = ''] = /^(.*):([^:]*)$/.exec(image) ?? [];
  const headers = authHeader({ repository, version: tag, full: image }, { username: 'any', password: 'body' });
  const stream = await client.stream('POST', `/images/${repository}/push`, { query: { tag }, headers });
  for await (const line of jsonLines(stream)) {
    const { error } = pushed.parse(line);
    if (error !== undefined) throw new Error(error);
  }
}
