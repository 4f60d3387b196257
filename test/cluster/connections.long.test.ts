/** How many connections a process has to the database, and that they may be a pooler's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { race, startFront } from '../support/cluster/balancing-client.ts';
import { deleteAll } from '../support/cluster/platform.ts';
import { GROUND_PASSWORD, layGround, skipWithoutServices } from '../support/cluster/services.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutServices();

test('a process that has much to do has five connections to the database at most', { skip }, async (t) => {
  const ground = await layGround(t);
  const service = await ground.start('auth');
  await ground.settled('auth');
  const people = await Promise.all(Array.from({ length: 20 }, (_, n) => ground.person(`person-${n}`)));
  const front = startFront(ground, [service]);
  let most = 0;
  const count = z.object({ count: z.number() });
  const looking = setInterval(async () => {
    const row = await ground.db.one(
      count,
      `select count(*) as count from pg_stat_activity
       where datname = current_database() and backend_type = 'client backend' and application_name not like 'troupe/test%'`,
    );
    most = Math.max(most, row?.count ?? 0);
  }, 20);
  ground.after(() => clearInterval(looking));
  const changes = await race(400, (n) =>
    front.request('POST', '/api/tokens', {
      token: people[n % people.length]?.token,
      body: { name: `token ${n}`, scopes: { [`compute.${people[n % people.length]?.id}`]: ['read'] } },
    }),
  );
  assert.equal((changes.get(200) ?? 0) + (changes.get(201) ?? 0), 400, JSON.stringify([...changes]));
  clearInterval(looking);
  assert.ok(most >= 2 && most <= 5, `${most} connections`);
});

test('processes work through a pooler in transaction mode, and hear of each other beside it', { skip }, async (t) => {
  const ground = await layGround(t, {}, { isPooled: true });
  const ann = await ground.person('ann');
  const [auth, ...compute] = await Promise.all([
    ground.start('auth'),
    ground.start('compute'),
    ground.start('compute'),
    ground.start('notify'),
    ground.start('monitor'),
    ground.start('gateway'),
  ]).then((all) => all.filter(({ name }) => name === 'auth' || name === 'compute'));
  assert.ok(auth);
  await ground.settled();
  const front = startFront(ground, compute);
  ground.after(() => deleteAll(compute[0]?.url ?? '', ann.token));

  const login = await startFront(ground, [auth]).request('POST', '/api/login', {
    body: { username: 'ann', password: GROUND_PASSWORD },
  });
  assert.equal(login.status, 200);
  const key = await front.request('POST', '/compute/ssh-keys', {
    token: ann.token,
    body: { name: 'laptop', public_key: publicKey() },
  });
  const made = await front.request('POST', '/compute/containers', {
    token: ann.token,
    body: { name: 'box', ssh_key_ids: [key.json.id], memory_mb: 128 },
  });
  assert.equal(made.status, 200, JSON.stringify(made.json));
  await until(
    async () => {
      const path = `/compute/containers/${made.json.container_id ?? made.json.id}`;
      return (await front.request('GET', path, { token: ann.token })).json.status === 'running';
    },
    { what: 'the container runs', timeoutMs: 60_000 },
  );

  const token = await startFront(ground, [auth]).request('POST', '/api/tokens', {
    token: ann.token,
    body: { name: 'robot', scopes: { [`compute.${ann.id}`]: ['read'] } },
  });
  const list = () => front.request('GET', '/compute/containers', { token: String(token.json.token) });
  assert.equal((await list()).status, 200);
  assert.equal((await list()).status, 200);
  await startFront(ground, [auth]).request('DELETE', `/api/tokens/${token.json.id}`, { token: ann.token });
  await until(async () => (await list()).status === 401 && (await list()).status === 401, {
    what: 'both processes have heard of the revoked token',
    timeoutMs: 5000,
  });
});
