import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hash } from '@node-rs/argon2';
import { startAuth } from '../../actors/auth/service.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import { login, logout, session } from '../../proto/auth/endpoints.ts';
import { BusError } from '../../proto/ports/bus.ts';
import { rehash, userByName } from '../../storage/auth/users.ts';
import { streamStore } from '../../storage/bus/store.ts';
import { StorageError } from '../../storage/errors.ts';
import { start, stats, stop, stopped } from '../../supervision/index.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { type AuthUnderTest, openAuth, PASSWORD, RELYING_PARTY, unblock } from '../support/service/auth.ts';
import { callFrom, refused } from '../support/service/calls.ts';
import { SECRET } from '../support/service/node.ts';

failOnLeaks();

const hashOf = async (auth: AuthUnderTest, username = 'ann') =>
  (await userByName(auth.db, username))?.passwordHash ?? '';
const setHash = (auth: AuthUnderTest, text: string) =>
  auth.db.run(`update users set password_hash = $1 where username = 'ann'`, [text]);

describe('login', () => {
  test('with the right password gives a token that proves the user', async (t) => {
    const auth = await openAuth(t);
    const reply = await auth.login('ann', PASSWORD);
    assert.deepEqual(Object.keys(reply).sort(), ['display_name', 'is_admin', 'token', 'user_id', 'username']);
    assert.deepEqual([reply.username, reply.display_name, reply.is_admin], ['ann', 'ann', false]);
    const { session: begun, ...caller } = (await auth.prove(reply.token)) ?? {};
    assert.equal(begun?.epoch, 0);
    assert.deepEqual(
      { ...caller, tokenId: '', expiresAt: 0 },
      { kind: 'session', userId: reply.user_id, username: 'ann', isAdmin: false, tokenId: '', expiresAt: 0 },
    );
    auth.clock.advance(3601_000);
    assert.equal(await auth.prove(reply.token), undefined);
  });

  test('of the administrator says so', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'admin', PASSWORD);
    const { is_admin, token } = await auth.login('admin', PASSWORD);
    assert.equal(is_admin, true);
    const caller = await auth.prove(token);
    assert.equal(caller?.isAdmin, true);
    assert.equal((await auth.call(session, caller)).is_admin, true);
  });

  test('with a wrong password, an unknown name and a name nobody can have is refused in the same words', async (t) => {
    const auth = await openAuth(t);
    const attempts: [string, string][] = [
      ...([
        ['ann', 'wrong'],
        ['nobody', PASSWORD],
        ['ANN', PASSWORD],
        ['', ''],
      ] as [string, string][]),
      ...([
        ['a\0b', 'x'],
        ['ann ', PASSWORD],
        ['__proto__', 'x'],
        ['ann', `${PASSWORD}\0`],
      ] as [string, string][]),
      ...([
        ['ä'.repeat(200), 'x'],
        ["' or 1=1 --", 'x'],
        ['ann', 'x'.repeat(1024)],
      ] as [string, string][]),
    ];
    const texts = new Set<string>();
    for (const [i, [username, password]] of attempts.entries()) {
      const refusal = await refused('invalid_credentials', auth.login(username, password, `192.0.2.${i}`));
      texts.add(`${refusal.message} ${refusal.retryAfter ?? ''}`);
    }
    assert.equal(texts.size, 1);
  });

  test('takes Unicode twins of a password for one', async (t) => {
    const auth = await openAuth(t);
    const composed = 'Pässwörd-Ångström';
    await addUser(auth.outside, 'bob', composed.normalize('NFD'));
    await auth.enter('bob', composed.normalize('NFC'));
    await auth.enter('bob', composed.normalize('NFD'));
    await refused('invalid_credentials', auth.login('bob', 'Passwörd-Ångström'));
  });

  test('takes all of a long password into account', async (t) => {
    const auth = await openAuth(t);
    const long = 'a'.repeat(256);
    await addUser(auth.outside, 'bob', long);
    await refused('invalid_credentials', auth.login('bob', `${long.slice(0, -1)}b`));
    await auth.enter('bob', long);
  });

  test('with a malformed hash in the row opens for nobody', async (t) => {
    const auth = await openAuth(t);
    for (const text of ['', 'garbage', '$argon2id$v=19$m=19456,t=2,p=1$', '$2b$10$abcdefghijklmnopqrstuv']) {
      await setHash(auth, text);
      for (const password of [PASSWORD, '', text]) {
        await unblock(auth);
        await refused('invalid_credentials', auth.login('ann', password));
      }
    }
  });

  test('renews a hash that was made with older parameters', async (t) => {
    const auth = await openAuth(t);
    const old = await hash(PASSWORD, { memoryCost: 4096, timeCost: 1, parallelism: 1 });
    await setHash(auth, old);
    await refused('invalid_credentials', auth.login('ann', 'wrong'));
    assert.equal(await hashOf(auth), old);
    await auth.enter('ann');
    const renewed = await hashOf(auth);
    assert.match(renewed, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    await auth.enter('ann');
    assert.equal(await hashOf(auth), renewed);
    // A password changed meanwhile is not undone.
    const user = await userByName(auth.db, 'ann');
    await rehash(auth.db, user?.id ?? '', old, 'other');
    assert.equal(await hashOf(auth), renewed);
  });

  test('is asked for its shape before anything else', async (t) => {
    const auth = await openAuth(t);
    const bodies = [undefined, null, [], 'x', {}, { username: 'ann' }, { username: 'ann', password: 7 }];
    const long = [
      { username: 'a'.repeat(257), password: 'x' },
      { username: 'ann', password: 'x'.repeat(1025) },
    ];
    for (const body of [...bodies, ...long]) {
      await refused('invalid_request', (async () => auth.call(login, undefined, { body }))());
    }
  });

  test('and logout: the token is the client’s to throw away', async (t) => {
    const auth = await openAuth(t);
    assert.deepEqual(await auth.call(logout, undefined), { status: 'ok' });
  });
});

