/** `troupe nodes drain`, as a process beside nodes that live. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { openMembership } from '../../cmd/node/membership.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { listNodes } from '../../storage/placement/nodes.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

test('troupe nodes drain empties a node, once and for all, until it is taken back; what cannot be is said', async (t) => {
  const database = await testDatabase();
  const { db } = database;
  const bus = embeddedBus({ store: streamStore(db), log: silentLog });
  const system = start({ log: silentLog });
  const leaves: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const leave of leaves) await leave();
    stop(system);
    await stopped(system);
    await bus.close();
    await database.close();
  });
  const add = async (roles: string[]) => {
    const parts = { db, system, bus, isShared: true, log: silentLog, roles };
    const known = new Set((await listNodes(db)).map(({ id }) => id));
    const member = await openMembership(parts);
    await member.join();
    leaves.push(() => member.leave());
    const id = (await listNodes(db)).find((node) => !known.has(node.id))?.id;
    assert.ok(id);
    return id;
  };
  const drain = async (...args: string[]) => {
    const { code, stdout, stderr } = await troupe(['nodes', 'drain', ...args], { env: { DATABASE_URL: database.url } });
    return { code, said: stdout + stderr };
  };
  const shards = async (id: string) =>
    Object.values((await listNodes(db)).find((node) => node.id === id)?.shards ?? {}).reduce((sum, n) => sum + n, 0);

  const one = await add(['auth', 'compute']);
  const two = await add(['auth']);
  assert.deepEqual(await drain('nobody'), {
    code: 1,
    said: 'troupe: There is no node nobody: `troupe nodes` shows those there are.\n',
  });
  const refused = await drain(one);
  assert.match(refused.said, /^troupe: Nobody else serves compute: start another node first\./);
  assert.equal(refused.code, 1);

  const three = await add(['auth', 'compute']);
  const done = await drain(one.slice(0, 8));
  assert.match(done.said, new RegExp(`^${one} \\(.+\\) holds nothing any more: stop it whenever you like\\.\n$`));
  assert.deepEqual([done.code, await shards(one)], [0, 0]);
  const again = await drain(one, '--json');
  const json = z.object({ id: z.string(), state: z.string(), shards: z.number() }).parse(JSON.parse(again.said));
  assert.deepEqual([json.id, json.state, json.shards, again.code], [one, 'drained', 0, 0]);
  assert.equal((await drain(three)).code, 1, 'it is the last one for compute');

  assert.match((await drain(one, '--cancel')).said, /takes its share again/);
  await until(async () => (await shards(one)) > 0, { what: 'it takes its share again' });
  assert.ok((await shards(two)) > 0);

  await leaves[1]?.();
  leaves.splice(1, 1);
  assert.match((await drain(two)).said, /^troupe: There is no node/);
});
