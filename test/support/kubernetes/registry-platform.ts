/** A platform on a real cluster, and a registry that accepts its tokens: the nodes pull from there. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { jsonLines } from '../../../transports/engines/common/calls.ts';
import { authHeader } from '../../../transports/engines/docker/image/images.ts';
import { startPlatform, troupe } from '../cluster/platform.ts';
import { testDatabase } from '../database/database.ts';
import { buildTinyImage } from '../engine/tiny-image.ts';
import { startRegistry } from '../engine/troupe-registry.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { startCluster } from './cluster.ts';
import { provideVolumes, testStorageClass } from './volumes.ts';

const ISSUER = 'https://auth.registry.test';
const pushed = z.object({ error: z.string().optional() });

/** The password of a user of the platform. */
export const passwordOf = (name: string): string => `secret of ${name}`;

/** Starts all of it, with these users; `more`: what the platform's environment has besides. All ends when `t` does. */
export async function registryPlatform(
  t: Cleanup,
  users: readonly string[],
  more: (host: string) => Readonly<Record<string, string>>,
) {
  const cluster = await startCluster();
  t.after(() => cluster.stop());
  const volumes = provideVolumes(cluster);
  t.after(() => volumes.close());
  const { docker } = cluster;
  assert.ok(docker);
  const base = await buildTinyImage();
  await base.build(docker.client, () => {}, new AbortController().signal);

  const data = await tempDir(t);
  const database = await testDatabase();
  t.after(() => database.close());
  const port = await freePort();
  const host = `127.0.0.1:${port}`;
  const keyFile = join(data, 'key.pem');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const env = {
    ...{ DATABASE_URL: database.url, COMPUTE_ENGINE: 'kubernetes', KUBECONFIG: cluster.kubeconfig },
    ...{ KUBERNETES_STORAGE_CLASS: testStorageClass, KUBERNETES_ARCHITECTURE: 'any', DEFAULT_IMAGE: base.reference },
    ...{ REGISTRY_HOST: host, REGISTRY_ISSUER: ISSUER, REGISTRY_SIGNING_KEY: keyFile },
    ...more(host),
  };
  const folder = join(data, 'platform');
  const platform = await startPlatform({ data: folder, env });
  t.after(() => platform.kill());
  const { urls } = platform.ready;
  for (const name of users)
    assert.equal((await troupe(['users', 'add', name, '--data', folder], { env, input: passwordOf(name) })).code, 0);
  const { stdout: bundle } = await troupe(['registry', 'certificate', '--data', folder], { env });
  await startRegistry(t, { ...{ port, service: host, issuer: ISSUER, bundle, realm: `${urls.auth}/v2/token` } });

  /** Pushes an image that the node has under another name, and takes that name from the node again. */
  const push = async (
    reference: string,
    to: { readonly repository: string; readonly tag: string },
    credential: { readonly username: string; readonly password: string },
  ): Promise<void> => {
    const { repository, tag } = to;
    const full = `${repository}:${tag}`;
    await docker.client.call('POST', `/images/${reference}/tag`, { query: { repo: repository, tag } });
    const headers = authHeader({ repository, version: tag, full }, credential);
    const stream = await docker.client.stream('POST', `/images/${repository}/push`, { query: { tag }, headers });
    for await (const line of jsonLines(stream)) assert.equal(pushed.parse(line).error, undefined);
    await docker.client.call('DELETE', `/images/${full}`);
  };
  return { cluster, docker, base, database, platform, urls, host, push };
}
