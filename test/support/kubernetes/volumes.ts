/** Gives every waiting claim of a one-node cluster a folder on its node: what a provisioner does elsewhere. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { pause } from '../pause.ts';
import type { Cluster } from './cluster.ts';

const claims = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), namespace: z.string(), uid: z.string() }),
      spec: z.object({
        volumeName: z.string().optional(),
        resources: z.object({ requests: z.object({ storage: z.string() }) }),
      }),
    }),
  ),
});

/** The class to ask for. */
export const testStorageClass = 'troupe-test';

/** Provides volumes until closed. */
export function provideVolumes(cluster: Cluster): { close(): Promise<void> } {
  const stop = new AbortController();
  const given = new Set<string>();
  const look = async (): Promise<void> => {
    const { items } = claims.parse((await cluster.call('GET', '/api/v1/persistentvolumeclaims')).json);
    for (const { metadata, spec } of items) {
      if (given.has(metadata.uid)) continue;
      given.add(metadata.uid);
      const name = `pv-${metadata.uid}`;
      const path = join(cluster.folder, 'volumes', name);
      mkdirSync(path, { recursive: true });
      await cluster.call('POST', '/api/v1/persistentvolumes', {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name },
        spec: {
          capacity: { storage: spec.resources.requests.storage },
          accessModes: ['ReadWriteOnce'],
          persistentVolumeReclaimPolicy: 'Retain',
          storageClassName: testStorageClass,
          hostPath: { path },
          claimRef: {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            kind: 'PersistentVolumeClaim',
            apiVersion: 'v1',
          },
        },
      });
    }
    const living = new Set(items.map(({ metadata }) => metadata.uid));
    for (const uid of given) {
      if (living.has(uid)) continue;
      given.delete(uid);
      await cluster.call('DELETE', `/api/v1/persistentvolumes/pv-${uid}`);
      rmSync(join(cluster.folder, 'volumes', `pv-${uid}`), { recursive: true, force: true });
    }
  };
  const running = (async () => {
    while (!stop.signal.aborted) {
      await look().catch(() => undefined);
      await pause(150, 'pace', stop.signal);
    }
  })();
  return {
    close: async () => {
      stop.abort();
      await running;
    },
  };
}
