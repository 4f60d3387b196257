import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KeyProblem } from '../../actors/auth/login/webauthn-rules.ts';
import { addUser, forgetKeys } from '../../actors/auth/users/users.ts';
import { listSessions, session } from '../../proto/auth/endpoints.ts';
import { beginKeyLogin, deleteKey, finishKeyLogin, listKeys } from '../../proto/auth/security-keys.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { advanceCounter, findSecurityKey } from '../../storage/auth/security-keys.ts';
import { StorageError } from '../../storage/errors.ts';
import { FLAGS, SoftKey, type Wrong } from '../support/auth/authenticator.ts';
import {
  addKey,
  authWithKey,
  beginLogin,
  challengedCaller,
  enterWithKey,
  entries,
  finishLogin,
  lastReason,
} from '../support/auth/second-factor.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type AuthUnderTest, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';

failOnLeaks();

const records = async (auth: AuthUnderTest, caller: Caller) => (await auth.call(listSessions, caller)).length;

describe('a login with a security key', () => {
  test('asks for the key after the password, and begins a session only after both', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const before = await records(auth, ann);
    const challenged = await challengedCaller(auth);
    assert.deepEqual([challenged.kind, challenged.userId, challenged.isAdmin], ['challenge', ann.userId, false]);
    const begun = await auth.call(beginKeyLogin, challenged);
    assert.deepEqual(Object.keys(begun).sort(), ['options', 'state']);
    const { challenge, ...rest } = begun.options;
    assert.equal(Buffer.from(challenge, 'base64url').byteLength, 32);
    const allowCredentials = [{ id: key.id, type: 'public-key', transports: ['nfc', 'usb'] }];
    assert.deepEqual(rest, { timeout: 60_000, rpId: 'troupe.test', allowCredentials });
    assert.equal(await records(auth, ann), before);

    const reply = await finishLogin(auth, begun.state, key.get(begun.options));
    assert.deepEqual(
      { ...reply, token: '' },
      { username: 'ann', display_name: 'ann', user_id: ann.userId, is_admin: false, token: '' },
    );
    const caller = await auth.prove(reply.token);
    assert.equal(caller?.kind, 'session');
    assert.equal((await auth.call(session, caller)).username, 'ann');
    assert.equal(await records(auth, ann), before + 1);
  });

  test('is written down with the factor that was proven last', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    await enterWithKey(auth, key);
    const of = { username: 'ann', address: '192.0.2.1', target: ann.userId };
    assert.deepEqual(await entries(auth, 'login'), [
      { ...of, detail: { factor: 'password' } },
      { ...of, detail: { factor: 'security_key', key: key.id } },
    ]);
    const lines = auth.log.lines.map(({ message }) => message);
    assert.deepEqual(
      lines.filter((message) => /logged in|factor/.test(message)),
      [...['logged in', 'second factor asked for', 'logged in']],
    );
  });

  test('of the administrator says so', async (t) => {
    const { auth } = await authWithKey(t);
    await addUser(auth.outside, 'admin', PASSWORD);
    const key = new SoftKey({ algorithm: 'EdDSA' });
    await addKey(auth, await auth.enter('admin'), key);
    assert.equal((await enterWithKey(auth, key, 'admin')).isAdmin, true);
  });

  test('takes any of the keys, and none any more once the last is deleted', async (t) => {
    const { auth, ann, key: first } = await authWithKey(t);
    const second = new SoftKey({ verifies: true });
    await addKey(auth, ann, second);
    await enterWithKey(auth, first);
    await enterWithKey(auth, second);
    await auth.call(deleteKey, ann, { body: { id: first.id } });
    assert.deepEqual(
      (await beginLogin(auth)).options.allowCredentials.map(({ id }) => id),
      [second.id],
    );
    await auth.call(deleteKey, ann, { body: { id: second.id } });
    await auth.enter('ann');
    assert.deepEqual((await entries(auth, 'login')).at(-1)?.detail, { factor: 'password' });
  });

  test('is no longer needed once an operator has deleted lost keys', async (t) => {
    const { auth, ann } = await authWithKey(t);
    await addKey(auth, ann, new SoftKey());
    assert.equal(await forgetKeys(auth.outside, 'ann'), 2);
    await auth.enter('ann');
    assert.equal(await forgetKeys(auth.outside, 'ann'), 0);
    await refused('not_found', forgetKeys(auth.outside, 'nobody'));
    const of = { username: 'operator', address: '', target: 'ann' };
    assert.deepEqual(await entries(auth, 'security_key.forget'), [
      ...[
        { ...of, detail: { keys: 2 } },
        { ...of, detail: { keys: 0 } },
      ],
    ]);
  });

  test('is not begun with a wrong password', async (t) => {
    const { auth } = await authWithKey(t);
    await refused('invalid_credentials', auth.login('ann', 'wrong'));
  });

  test('takes a user handle only of the user', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const handle = (text: string) => Buffer.from(text).toString('base64url');
    await enterWithKey(auth, key, 'ann', { userHandle: handle(ann.userId) });
    await enterWithKey(auth, key, 'ann', { userHandle: '' });
    const { options, state } = await beginLogin(auth);
    const other = key.get(options, { userHandle: handle('aaaaaaaaaaaa') });
    await refused('invalid_credential', finishLogin(auth, state, other));
    assert.equal(lastReason(auth), 'second factor refused: user_handle');
  });
});

