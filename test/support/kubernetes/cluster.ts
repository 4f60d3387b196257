/** A real Kubernetes cluster of one node: etcd, API server, controllers, scheduler and kubelet, each a child of the test. */

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { guard } from '../guard.ts';
import { freePort } from '../temp.ts';
import { until } from '../until.ts';
import { clusterDomain, startClusterNames } from './cluster-names.ts';
import { endArguments, endCluster, endOfCluster } from './leftovers.ts';
import { type NodeDocker, startNodeDocker } from './node-docker.ts';
import { type Part, part } from './programs.ts';

const run = promisify(execFile);

/**
 * Of what a program asks the API server: by default twenty requests a second, of which the end of one namespace takes more
 * than a hundred.
 */
const UNTHROTTLED = ['--kube-api-qps=200', '--kube-api-burst=400'];

/** What a cluster is made with. */
export interface ClusterOptions {
  /** Without kubelet and dockerd: pods stay pending. */
  readonly withoutNode?: boolean;
  /** Added to the API server's command line. */
  readonly apiServerFlags?: readonly string[];
  /** Added to the controllers'. */
  readonly controllerFlags?: readonly string[];
  /** Service accounts are given the API server's certificate, as pods that call it need. */
  readonly tellsAuthority?: boolean;
  /** Pods find services by their names, and reach each other. */
  readonly answersNames?: boolean;
  /** For how long the answer to such a name is kept. Default 0. */
  readonly namesLastMs?: number;
}

/** A cluster that runs. */
export interface Cluster {
  readonly kubeconfig: string;
  readonly server: string;
  readonly folder: string;
  readonly apiServer: Part;
  readonly etcd: Part;
  readonly etcdUrl: string;
  readonly docker: NodeDocker | undefined;
  /** A call as the administrator; the body is JSON. */
  call(method: string, path: string, body?: unknown, contentType?: string): Promise<{ status: number; json: unknown }>;
  /** Resolves once the API server is ready. Starts controllers and scheduler again if they ended without it. */
  ready(): Promise<void>;
  /** A kubeconfig for another token, such as a service account's. */
  kubeconfigFor(token: string, name: string): string;
  stop(): Promise<void>;
}

