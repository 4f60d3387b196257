/** Plays the kubelet where a cluster has none: pods of containers are said to run as soon as they are there. */
import { z } from 'zod';
import { KubeClient } from '../../../transports/engines/kubernetes/client.ts';
import { isReply } from '../../../transports/engines/kubernetes/errors.ts';
import { ResourceWatch } from '../../../transports/engines/kubernetes/watch.ts';
import { silentLog } from '../engine/docker-under-test.ts';
import { pause } from '../pause.ts';
import type { Cluster } from './cluster.ts';

const podView = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    uid: z.string(),
    deletionTimestamp: z.string().nullish(),
  }),
  status: z.object({ phase: z.string().default('Pending') }).prefault({}),
});

export interface FakeNode {
  /** How many pods it said run. */
  readonly started: number;
  close(): Promise<void>;
}

/** Starts it. All pods have `address`, by default one that nobody has. */
export function startFakeNode(cluster: Cluster, address = '203.0.113.1'): FakeNode {
  const client = new KubeClient({ kubeconfig: cluster.kubeconfig });
  const stop = new AbortController();
  const seen = new Set<string>();
  let started = 0;
  const run = async (object: unknown): Promise<void> => {
    const { metadata } = podView.parse(object);
    while (!stop.signal.aborted) {
      try {
        return await say(object);
      } catch (error) {
        seen.delete(metadata.uid);
        if (isReply(error, 404)) return;
        await pause(200, 'retry', stop.signal);
      }
    }
  };
  const say = async (object: unknown): Promise<void> => {
    const { metadata, status } = podView.parse(object);
    if (status.phase !== 'Pending' || metadata.deletionTimestamp != null || seen.has(metadata.uid)) return;
    seen.add(metadata.uid);
    const now = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
    const containerStatuses = [
      {
        ...{ name: 'container', image: 'x', imageID: 'x', ready: true, restartCount: 0 },
        ...{ containerID: `fake://${metadata.uid}`, state: { running: { startedAt: now } } },
      },
    ];
    await client.call('PATCH', `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}/status`, {
      body: { status: { phase: 'Running', podIP: address, containerStatuses } },
      contentType: 'application/merge-patch+json',
      signal: stop.signal,
    });
    started += 1;
  };
  const running = new ResourceWatch(client, {
    ...{ path: '/api/v1/pods', selector: 'troupe.dev/container', log: silentLog, signal: stop.signal },
    times: { silenceMs: 150_000, firstPauseMs: 50, longestPauseMs: 1000 },
    listed: (items) => void Promise.all(items.map(run)),
    sees: () => undefined,
    changed: (type, { object }) => {
      if (type !== 'DELETED') void run(object);
    },
  }).run();
  return {
    get started() {
      return started;
    },
    close: async () => {
      stop.abort();
      client.close();
      await running;
    },
  };
}