describe('when a part is down', () => {
  test('the database: login and session are refused as unavailable, and health says it', async (t) => {
    const auth = await openAuth(t);
    const caller = await auth.enter('ann');
    auth.db.failure = new StorageError('unavailable', 'gone');
    await refused('unavailable', auth.login('ann', PASSWORD));
    await refused('unavailable', auth.call(session, caller));
    assert.deepEqual(await auth.service.health(), { ok: false, problems: ['database: gone'] });
    auth.db.failure = undefined;
    await auth.enter('ann');
    assert.deepEqual(await auth.service.health(), { ok: true, problems: [] });
  });

  test('more logins at once than can wait are refused as overloaded, and the others are answered', async (t) => {
    const auth = await openAuth(t);
    const count = 1500;
    const results = await Promise.allSettled(
      Array.from({ length: count }, (_, i) => auth.login(`user-${i}`, 'wrong', `198.51.${i % 100}.${i}`)),
    );
    const codes = results.map((result) => (result.status === 'rejected' ? String(result.reason.code) : 'in'));
    assert.deepEqual([...new Set(codes)].sort(), ['invalid_credentials', 'overloaded']);
    // Who was not looked at is not counted.
    const counted = codes.filter((code) => code === 'invalid_credentials').length;
    assert.equal(await auth.db.run(`select from login_attempts where key like 'pair:%' and failures > 0.5`), counted);
    await auth.enter('ann');
  });

  test('one network that brings more than its share is refused as overloaded, and others come in meanwhile', async (t) => {
    const auth = await openAuth(t);
    await auth.enter('ann');
    const flood = Array.from({ length: 400 }, () => auth.login('ann', PASSWORD));
    const settled = Promise.allSettled(flood);
    await auth.login('ann', PASSWORD, '2001:db8::1');
    const codes = (await settled).map((result) => (result.status === 'rejected' ? String(result.reason.code) : 'in'));
    assert.deepEqual([...new Set(codes)].sort(), ['in', 'overloaded']);
    await auth.enter('ann');
  });

  test('the bus: the service does not start, and leaves nothing behind', async (t) => {
    const auth = await openAuth(t);
    const [system, bus] = [start(), embeddedBus({ store: streamStore(auth.outside), log: silentLog })];
    await bus.close();
    const parts = { db: auth.db, bus, placement: auth.placement, log: silentLog, clock: auth.clock, jwtSecret: SECRET };
    const deps = {
      ...parts,
      authenticate: () => undefined,
      tokensChanged: () => {},
      relyingParty: RELYING_PARTY,
      domain: 'troupe.test',
    };
    t.after(async () => {
      stop(system);
      await stopped(system);
    });
    await assert.rejects(startAuth(system, { ...deps, sessionTtlSeconds: 60, adminUsername: 'admin' }), (error) => {
      for (let at: unknown = error; at instanceof Error; at = at.cause) if (at instanceof BusError) return true;
      return false;
    });
    assert.equal(stats(system).kinds['auth/login']?.alive, 0);
  });

  test('the service itself: health says so', async (t) => {
    const auth = await openAuth(t);
    stop(auth.system);
    await stopped(auth.system);
    assert.deepEqual(await auth.service.health(), { ok: false, problems: ['the service has stopped (parent)'] });
    await refused('unavailable', auth.login('ann', PASSWORD));
    await refused('not_found', auth.service.connect(session, callFrom(session, undefined)));
  });
});