/**
 * Starts a cluster in about fifteen seconds. Throws with the log of the part that does not come up. All of it goes with this process, however
 * that ends.
 */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  // Short: dockerd's sockets are below it.
  const folder = await mkdtemp('/tmp/trk-');
  const release = guard([endOfCluster], ...endArguments(folder));
  const token = randomBytes(16).toString('hex');
  const [etcdPort, peerPort, apiPort, kubeletPort] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  const server = `https://127.0.0.1:${apiPort}`;
  const logOf = (name: string): string => join(folder, `${name}.log`);
  await run('openssl', ['genrsa', '-out', join(folder, 'sa.key'), '2048']);
  writeFileSync(join(folder, 'tokens.csv'), `${token},admin,admin,system:masters\n`);
  const kubeconfigFor = (of: string, name: string): string => {
    const file = join(folder, `${name}.kubeconfig`);
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      clusters: [{ name: 'c', cluster: { server, 'certificate-authority': join(folder, 'pki/apiserver.crt') } }],
      users: [{ name: 'u', user: { token: of } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    };
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
    return file;
  };
  const kubeconfig = kubeconfigFor(token, 'admin');

  const etcd = part(
    'etcd',
    [
      ...['--data-dir', join(folder, 'etcd'), '--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl],
      ...['--listen-peer-urls', `http://127.0.0.1:${peerPort}`, '--unsafe-no-fsync', '--log-level', 'error'],
    ],
    logOf('etcd'),
  );
  const apiServer = part(
    'kube-apiserver',
    [
      ...[`--etcd-servers=${etcdUrl}`, `--cert-dir=${join(folder, 'pki')}`, `--secure-port=${apiPort}`],
      ...['--bind-address=127.0.0.1', '--advertise-address=10.200.0.1', '--service-cluster-ip-range=10.99.0.0/16'],
      ...[
        '--authorization-mode=Node,RBAC',
        `--token-auth-file=${join(folder, 'tokens.csv')}`,
        '--allow-privileged=true',
      ],
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-signing-key-file=${join(folder, 'sa.key')}`,
      `--service-account-key-file=${join(folder, 'sa.key')}`,
      ...['--api-audiences=https://kubernetes.default.svc', '--kubelet-preferred-address-types=InternalIP'],
      ...['--shutdown-delay-duration=0s', ...(options.apiServerFlags ?? [])],
    ],
    logOf('apiserver'),
  );
  const controllers = part(
    'kube-controller-manager',
    [
      ...[`--kubeconfig=${kubeconfig}`, '--leader-elect=false', '--port=0', '--secure-port=0'],
      ...['--use-service-account-credentials=false', `--service-account-private-key-file=${join(folder, 'sa.key')}`],
      ...['--concurrent-namespace-syncs=10', ...UNTHROTTLED],
      ...(options.tellsAuthority === true ? [`--root-ca-file=${join(folder, 'pki/apiserver.crt')}`] : []),
      ...(options.controllerFlags ?? []),
    ],
    logOf('controllers'),
  );
  const scheduler = part(
    'kube-scheduler',
    [`--kubeconfig=${kubeconfig}`, '--leader-elect=false', '--port=0', '--secure-port=0', ...UNTHROTTLED],
    logOf('scheduler'),
  );

  let docker: NodeDocker | undefined;
  let kubelet: Part | undefined;
  let names: { close(): Promise<void> } | undefined;
  const call: Cluster['call'] = (method, path, body, contentType = 'application/json') =>
    new Promise((resolve, reject) => {
      const sent = request(
        `${server}${path}`,
        {
          method,
          rejectUnauthorized: false,
          agent: false,
          headers: {
            authorization: `Bearer ${token}`,
            ...(body === undefined ? {} : { 'content-type': contentType }),
          },
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (chunk: string) => (text += chunk));
          response.on('error', reject);
          response.on('end', () => {
            try {
              resolve({ status: response.statusCode ?? 0, json: text === '' ? {} : JSON.parse(text) });
            } catch {
              resolve({ status: response.statusCode ?? 0, json: text });
            }
          });
        },
      );
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  const upOr = async (of: Part, what: string, check: () => Promise<boolean>): Promise<void> => {
    const looked = async (): Promise<boolean> => {
      if (!of.running) throw new Error(`${of.name} ended`);
      return check().catch(() => false);
    };
    await until(looked, { what, timeoutMs: 90_000, everyMs: 100 }).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${of.log()}`);
    });
  };
  let isUp = false;
  const ready = async (): Promise<void> => {
    await upOr(apiServer, 'the API server is ready', async () => (await call('GET', '/readyz')).status === 200);
    if (isUp) for (const one of [controllers, scheduler]) if (!one.running) one.start();
  };

  const stop = async (): Promise<void> => {
    await names?.close();
    await kubelet?.kill();
    await Promise.all([controllers.kill(), scheduler.kill(), apiServer.kill()]);
    await etcd.kill();
    await docker?.stop();
    await endCluster(folder);
    release();
  };
  try {
    etcd.start();
    apiServer.start();
    const dockerUp = options.withoutNode === true ? undefined : startNodeDocker(folder);
    dockerUp?.catch(() => undefined);
    await ready();
    controllers.start();
    scheduler.start();
    isUp = true;
    docker = await dockerUp;
    if (docker !== undefined) {
      if (options.answersNames === true) {
        names = await startClusterNames(docker.address, call, options.namesLastMs);
        await docker.joinPods();
      }
      kubelet = part('kubelet', kubeletFlags(folder, kubeconfig, docker, kubeletPort, options), logOf('kubelet'));
      kubelet.start();
      await upOr(kubelet, 'the node is ready', async () => isReady((await call('GET', '/api/v1/nodes/node1')).json));
    }
    return { kubeconfig, server, folder, apiServer, etcd, etcdUrl, docker, call, ready, kubeconfigFor, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const nodeView = z.object({
  status: z.object({ conditions: z.array(z.object({ type: z.string(), status: z.string() })) }),
});

function isReady(node: unknown): boolean {
  const { status } = nodeView.parse(node);
  return status.conditions.some((one) => one.type === 'Ready' && one.status === 'True');
}

function kubeletFlags(
  folder: string,
  kubeconfig: string,
  docker: NodeDocker,
  port: number,
  { answersNames = false }: ClusterOptions,
): string[] {
  const config = {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: docker.address,
    port,
    healthzPort: 0,
    readOnlyPort: 0,
    cgroupDriver: 'cgroupfs',
    // One kubelet would remove the groups of another on the same machine.
    cgroupsPerQOS: false,
    failSwapOn: false,
    ...{ kubeAPIQPS: 200, kubeAPIBurst: 400 },
    enforceNodeAllocatable: [],
    evictionHard: { 'nodefs.available': '1%' },
    imageGCHighThresholdPercent: 100,
    authentication: { webhook: { enabled: false }, anonymous: { enabled: true } },
    authorization: { mode: 'AlwaysAllow' },
    makeIPTablesUtilChains: false,
    clusterDNS: answersNames ? [docker.address] : [],
    clusterDomain,
    oomScoreAdj: 0,
    maxPods: 250,
    nodeStatusUpdateFrequency: '1s',
    // It looks at each pod again so often, and not only after a minute when it missed that one ended.
    syncFrequency: '3s',
    volumePluginDir: join(folder, 'plugins'),
    featureGates: { DevicePlugins: false },
  };
  const file = join(folder, 'kubelet.json');
  writeFileSync(file, JSON.stringify(config));
  mkdirSync(join(folder, 'kubelet'), { recursive: true });
  return [
    ...[`--config=${file}`, `--kubeconfig=${kubeconfig}`, `--root-dir=${join(folder, 'kubelet')}`],
    ...[`--cert-dir=${join(folder, 'kubelet-pki')}`, '--hostname-override=node1', `--node-ip=${docker.address}`],
    ...[`--docker-endpoint=unix://${docker.socket}`, `--docker=unix://${docker.socket}`],
    ...[`--pod-infra-container-image=${docker.sandboxImage}`],
    ...['--network-plugin=', `--experimental-dockershim-root-directory=${join(folder, 'dockershim')}`],
    ...['--housekeeping-interval=2s', '--v=1'],
  ];
}
