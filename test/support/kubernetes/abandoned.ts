/** A cluster that nobody will end: prints its folder once a pod runs on it. For test/kubernetes/leftovers.test.ts, which kills this process. */
import { z } from 'zod';
import { until } from '../until.ts';
import { startCluster } from './cluster.ts';

const cluster = await startCluster();
const account = '/api/v1/namespaces/default/serviceaccounts/default';
await until(async () => (await cluster.call('GET', account)).status === 200, { timeoutMs: 60_000, everyMs: 100 });
await cluster.call('POST', '/api/v1/namespaces/default/pods', {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'lasting' },
  spec: {
    automountServiceAccountToken: false,
    containers: [{ name: 'one', image: cluster.docker?.sandboxImage, imagePullPolicy: 'Never' }],
    volumes: [{ name: 'memory', emptyDir: { medium: 'Memory' } }],
  },
});
const view = z.object({ status: z.object({ phase: z.string() }) });
await until(
  async () => {
    const { json } = await cluster.call('GET', '/api/v1/namespaces/default/pods/lasting');
    return view.safeParse(json).data?.status.phase === 'Running';
  },
  { timeoutMs: 120_000, everyMs: 200, what: 'the pod runs' },
);
process.stdout.write(`${cluster.folder}\n`);
setInterval(() => {}, 1000);
