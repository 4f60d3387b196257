/** Two real services on one database and a real nats-server: each user is awake at one of them, and both answer for all. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { AUTH_USER } from '../../actors/auth/users/placed.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import { createToken, listTokens, MAX_TOKENS } from '../../proto/auth/api-tokens.ts';
import { identitySchema, login, session, updateProfile } from '../../proto/auth/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { stats } from '../../supervision/index.ts';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { testDatabase } from '../support/database/database.ts';
import { type AuthUnderTest, openAuthNode, PASSWORD } from '../support/service/auth.ts';
import { SHORT_LEASES, settled } from '../support/service/node.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutNats();
type Node = AuthUnderTest;

async function setting(t: TestContext) {
  const database = await testDatabase();
  const nats = await startNats(t);
  t.after(async () => {
    await Promise.all(nodes.map((node) => node.end()));
    await database.close();
  });
  const nodes: Node[] = [];
  /** One more process: the service with a bus, a node and actors of its own. */
  const add = async (): Promise<Node> => {
    const node = await openAuthNode(t, { database, nats: nats.server, timings: SHORT_LEASES });
    nodes.push(node);
    return node;
  };

  /** Adds users until one is found, who is logged in at `node`. */
  const userOf = async (node: Node, wanted: (id: string) => boolean): Promise<Caller> => {
    for (let n = 0; ; n++) {
      const { id } = await addUser(database.db, `user-${n}`, PASSWORD);
      if (!wanted(id)) continue;
      const body = { username: `user-${n}`, password: PASSWORD };
      const { token } = identitySchema.parse(await node.call(login, undefined, { body }));
      const caller = await node.authenticate(token);
      assert.ok(caller);
      return caller;
    }
  };
  /** How often users changed their names, by the audit trail. */
  const changes = () => database.db.run(`select from audit_log where action = 'profile.update'`);
  return { db: database.db, add, userOf, changes };
}

const awake = (node: Node) => stats(node.system).kinds['auth/user']?.alive ?? 0;
const named = (display_name: string) => ({ body: { display_name } });

test('a call at one node for a user at another is answered; after that one was killed, here', {
  skip,
}, async (t) => {
  const { add, userOf, changes } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const ann = await userOf(a, (id) => b.placement.holds(AUTH_USER, id));

  assert.equal((await a.call(session, ann)).user_id, ann.userId);
  assert.equal((await a.call(updateProfile, ann, named('Ann of A'))).display_name, 'Ann of A');
  assert.deepEqual([awake(a), awake(b)], [0, 1]);
  assert.equal((await b.call(session, ann)).display_name, 'Ann of A');

  await b.kill();
  assert.equal((await a.call(session, ann)).display_name, 'Ann of A');
  assert.equal((await a.call(updateProfile, ann, named('Still here'))).display_name, 'Still here');
  assert.deepEqual([awake(a), await changes()], [1, 2]);
});

test('a node that leaves hands its users over', { skip }, async (t) => {
  const { add, userOf } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const ann = await userOf(a, (id) => b.placement.holds(AUTH_USER, id));
  assert.equal((await a.call(updateProfile, ann, named('Before'))).display_name, 'Before');
  const [answered] = await Promise.all([a.call(updateProfile, ann, named('After')), b.end()]);
  assert.equal(answered.display_name, 'After');
  assert.equal((await a.call(session, ann)).display_name, 'After');
});

test('a write of a node that has lost its user without knowing is refused, and made once, by the owner', {
  skip,
}, async (t) => {
  const { db, add, userOf, changes } = await setting(t);
  const b = await add();
  const ann = await userOf(b, () => true);
  await b.call(session, ann);
  assert.equal(awake(b), 1);

  // Its beats are stopped, and its lease is over before it thinks so.
  b.placement.node.halt();
  await leaseStore(db).leave(b.placement.node.self.id);
  const c = await add();
  await until(() => c.placement.holds(AUTH_USER, ann.userId), { what: 'another takes it' });
  assert.ok(b.placement.holds(AUTH_USER, ann.userId), 'B still believes');
  assert.equal((await c.call(updateProfile, ann, named('Changed at C'))).display_name, 'Changed at C');

  const writing = b.call(updateProfile, ann, named('Changed at B'));
  await until(() => b.db.fenced > 0, { what: 'the write of B is refused' });
  assert.equal(await changes(), 1);
  await b.placement.node.beat();
  assert.equal((await writing).display_name, 'Changed at B');
  assert.equal((await c.call(session, ann)).display_name, 'Changed at B');
  assert.equal(await changes(), 2);
});

test('the limit of API tokens holds when one user makes them at both nodes at once', { skip }, async (t) => {
  const { add, userOf } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const ann = await userOf(a, (id) => b.placement.holds(AUTH_USER, id));
  const made = await Promise.allSettled(
    Array.from({ length: MAX_TOKENS + 10 }, (_, n) =>
      [a, b][n % 2]?.call(createToken, ann, { body: { name: `token ${n}`, scopes: readsOf(ann) } }),
    ),
  );
  assert.equal(made.filter(({ status }) => status === 'fulfilled').length, MAX_TOKENS);
  assert.equal((await a.call(listTokens, ann)).length, MAX_TOKENS);
});

const readsOf = ({ userId }: Caller) => ({ [`compute.${userId}`]: ['read'] });
