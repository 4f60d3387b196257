import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { DockerClient } from '../../transports/docker/client.ts';
import type { Containers } from '../../transports/docker/containers.ts';
import { namingOf } from '../../transports/docker/naming.ts';
import { UsageSampler } from '../../transports/docker/usage.ts';
import { KubeClient } from '../../transports/kubernetes/client.ts';
import { kubeNaming } from '../../transports/kubernetes/naming.ts';
import { KubeUsage } from '../../transports/kubernetes/usage.ts';
import { silentLog } from '../kit/database.ts';
import { failOnLeaks } from '../kit/leaks.ts';
import { until } from '../kit/until.ts';

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
