import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import { type CallOptions, DockerClient } from '../../transports/engines/docker/api/client.ts';
import { containerView } from '../../transports/engines/docker/container-view.ts';
import type { Containers } from '../../transports/engines/docker/containers.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { UsageSampler } from '../../transports/engines/docker/stats/usage.ts';
import { KubeClient } from '../../transports/engines/kubernetes/client.ts';
import { kubeNaming } from '../../transports/engines/kubernetes/naming.ts';
import { KubeUsage } from '../../transports/engines/kubernetes/usage.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** A sampler of containers that nobody deletes here: another process does. */
interface Sampler {
  usage(id: string): unknown;
  readonly size: number;
  close(): Promise<void>;
}

const kinds: Record<string, () => Sampler> = {
  Docker: () => {
    const gone: Pick<Containers, 'find'> = { find: async () => undefined };
    const times = { memoryMs: 5, diskMs: 3_600_000, idleMs: 1000, forgetMs: 3_600_000 };
    return new UsageSampler(new DockerClient('unix:///nowhere'), gone, namingOf('here'), silentLog, times);
  },
  Kubernetes: () => {
    const client = new KubeClient({ kubeconfig: 'not asked for' });
    return new KubeUsage(client, async () => [], kubeNaming('here'), silentLog, 5);
  },
};

for (const [name, make] of Object.entries(kinds)) {
  test(`what is known of a container's usage on ${name} is forgotten when nobody asks for long`, async (t: TestContext) => {
    const sampler = make();
    t.after(() => sampler.close());
    for (let n = 0; n < 100; n++) sampler.usage(`container${n}`);
    assert.equal(sampler.size, 100);
    const real = performance.now.bind(performance);
    t.mock.method(performance, 'now', () => real() + 7_200_000);
    await until(
      () => {
        sampler.usage('container0');
        return sampler.size === 1;
      },
      { what: 'only the one that is asked for is known' },
    );
  });
}

test('many containers are measured at once on Docker without a warning, and no call is heard of when it has ended', async (t) => {
  const waiting: ServerResponse[] = [];
  const server = createServer((request, response) => {
    response.setHeader('api-version', '1.41');
    if (!request.url?.includes('/stats')) return void response.end('{}');
    waiting.push(response);
    // Not before as many wait as are asked at once.
    if (waiting.length >= 16) for (const one of waiting) one.end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const signals = new Set<AbortSignal>();
  class Listening extends DockerClient {
    override call(method: string, path: string, options: CallOptions = {}): Promise<Buffer> {
      if (options.signal !== undefined) signals.add(options.signal);
      return super.call(method, path, options);
    }
  }
  const client = new Listening(`tcp://127.0.0.1:${address.port}`);
  const state = { Status: 'running', Running: true, ExitCode: 0, StartedAt: '' };
  const view = containerView.parse({ Id: 'x', State: state, Config: {}, HostConfig: {}, NetworkSettings: {} });
  const times = { memoryMs: 60_000, diskMs: 3_600_000, idleMs: 60_000, forgetMs: 3_600_000 };
  const sampler = new UsageSampler(client, { find: async () => view }, namingOf('here'), silentLog, times);
  const warnings: string[] = [];
  const hear = ({ message }: Error): void => void warnings.push(message);
  process.on('warning', hear);
  t.after(async () => {
    process.off('warning', hear);
    await sampler.close();
    client.close();
    server.closeAllConnections();
    server.close();
  });
  for (let n = 0; n < 20; n++) sampler.usage(`container${n}`);
  await until(() => waiting.length === 20, { what: 'all were asked about' });
  const [signal] = signals;
  assert.ok(signal);
  await until(() => getEventListeners(signal, 'abort').length === 0, { what: 'no call is heard of' });
  assert.deepEqual(warnings, []);
});
