import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  createSshKey,
  deleteSshKey,
  listSshKeys,
  setSshKeyLogin,
  startContainer,
  stopContainer,
} from '../../proto/compute/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { readAudit } from '../../storage/audit.ts';
import { endSessions } from '../../storage/auth/sessions.ts';
import { insertContainer } from '../../storage/compute/containers.ts';
import { insertKey, keysOfContainer } from '../../storage/compute/ssh-keys.ts';
import { StorageError } from '../../storage/errors.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { openCompute, PLATFORM_KEY } from '../support/service/compute.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');

describe('SSH keys', () => {
  test('are kept as they were given, without what surrounds them, and listed oldest first', async (t) => {
    const compute = await openCompute(t);
    const [first, second] = [publicKey('ann@laptop'), publicKey('')];
    const made = await compute.call(createSshKey, ann, { body: { name: ' Laptop ', public_key: `\n ${first} \r\n` } });
    assert.deepEqual(Object.keys(made).sort(), ['created_at', 'id', 'login', 'name', 'public_key']);
    assert.equal(made.name, 'Laptop');
    assert.equal(made.public_key, first);
    await compute.key(ann, second);
    const { ssh_keys } = await compute.call(listSshKeys, ann);
    assert.deepEqual(
      ssh_keys.map((key) => key.public_key),
      [first, second],
    );
    assert.deepEqual(await compute.call(listSshKeys, bob), { ssh_keys: [] });
  });

  test('that are none, or would write more than a key into a container, are refused', async (t) => {
    const compute = await openCompute(t);
    const good = publicKey('');
    const bad = [
      ...[
        '',
        'hello',
        'ssh-ed25519',
        'ssh-ed25519 AAAA',
        good.replace('ssh-ed25519', 'ssh-rsa'),
        `${good.slice(0, -4)}`,
      ],
      ...[`command="sh" ${good}`, `${good}\n${publicKey()}`, `${good} a\0b`, `${good} a\nssh-rsa b`],
      ...[`-----BEGIN OPENSSH PRIVATE KEY-----`, `ssh-dss ${good.split(' ')[1]}`],
    ];
    for (const public_key of bad) {
      const refusal = await refused(
        'invalid_request',
        compute.call(createSshKey, ann, { body: { name: 'x', public_key } }),
      );
      assert.equal(refusal.fields?.[0]?.path, 'public_key', public_key);
    }
    for (const name of ['', '   ', 'a'.repeat(65), 'a\nb', 'a\0', 7]) {
      assert.throws(() => callFrom(createSshKey, ann, { body: { name, public_key: good } }), {
        code: 'invalid_request',
      });
    }
    assert.deepEqual(await compute.call(listSshKeys, ann), { ssh_keys: [] });
  });

  test('are refused the second time, whatever their comment, but another user may have the same', async (t) => {
    const compute = await openCompute(t);
    const key = publicKey('one');
    await compute.key(ann, key);
    await refused('conflict', compute.key(ann, key.replace('one', 'two')));
    await compute.key(bob, key);
    const results = await Promise.allSettled(Array.from({ length: 5 }, () => compute.key(someone(), publicKey())));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 5);
  });

  test('are at most ten, also when twenty come at once, and a deleted one makes room', async (t) => {
    const compute = await openCompute(t);
    const results = await Promise.allSettled(Array.from({ length: 20 }, () => compute.key(ann)));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 10);
    assert.match((await refused('limit_reached', compute.key(ann))).message, /10 SSH keys/);
    const { ssh_keys } = await compute.call(listSshKeys, ann);
    await compute.call(deleteSshKey, ann, { params: { id: String(ssh_keys[4]?.id) } });
    await compute.key(ann);
    await refused('limit_reached', compute.key(ann));
  });

  test('are at most ten in the database itself, whoever writes', async (t) => {
    const compute = await openCompute(t);
    const results = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        insertKey(compute.db, { userId: ann.userId, name: 'x', publicKey: `key ${i}`, fingerprint: `f${i % 15}` }),
      ),
    );
    assert.equal(results.filter((result) => typeof result === 'object').length, 10);
    assert.equal(await compute.db.run('select from ssh_keys where user_id = $1', [ann.userId]), 10);
  });

  test('that are deleted enter no container any more, at once and after its next start', async (t) => {
    const compute = await openCompute(t);
    const [kept, dropped] = [publicKey('kept'), publicKey('dropped')];
    const ids = [await compute.key(ann, kept), await compute.key(ann, dropped)];
    const id = await compute.running(ann, { ssh_key_ids: ids, ssh_enabled: true });
    assert.deepEqual(compute.engine.keysOf(id), [PLATFORM_KEY, kept, dropped]);
    await compute.call(deleteSshKey, ann, { params: { id: String(ids[1]) } });
    await until(() => compute.engine.keysOf(id).length === 2);
    assert.deepEqual((await keysOfContainer(compute.db, id)).keys, [kept]);
    await compute.on(stopContainer, ann, id);
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.deepEqual(compute.engine.keysOf(id), [PLATFORM_KEY, kept]);
  });

  test('of others and unknown ones are not found', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.key(ann);
    for (const unknown of [id, id + 1, 2_147_483_647, 2_147_483_648, 9_999_999_999]) {
      await refused('not_found', compute.call(deleteSshKey, bob, { params: { id: String(unknown) } }));
    }
    for (const none of ['0', '-1', '01', '1.0', '1e3', 'x', '', '10000000000', '１']) {
      assert.throws(() => callFrom(deleteSshKey, ann, { params: { id: none } }), { code: 'not_found' }, none);
    }
    assert.equal((await compute.call(listSshKeys, ann)).ssh_keys.length, 1);
  });
});

