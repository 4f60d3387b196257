import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Engine } from '../../../proto/ports/engine.ts';
import type { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { type KubernetesEngineOptions, kubernetesEngine } from '../../../transports/engines/kubernetes/engine.ts';
import { startCutter } from '../kubernetes/breaking-proxy.ts';
import { type Cluster, startCluster } from '../kubernetes/cluster.ts';
import { clusterDomain } from '../kubernetes/cluster-names.ts';
import { startEmptyRegistry } from '../kubernetes/empty-registry.ts';
import { applyAll, kubeconfigOf, manifestsOf } from '../kubernetes/manifests.ts';
import { provideVolumes, testStorageClass } from '../kubernetes/volumes.ts';
import { until } from '../until.ts';
import type { EngineUnderTest } from './conformance-suite.ts';
import { seenFromInside } from './conformance-workload.ts';
import { silentLog } from './docker-under-test.ts';
import { buildTinyImage, perlFiles } from './tiny-image.ts';

const listed = z.array(z.object({ Id: z.string() }));
const created = z.object({ Id: z.string() });

/** An engine on a cluster of its own, with hands on its node. */
export interface KubernetesUnderTest extends EngineUnderTest {
  readonly cluster: Cluster;
  namespaceOf(id: string): string;
  open(more?: Partial<KubernetesEngineOptions>): Engine;
  /** Runs a script in a running container, and says what it printed. */
  exec(id: string, script: string): Promise<Buffer>;
}

/** Starts a cluster with the tiny image on its node, which has perl if that is asked for; `names`: with a DNS. */
export async function kubernetesUnderTest(
  options: { readonly perl?: boolean; readonly names?: boolean } = {},
): Promise<KubernetesUnderTest> {
  const cluster = await startCluster({ answersNames: options.names === true });
  const { docker } = cluster;
  if (docker === undefined) throw new Error('a cluster without a node');
  const { client } = docker;
  const base = options.perl === true ? await buildTinyImage('-perl', await perlFiles()) : await buildTinyImage();
  await base.build(client, () => undefined, new AbortController().signal);
  // With the rights that the platform has when it is deployed, and no more.
  await applyAll(
    cluster,
    [...manifestsOf('example'), ...manifestsOf('components/kubelet-stats')].filter(({ kind }) =>
      /^(Namespace|ServiceAccount|ClusterRole|ClusterRoleBinding)$/.test(kind),
    ),
  );
  const kubeconfig = await kubeconfigOf(cluster, 'troupe-core');
  const volumes = provideVolumes(cluster);
  const registry = await startEmptyRegistry();
  const cutter = await startCutter(Number(new URL(cluster.server).port));
  const open = (more: Partial<KubernetesEngineOptions> = {}): Engine =>
    kubernetesEngine({
      access: { kubeconfig },
      installation: 'test',
      baseImage: base.reference,
      log: silentLog,
      settings: { storageClass: testStorageClass, clusterDomain },
      usageEveryMs: 1000,
      ...more,
    });
  // The same cluster by way of the proxy.
  const config = await readFile(kubeconfig, 'utf8');
  const proxied = join(cluster.folder, 'proxied.kubeconfig');
  await writeFile(proxied, config.replace(cluster.server, `https://127.0.0.1:${cutter.port}`));
  const engine = open({ access: { kubeconfig: proxied } });
  // The suite's containers are of one user, but for some in private networks.
  const namespaceOf = (id: string): string => `compute-u1-${id}`;
  const dockerId = async (id: string): Promise<string> => {
    const found =
      (await find(client, 'container', namespaceOf(id))) ?? (await find(client, 'container', `compute-u2-${id}`));
    if (found === undefined) throw new Error(`no container of ${id} runs`);
    return found;
  };
  const exec = async (id: string, script: string): Promise<Buffer> => {
    const { Id } = await client.json('POST', `/containers/${await dockerId(id)}/exec`, created, {
      body: { AttachStdout: true, Tty: true, Cmd: ['sh', '-c', script] },
    });
    return client.call('POST', `/exec/${Id}/start`, { body: { Detach: false, Tty: true } });
  };
  const connects = async (id: string, host: string, port: number): Promise<boolean> => {
    const said = await exec(id, `nc -w 1 ${host} ${port} < /dev/null > /tmp/said 2>&1; cat /tmp/said`);
    return /SSH-2\.0/.test(said.toString());
  };
  const podPath = (id: string): string => `/api/v1/namespaces/${namespaceOf(id)}/pods/container-0`;
  return {
    engine,
    cluster,
    image: base.reference,
    missingImage: `127.0.0.1:${registry.port}/never/heard-of:it`,
    namespaceOf,
    open,
    exec,
    ...(options.names === true ? { connects } : {}),
    kill: async (id) => void (await client.call('POST', `/containers/${await dockerId(id)}/kill`)),
    removeContainer: async (id) => {
      await cluster.call('DELETE', podPath(id), { gracePeriodSeconds: 1 });
      await until(async () => (await cluster.call('GET', podPath(id))).status === 404, {
        what: 'the pod is gone',
        timeoutMs: 90_000,
        everyMs: 100,
      });
    },
    writeFile: async (id, path, text) => void (await exec(id, `printf %s '${text}' > ${path}`)),
    readFile: async (id, path) => {
      const out = (await exec(id, `[ -e ${path} ] && echo yes && cat ${path}`)).toString().replaceAll('\r\n', '\n');
      return out.startsWith('yes\n') ? out.slice(4) : undefined;
    },
    print: async (id, lines, stream) => {
      const output = `/proc/1/fd/${stream === 'stderr' ? 2 : 1}`;
      await exec(id, lines.map((line) => `echo '${line}' > ${output}`).join('; '));
    },
    seen: (id) => seenFromInside(engine, id),
    description: async (id) => JSON.stringify(await cluster.call('GET', podPath(id))),
    runsScripts: true,
    cut: async () => cutter.cut(),
    again: async () => open(),
    end: async () => {
      await engine.close();
      await cutter.close();
      await registry.close();
      await volumes.close();
      await cluster.stop();
    },
  };
}

async function find(client: DockerClient, name: string, namespace: string): Promise<string | undefined> {
  const label = [`io.kubernetes.container.name=${name}`, `io.kubernetes.pod.namespace=${namespace}`];
  const filters = JSON.stringify({ label, status: ['running'] });
  const found = await client.json('GET', '/containers/json', listed, { query: { filters } });
  return found[0]?.Id;
}