describe('what a key signed', () => {
  test('is refused when anything of it is not as asked for', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const before = await records(auth, ann);
    const wrongs: Record<string, [KeyProblem, Wrong]> = {
      'another origin': ['origin', { origin: 'https://evil-troupe.test' }],
      'a suffix of ours': ['origin', { origin: 'https://troupe.test.evil.test' }],
      'a page of a container': ['origin', { origin: 'https://abcdefghijkl.compute.troupe.test' }],
      'no origin': ['origin', { origin: 'null' }],
      'plain HTTP': ['origin', { origin: 'http://console.troupe.test' }],
      'a page within a page': ['origin', { clientData: { crossOrigin: true } }],
      'another RP id': ['verification', { rpId: 'evil.test' }],
      'another challenge': ['verification', { challenge: Buffer.alloc(32).toString('base64url') }],
      'made, not used': ['verification', { type: 'webauthn.create' }],
      'nobody present': ['verification', { flags: 0 }],
      'extensions that are not there': ['verification', { flags: FLAGS.present | 0x80 }],
      'the counter of before': ['counter', { counter: 1 }],
      'a counter of zero': ['counter', { counter: 0 }],
    };
    for (const [name, [reason, wrong]] of Object.entries(wrongs)) {
      const { options, state } = await beginLogin(auth);
      await refused('invalid_credential', finishLogin(auth, state, key.get(options, wrong)));
      assert.equal(lastReason(auth), `second factor refused: ${reason}`, name);
    }
    assert.equal(await records(auth, ann), before);
    assert.deepEqual(
      (await entries(auth, 'login.refused')).map(({ detail }) => detail),
      Object.values(wrongs).map(([reason]) => ({ factor: 'security_key', reason })),
    );
    await enterWithKey(auth, key);
  });

  test('is refused when its signature is another’s, or changed by one bit', async (t) => {
    const { auth, key } = await authWithKey(t);
    const impostor = new SoftKey({ id: Buffer.from(key.id, 'base64url') });
    impostor.counter = 100;
    const first = await beginLogin(auth);
    await refused('invalid_credential', finishLogin(auth, first.state, impostor.get(first.options)));
    assert.equal(lastReason(auth), 'second factor refused: signature');
    for (const field of ['signature', 'authenticatorData', 'clientDataJSON'] as const) {
      const { options, state } = await beginLogin(auth);
      const { response, ...rest } = key.get(options);
      const bytes = Buffer.from(response[field], 'base64url');
      // The last bytes: of the signature itself, of the counter, of the client data's end.
      bytes.writeUInt8((bytes.at(-2) ?? 0) ^ 1, bytes.byteLength - 2);
      const changed = { ...rest, response: { ...response, [field]: bytes.toString('base64url') } };
      await refused('invalid_credential', finishLogin(auth, state, changed));
    }
    await enterWithKey(auth, key);
  });

  test('counts once: neither the state nor the answer is taken again', async (t) => {
    const { auth, key } = await authWithKey(t, new SoftKey({ counts: false }));
    const { options, state } = await beginLogin(auth);
    const answer = key.get(options);
    await finishLogin(auth, state, answer);
    await refused('invalid_credential', finishLogin(auth, state, answer));
    await refused('invalid_credential', finishLogin(auth, state, key.get(options)));
    const next = await beginLogin(auth);
    await refused('invalid_credential', finishLogin(auth, next.state, answer));
    assert.equal(lastReason(auth), 'second factor refused: verification');
    // And the state of a failed try is spent.
    await refused('invalid_credential', finishLogin(auth, next.state, key.get(next.options)));
  });

  test('with a check of the user is asked for from keys that were made with one', async (t) => {
    const { auth, ann, key } = await authWithKey(t, new SoftKey({ verifies: true }));
    const { options, state } = await beginLogin(auth);
    await refused('invalid_credential', finishLogin(auth, state, key.get(options, { flags: FLAGS.present })));
    assert.equal(lastReason(auth), 'second factor refused: verification');
    await enterWithKey(auth, key);
    const plain = new SoftKey();
    await addKey(auth, ann, plain);
    await enterWithKey(auth, plain);
    await enterWithKey(auth, plain, 'ann', { flags: FLAGS.present | FLAGS.verified });
  });

  test('must have a counter that rises, unless the key does not count', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    key.counter = 40;
    await enterWithKey(auth, key);
    for (const counter of [40, 0]) {
      key.counter = counter;
      const { options, state } = await beginLogin(auth);
      await refused('invalid_credential', finishLogin(auth, state, key.get(options)));
      assert.equal(lastReason(auth), 'second factor refused: counter');
    }
    key.counter = 4_294_967_294;
    await enterWithKey(auth, key);
    assert.equal((await findSecurityKey(auth.db, ann.userId, key.id))?.counter, 4_294_967_295);

    const counterless = new SoftKey({ counts: false });
    await addKey(auth, ann, counterless);
    await enterWithKey(auth, counterless);
    await enterWithKey(auth, counterless);
  });

  test('at the same time with the same counter lets one in', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const before = await records(auth, ann);
    const begun = [];
    for (let i = 0; i < 6; i++) begun.push(await beginLogin(auth));
    const tries = await Promise.allSettled(
      begun.map(({ options, state }) => finishLogin(auth, state, key.get(options, { counter: 7 }))),
    );
    assert.equal(tries.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const result of tries)
      if (result.status === 'rejected') assert.equal(result.reason.code, 'invalid_credential');
    assert.equal(await records(auth, ann), before + 1);
    // The statement itself: who read an old counter writes nothing.
    const of = { userId: ann.userId, id: key.id, to: 8 };
    assert.equal(await advanceCounter(auth.db, { ...of, from: 6 }), false);
    assert.equal(await advanceCounter(auth.db, { ...of, from: 7 }), true);
  });

  test('with a key of somebody else, or of nobody, is refused', async (t) => {
    const { auth } = await authWithKey(t);
    await addUser(auth.outside, 'bob', PASSWORD);
    const bobs = new SoftKey();
    await addKey(auth, await auth.enter('bob'), bobs);
    for (const key of [bobs, new SoftKey()]) {
      const { options, state } = await beginLogin(auth);
      await refused('invalid_credential', finishLogin(auth, state, key.get(options)));
      assert.equal(lastReason(auth), 'second factor refused: unknown_key');
    }
    await enterWithKey(auth, bobs, 'bob');
  });

  test('with a key, or of a user, deleted since the beginning is refused', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const other = new SoftKey();
    await addKey(auth, ann, other);
    const first = await beginLogin(auth);
    await auth.call(deleteKey, ann, { body: { id: key.id } });
    await refused('invalid_credential', finishLogin(auth, first.state, key.get(first.options)));
    const second = await beginLogin(auth);
    const third = await challengedCaller(auth);
    await auth.db.run('delete from users where id = $1', [ann.userId]);
    await refused('invalid_credential', finishLogin(auth, second.state, other.get(second.options)));
    await refused('unauthorized', auth.call(beginKeyLogin, third));
  });

  test('of the wrong shape is refused before anything is spent', async (t) => {
    const { auth, key } = await authWithKey(t);
    const { options, state } = await beginLogin(auth);
    const good = key.get(options);
    const { response } = good;
    const credentials = [
      ...[undefined, null, 'x', [], {}, { ...good, id: '' }, { ...good, type: 'x' }, { ...good, response: {} }],
      { ...good, response: { ...response, signature: 'A'.repeat(4097) } },
      { ...good, response: { ...response, authenticatorData: 'A'.repeat(8193) } },
      { ...good, response: { ...response, userHandle: 'A'.repeat(129) } },
    ];
    for (const credential of credentials) {
      const work = (async () => auth.call(finishKeyLogin, undefined, { body: { state, credential } }))();
      await refused('invalid_request', work);
    }
    // What else a browser says is not read, however deep it goes.
    let deep: unknown = [];
    for (let i = 0; i < 50_000; i++) deep = [deep];
    await auth.call(finishKeyLogin, undefined, {
      body: { state, credential: { ...good, clientExtensionResults: deep } },
    });
  });
});

test('with the database away nothing is decided, and nobody gets in', async (t) => {
  const { auth, ann, key } = await authWithKey(t);
  const caller = await challengedCaller(auth);
  const { options, state } = await beginLogin(auth);
  auth.db.failure = new StorageError('unavailable', 'gone');
  await refused('unavailable', auth.call(beginKeyLogin, caller));
  await refused('unavailable', finishLogin(auth, state, key.get(options)));
  await refused('unavailable', auth.call(listKeys, ann));
  auth.db.failure = undefined;
  await finishLogin(auth, state, key.get(options));
});
