/** What a user may have, and how often somebody may guess, holds when clients race over all processes at once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addUser } from '../../actors/auth/users/users.ts';
import { MAX_TOKENS } from '../../proto/auth/api-tokens.ts';
import { race } from '../support/cluster/balancing-client.ts';
import { skipWithoutCluster, startCluster } from '../support/cluster/cluster.ts';

const PASSWORD = 'a long enough password';

test('limits hold while clients race over all processes: guesses of a password, API tokens', {
  skip: skipWithoutCluster(),
}, async (t) => {
  const { db, front, members, settled } = await startCluster(t, { size: 3 });
  await settled();
  await addUser(db, 'ann', PASSWORD);
  await addUser(db, 'bob', PASSWORD);
  const login = (username: string, password: string) =>
    front.request('POST', '/api/login', { body: { username, password } });

  // Five are free; then one after 1, 3, 7 ... seconds. Each process by itself would let fifteen through.
  const began = performance.now();
  const guesses = await race(60, () => login('ann', 'not the password'));
  const seconds = (performance.now() - began) / 1000;
  const looked = guesses.get(401) ?? 0;
  const allowed = 5 + Math.floor(Math.log2(seconds + 1));
  assert.ok(
    looked >= 5 && looked <= allowed,
    `${looked} passwords were looked at in ${seconds} s, at most ${allowed} may be`,
  );
  assert.equal(guesses.get(429), 60 - looked, JSON.stringify([...guesses]));
  const others = await Promise.all(
    members.map((member) =>
      front.request('POST', '/api/login', { among: [member], body: { username: 'bob', password: PASSWORD } }),
    ),
  );
  assert.deepEqual(
    others.map(({ status }) => status),
    [200, 200, 200],
    'somebody else comes in at every process',
  );

  const token = String(others[0]?.json.token);
  const scopes = { [`compute.${others[0]?.json.user_id}`]: ['read'] };
  const made = await race(MAX_TOKENS + 15, (n) =>
    front.request('POST', '/api/tokens', { token, body: { name: `token ${n}`, scopes } }),
  );
  const statuses = JSON.stringify([...made]);
  assert.equal((made.get(200) ?? 0) + (made.get(201) ?? 0), MAX_TOKENS, statuses);
  assert.equal([...made.values()].reduce((sum, times) => sum + times, 0) - 15, MAX_TOKENS);
  assert.equal(
    await db.run('select from api_tokens t join users u on u.id = t.user_id where username = $1', ['bob']),
    MAX_TOKENS,
  );
});
