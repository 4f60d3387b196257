/** A metrics API that says the same of everything, registered with a cluster. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../until.ts';
import type { Cluster } from './cluster.ts';

const run = promisify(execFile);

/** Serves metrics.k8s.io; `namespaces` are those whose pods it knows. */
export async function serveMetrics(
  cluster: Cluster,
  namespaces: () => readonly string[],
): Promise<{ close(): Promise<void> }> {
  const [key, cert] = [join(cluster.folder, 'metrics.key'), join(cluster.folder, 'metrics.crt')];
  await run('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=metrics'],
    ...['-keyout', key, '-out', cert],
  ]);
  const usage = { cpu: '250m', memory: '123Mi' };
  const root = '/apis/metrics.k8s.io/v1beta1';
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
    const { pathname } = new URL(request.url ?? '', 'https://x');
    const items = pathname.endsWith('/nodes')
      ? [{ metadata: { name: 'node1' }, usage }]
      : namespaces().map((namespace) => ({ metadata: { name: 'container-0', namespace }, containers: [{ usage }] }));
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify(
        pathname === root ? { kind: 'APIResourceList', groupVersion: 'metrics.k8s.io/v1beta1' } : { items },
      ),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await cluster.call('POST', '/api/v1/namespaces/kube-system/services', {
    ...{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'metrics' } },
    spec: { type: 'ExternalName', externalName: '127.0.0.1', ports: [{ port }] },
  });
  await cluster.call('POST', '/apis/apiregistration.k8s.io/v1/apiservices', {
    ...{ apiVersion: 'apiregistration.k8s.io/v1', kind: 'APIService', metadata: { name: 'v1beta1.metrics.k8s.io' } },
    spec: {
      ...{ group: 'metrics.k8s.io', version: 'v1beta1', groupPriorityMinimum: 100, versionPriority: 100 },
      ...{ insecureSkipTLSVerify: true, service: { name: 'metrics', namespace: 'kube-system', port } },
    },
  });
  await until(async () => (await cluster.call('GET', `${root}/nodes`)).status === 200, {
    ...{ what: 'metrics.k8s.io is served', timeoutMs: 60_000, everyMs: 100 },
  });
  return {
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