describe('SSH keys that open the account', () => {
  /** The user of a session that began so many seconds ago. */
  async function loggedIn(compute: Awaited<ReturnType<typeof openCompute>>, secondsAgo = 0): Promise<Caller> {
    const caller = someone('eve');
    await compute.db.run(`insert into users (id, username, display_name, password_hash) values ($1, $1, $1, 'x')`, [
      caller.userId,
    ]);
    const issuedAt = Math.floor(compute.clock.now() / 1000) - secondsAgo;
    return { ...caller, session: { issuedAt, epoch: 0 } };
  }
  type Compute = Awaited<ReturnType<typeof openCompute>>;
  const mark = (compute: Compute, caller: Caller, id: number, login = true) =>
    compute.call(setSshKeyLogin, caller, { params: { id: String(id) }, body: { login } });
  const add = (compute: Compute, caller: Caller) =>
    compute.call(createSshKey, caller, { body: { name: 'x', public_key: publicKey(), login: true } });

  test('are marked within ten minutes of a login, not by an older session and not by a key', async (t) => {
    const compute = await openCompute(t);
    const fresh = await loggedIn(compute);
    assert.equal((await add(compute, fresh)).login, true);
    const { session } = fresh;
    assert.ok(session);
    const id = await compute.key(fresh);
    const old: Caller = { ...fresh, session: { ...session, issuedAt: session.issuedAt - 601 } };
    const byKey: Caller = { ...fresh, via: 'ssh_key' };
    for (const [caller, why] of [
      [old, /within 10 minutes of a login: log in again \(`troupe login`/],
      [byKey, /A login by SSH key lets no key into the account/],
      [{ ...fresh, kind: 'api_token' }, /not by an API token/],
    ] as const) {
      assert.match((await refused('forbidden', add(compute, caller))).message, why);
      assert.match((await refused('forbidden', mark(compute, caller, id))).message, why);
    }
    assert.equal((await compute.call(listSshKeys, fresh)).ssh_keys.filter(({ login }) => login).length, 1);
    assert.equal((await mark(compute, fresh, id)).login, true);
    for (const caller of [old, byKey]) {
      assert.equal((await mark(compute, caller, id, false)).login, false, 'what takes a right away needs no proof');
      await mark(compute, fresh, id);
    }
  });

  test('do so no longer once the sessions of their user end, and a session that has ended marks none', async (t) => {
    const compute = await openCompute(t);
    const eve = await loggedIn(compute);
    const { id } = await add(compute, eve);
    const isLogin = async () => (await compute.call(listSshKeys, eve)).ssh_keys.map(({ login }) => login);
    assert.deepEqual(await isLogin(), [true]);
    await compute.db.tx((tx) => endSessions(tx, eve.userId));
    assert.deepEqual(await isLogin(), [false]);
    // A request that was let in before.
    await refused('unauthorized', mark(compute, eve, id));
    await refused('unauthorized', add(compute, eve));
    await compute.db.run('update users set kept_session = $2 where id = $1', [eve.userId, eve.tokenId]);
    assert.equal((await mark(compute, eve, id)).login, true, 'the session that ended the others goes on');
    const entries = await readAudit(compute.db, { username: 'eve', action: 'ssh_key.login', limit: 10 });
    assert.deepEqual(entries.map(({ detail }) => detail.login).filter((login) => login === true).length, 2);
  });
});

test('the limit of three containers is held by the database, whoever writes', async (t) => {
  const compute = await openCompute(t);
  const add = (i: number) =>
    compute.db.tx((tx) =>
      insertContainer(tx, {
        ...{
          id: `a${String(i).padStart(11, '0')}`,
          userId: ann.userId,
          name: 'x',
          instanceType: 'nano',
          memoryMb: 128,
        },
        ...{ storageGb: 1, image: null, pullPolicy: 'IfNotPresent', mountPaths: ['/root'], sshEnabled: false },
      }),
    );
  const results = await Promise.allSettled(Array.from({ length: 12 }, (_, i) => add(i)));
  for (const result of results) {
    // The loser of a race for one slot is told so, or its transaction is void.
    if (result.status === 'rejected') assert.ok(result.reason instanceof StorageError);
  }
  for (let i = 12; i < 16; i++) await add(i);
  assert.equal(await compute.db.run('select from containers where user_id = $1', [ann.userId]), 3);
});
