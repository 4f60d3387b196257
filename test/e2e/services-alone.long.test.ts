/** Services in processes of their own: one for logins, two for containers, on one PostgreSQL, nats-server and Docker Engine. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { z } from 'zod';
import { listServiceShards } from '../../storage/placement/nodes.ts';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { startBox } from '../support/clients/container.ts';
import { SHARDS } from '../support/cluster/chronicle.ts';
import { deleteAll, logIn, request, spawnTroupe, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the admin of this test';
const readySchema = z.object({ ready: z.literal(true), port: z.number() });

/** Starts a service on a free port and waits until it serves. */
async function service(t: Cleanup, name: string, env: Record<string, string>) {
  const child = spawnTroupe([name, '--addr', '127.0.0.1:0', '--json'], env);
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk));
  const ended = once(child, 'close').then(([code]: unknown[]) => code);
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  t.after(async () => {
    await stop();
  });
  const first = await Promise.race([createInterface({ input: child.stdout })[Symbol.asyncIterator]().next(), ended]);
  const line = z.object({ value: z.string() }).safeParse(first).data?.value;
  assert.ok(line !== undefined, `troupe ${name} ended before it was ready:\n${log}`);
  return { url: `http://127.0.0.1:${readySchema.parse(JSON.parse(line)).port}`, stop };
}

test('services run alone, several of each: a container is looked after by whichever is there', {
  skip: skipWithoutDocker() || skipWithoutNats(),
  timeout: 900_000,
}, async (t) => {
  // In reverse: what runs ends before what it stands on.
  const ends: (() => unknown)[] = [];
  const after = { after: (end: () => unknown) => void ends.unshift(end) };
  t.after(async () => {
    for (const end of ends) await end();
  });
  const database = await testDatabase();
  after.after(() => database.close());
  const nats = await startNats(after);
  const env = {
    ...{ DATABASE_URL: database.url, NATS_URL: nats.url, ADMIN_PASSWORD: PASSWORD, DEFAULT_IMAGE: await tinyImage() },
    JWT_SECRET: 'the shared secret of this test, over 32 bytes',
    ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
  };
  const refused = await troupe(['compute'], {
    env: { DATABASE_URL: '', NATS_URL: '', JWT_SECRET: '', ENCRYPTION_KEY: '' },
  });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /The compute service needs DATABASE_URL, JWT_SECRET, NATS_URL and ENCRYPTION_KEY/);

  const roles = await database.serviceRoles();
  const [auth, one, two] = await Promise.all(
    (['auth', 'compute', 'compute'] as const).map((name) =>
      service(after, name, { ...env, DATABASE_URL: roles.urlOf(name) }),
    ),
  );
  assert.ok(auth && one && two);
  const token = await logIn(auth.url, 'admin', PASSWORD);
  const { id } = await startBox(one.url, token, await tempDir(after));
  after.after(() => deleteAll(two.url, token));
  const status = async (url: string) =>
    (await request('GET', `${url}/compute/containers/${id}`, { token })).json.status;
  assert.deepEqual([await status(one.url), await status(two.url)], ['running', 'running']);
  const shards = await listServiceShards(database.db);
  assert.deepEqual(
    shards.map(({ service, held }) => [service, held]),
    [
      ['auth', SHARDS],
      ['compute', SHARDS],
      ['outbox', SHARDS],
    ],
  );

  assert.equal(await one.stop(), 0);
  assert.equal(await status(two.url), 'running');
  assert.equal((await request('POST', `${two.url}/compute/containers/${id}/stop`, { token })).status, 200);
  // What it tells is published by one of those that are left.
  await until(async () => (await database.db.run('select from outbox')) === 0, { what: 'the outbox is published' });
});
