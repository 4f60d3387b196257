/** A change of an image that is taken back while the platform is away, which was killed in the middle of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform } from '../support/cluster/platform.ts';
import { onDocker, revisionImages } from '../support/cluster/revisions.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { inReverse } from '../support/suite.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the admin of this trial';
const made = z.object({ id: z.union([z.string(), z.number()]) });

test('what a killed platform began beside a container is ended by the next, when the change was taken back meanwhile', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const ends = inReverse(t);
  const data = await tempDir(ends);
  const database = await testDatabase();
  ends.after(() => database.close());
  const [first, second] = await revisionImages(ends, onDocker);
  const env = { DATABASE_URL: database.url, ADMIN_PASSWORD: PASSWORD, REGISTRY_HOST: onDocker.registry };
  let platform: RunningPlatform = await startPlatform({ data, env });
  let token = await logIn(platform.ready.urls.auth, 'admin', PASSWORD);
  const api = async (method: string, path: string, body?: object): Promise<unknown> => {
    const given = { token, ...(body === undefined ? {} : { body }) };
    const { status, json } = await request(method, `${platform.ready.urls.compute}${path}`, given);
    assert.ok(status < 300, `${method} ${path}: ${status} ${JSON.stringify(json)}`);
    return json;
  };
  ends.after(async () => {
    await deleteAll(platform.ready.urls.compute, token);
    await platform.stop();
  });
  const key = made.parse(await api('POST', '/compute/ssh-keys', { name: 'k', public_key: publicKey() }));
  const body = { name: 'box', ssh_key_ids: [Number(key.id)], image: first, stateless: true };
  const id = String(made.parse(await api('POST', '/compute/containers?wait=running', body)).id);
  await api('POST', `/compute/containers/${id}/ingress`, { port: 80, target_port: 8080 });
  await api('PATCH', `/compute/containers/${id}`, { image: second });
  await until(async () => (await onDocker.left(id)) === 2, { what: 'another begins', timeoutMs: 60_000, everyMs: 20 });
  await platform.kill();
  // What another node would write.
  await database.db.run('update containers set next_image = null, next_settings = null where id = $1', [id]);
  platform = await startPlatform({ data, env });
  token = await logIn(platform.ready.urls.auth, 'admin', PASSWORD);
  await until(async () => (await onDocker.left(id)) === 1, { what: 'the other is ended', timeoutMs: 120_000 });
  const view = z.object({ status: z.string(), image: z.string() }).parse(await api('GET', `/compute/containers/${id}`));
  assert.deepEqual(view, { status: 'running', image: first });
});
