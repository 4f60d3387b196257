import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { describe, test } from 'node:test';
import { SignJWT } from 'jose';
import type { KeyProblem } from '../../actors/auth/ceremonies.ts';
import { addUser } from '../../actors/auth/users.ts';
import { webauthnStates } from '../../actors/auth/webauthn-states.ts';
import { createToken } from '../../proto/api-tokens.ts';
import { authEndpoints, listSessions, session } from '../../proto/auth.ts';
import type { AnyEndpoint, Caller } from '../../proto/endpoint.ts';
import type { HttpReply } from '../../proto/http.ts';
import {
  beginAddKey,
  beginKeyLogin,
  deleteKey,
  finishKeyLogin,
  listKeys,
  securityKeyEndpoints,
} from '../../proto/security-keys.ts';
import { CHALLENGE_SECONDS } from '../../proto/tokens.ts';
import { advanceCounter, securityKey } from '../../storage/auth/security-keys.ts';
import { tokenDirectory } from '../../storage/auth/token-directory.ts';
import { StorageError } from '../../storage/errors.ts';
import { api } from '../../transports/api/api.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import { refused } from '../compute/kit/world.ts';
import { silentLog } from '../kit/database.ts';
import { failOnLeaks } from '../kit/leaks.ts';
import { FLAGS, SoftKey, type Wrong } from './kit/authenticator.ts';
import { type House, openHouse, PASSWORD, SECRET } from './kit/house.ts';
import {
  addKey,
  beginLogin,
  challengedCaller,
  challengeToken,
  enterWithKey,
  entries,
  finishAdd,
  finishLogin,
  lastReason,
} from './kit/second-factor.ts';

failOnLeaks();

/** A house where Ann has a key. */
async function houseWithKey(t: Parameters<typeof openHouse>[0], key = new SoftKey()) {
  const house = await openHouse(t);
  const ann = await house.enter('ann');
  await addKey(house, ann, key, 'blue one');
  return { house, ann, key };
}

const records = async (house: House, caller: Caller) => (await house.call(listSessions, caller)).length;

describe('a login with a security key', () => {
  test('asks for the key after the password, and begins a session only after both', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const before = await records(house, ann);
    const challenged = await challengedCaller(house);
    assert.deepEqual([challenged.kind, challenged.userId, challenged.isAdmin], ['challenge', ann.userId, false]);
    const begun = await house.call(beginKeyLogin, challenged);
    assert.deepEqual(Object.keys(begun).sort(), ['options', 'state']);
    const { challenge, ...rest } = begun.options;
    assert.equal(Buffer.from(challenge, 'base64url').byteLength, 32);
    const allowCredentials = [{ id: key.id, type: 'public-key', transports: ['nfc', 'usb'] }];
    assert.deepEqual(rest, { timeout: 60_000, rpId: 'troupe.test', allowCredentials });
    assert.equal(await records(house, ann), before);

    const reply = await finishLogin(house, begun.state, key.get(begun.options));
    assert.deepEqual(
      { ...reply, token: '' },
      { username: 'ann', display_name: 'ann', user_id: ann.userId, is_admin: false, token: '' },
    );
    const caller = await house.prove(reply.token);
    assert.equal(caller?.kind, 'session');
    assert.equal((await house.call(session, caller)).username, 'ann');
    assert.equal(await records(house, ann), before + 1);
  });

  test('is written down with the factor that was proven last', async (t) => {
    const { house, key } = await houseWithKey(t);
    await enterWithKey(house, key);
    const of = { username: 'ann', address: '192.0.2.1', target: '' };
    assert.deepEqual(await entries(house, 'login'), [
      { ...of, detail: { factor: 'password' } },
      { ...of, detail: { factor: 'security_key', key: key.id } },
    ]);
    const lines = house.log.lines.map(({ message }) => message);
    assert.deepEqual(
      lines.filter((message) => /logged in|factor/.test(message)),
      [...['logged in', 'second factor asked for', 'logged in']],
    );
  });

  test('of the administrator says so', async (t) => {
    const { house } = await houseWithKey(t);
    await addUser(house.outside, 'admin', PASSWORD);
    const key = new SoftKey({ algorithm: 'EdDSA' });
    await addKey(house, await house.enter('admin'), key);
    assert.equal((await enterWithKey(house, key, 'admin')).isAdmin, true);
  });

  test('takes any of the keys, and none any more once the last is deleted', async (t) => {
    const { house, ann, key: first } = await houseWithKey(t);
    const second = new SoftKey({ verifies: true });
    await addKey(house, ann, second);
    await enterWithKey(house, first);
    await enterWithKey(house, second);
    await house.call(deleteKey, ann, { body: { id: first.id } });
    assert.deepEqual(
      (await beginLogin(house)).options.allowCredentials.map(({ id }) => id),
      [second.id],
    );
    await house.call(deleteKey, ann, { body: { id: second.id } });
    await house.enter('ann');
    assert.deepEqual((await entries(house, 'login')).at(-1)?.detail, { factor: 'password' });
  });

  test('is not begun with a wrong password', async (t) => {
    const { house } = await houseWithKey(t);
    await refused('invalid_credentials', house.login('ann', 'wrong'));
  });

  test('takes a user handle only of the user', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const handle = (text: string) => Buffer.from(text).toString('base64url');
    await enterWithKey(house, key, 'ann', { userHandle: handle(ann.userId) });
    await enterWithKey(house, key, 'ann', { userHandle: '' });
    const { options, state } = await beginLogin(house);
    const other = key.get(options, { userHandle: handle('aaaaaaaaaaaa') });
    await refused('invalid_credential', finishLogin(house, state, other));
    assert.equal(lastReason(house), 'second factor refused: user_handle');
  });
});

describe('what a key signed', () => {
  test('is refused when anything of it is not as asked for (A10)', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const before = await records(house, ann);
    const wrongs: Record<string, [KeyProblem, Wrong]> = {
      'another origin': ['origin', { origin: 'https://evil-troupe.test' }],
      'a suffix of ours': ['origin', { origin: 'https://troupe.test.evil.test' }],
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
      const { options, state } = await beginLogin(house);
      await refused('invalid_credential', finishLogin(house, state, key.get(options, wrong)));
      assert.equal(lastReason(house), `second factor refused: ${reason}`, name);
    }
    assert.equal(await records(house, ann), before);
    assert.deepEqual(
      (await entries(house, 'login.refuse')).map(({ detail }) => detail),
      Object.values(wrongs).map(([reason]) => ({ factor: 'security_key', reason })),
    );
    await enterWithKey(house, key);
  });

  test('is refused when its signature is another’s, or changed by one bit', async (t) => {
    const { house, key } = await houseWithKey(t);
    const impostor = new SoftKey({ id: Buffer.from(key.id, 'base64url') });
    impostor.counter = 100;
    const first = await beginLogin(house);
    await refused('invalid_credential', finishLogin(house, first.state, impostor.get(first.options)));
    assert.equal(lastReason(house), 'second factor refused: signature');
    for (const field of ['signature', 'authenticatorData', 'clientDataJSON'] as const) {
      const { options, state } = await beginLogin(house);
      const { response, ...rest } = key.get(options);
      const bytes = Buffer.from(response[field], 'base64url');
      // The last bytes: of the signature itself, of the counter, of the client data's end.
      bytes.writeUInt8((bytes.at(-2) ?? 0) ^ 1, bytes.byteLength - 2);
      const changed = { ...rest, response: { ...response, [field]: bytes.toString('base64url') } };
      await refused('invalid_credential', finishLogin(house, state, changed));
    }
    await enterWithKey(house, key);
  });

  test('counts once: neither the state nor the answer is taken again (A10)', async (t) => {
    const { house, key } = await houseWithKey(t, new SoftKey({ counts: false }));
    const { options, state } = await beginLogin(house);
    const answer = key.get(options);
    await finishLogin(house, state, answer);
    await refused('invalid_credential', finishLogin(house, state, answer));
    await refused('invalid_credential', finishLogin(house, state, key.get(options)));
    const next = await beginLogin(house);
    await refused('invalid_credential', finishLogin(house, next.state, answer));
    assert.equal(lastReason(house), 'second factor refused: verification');
    // And the state of a failed try is spent.
    await refused('invalid_credential', finishLogin(house, next.state, key.get(next.options)));
  });

  test('with a check of the user is asked for from keys that were made with one (A10)', async (t) => {
    const { house, ann, key } = await houseWithKey(t, new SoftKey({ verifies: true }));
    const { options, state } = await beginLogin(house);
    await refused('invalid_credential', finishLogin(house, state, key.get(options, { flags: FLAGS.present })));
    assert.equal(lastReason(house), 'second factor refused: verification');
    await enterWithKey(house, key);
    const plain = new SoftKey();
    await addKey(house, ann, plain);
    await enterWithKey(house, plain);
    await enterWithKey(house, plain, 'ann', { flags: FLAGS.present | FLAGS.verified });
  });

  test('must have a counter that rises, unless the key does not count (A10)', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    key.counter = 40;
    await enterWithKey(house, key);
    for (const counter of [40, 0]) {
      key.counter = counter;
      const { options, state } = await beginLogin(house);
      await refused('invalid_credential', finishLogin(house, state, key.get(options)));
      assert.equal(lastReason(house), 'second factor refused: counter');
    }
    key.counter = 4_294_967_294;
    await enterWithKey(house, key);
    assert.equal((await securityKey(house.db, ann.userId, key.id))?.counter, 4_294_967_295);

    const counterless = new SoftKey({ counts: false });
    await addKey(house, ann, counterless);
    await enterWithKey(house, counterless);
    await enterWithKey(house, counterless);
  });

  test('at the same time with the same counter opens one door', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const before = await records(house, ann);
    const begun = [];
    for (let i = 0; i < 6; i++) begun.push(await beginLogin(house));
    const tries = await Promise.allSettled(
      begun.map(({ options, state }) => finishLogin(house, state, key.get(options, { counter: 7 }))),
    );
    assert.equal(tries.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const result of tries)
      if (result.status === 'rejected') assert.equal(result.reason.code, 'invalid_credential');
    assert.equal(await records(house, ann), before + 1);
    // The statement itself: who read an old counter writes nothing.
    assert.equal(await advanceCounter(house.db, key.id, 6, 8), false);
    assert.equal(await advanceCounter(house.db, key.id, 7, 8), true);
  });

  test('with a key of somebody else, or of nobody, is refused (A10)', async (t) => {
    const { house } = await houseWithKey(t);
    await addUser(house.outside, 'bob', PASSWORD);
    const bobs = new SoftKey();
    await addKey(house, await house.enter('bob'), bobs);
    for (const key of [bobs, new SoftKey()]) {
      const { options, state } = await beginLogin(house);
      await refused('invalid_credential', finishLogin(house, state, key.get(options)));
      assert.equal(lastReason(house), 'second factor refused: unknown_key');
    }
    await enterWithKey(house, bobs, 'bob');
  });

  test('with a key, or of a user, deleted since the beginning is refused', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const other = new SoftKey();
    await addKey(house, ann, other);
    const first = await beginLogin(house);
    await house.call(deleteKey, ann, { body: { id: key.id } });
    await refused('invalid_credential', finishLogin(house, first.state, key.get(first.options)));
    const second = await beginLogin(house);
    const third = await challengedCaller(house);
    await house.db.run('delete from users where id = $1', [ann.userId]);
    await refused('invalid_credential', finishLogin(house, second.state, other.get(second.options)));
    await refused('unauthorized', house.call(beginKeyLogin, third));
  });

  test('of the wrong shape is refused before anything is spent', async (t) => {
    const { house, key } = await houseWithKey(t);
    const { options, state } = await beginLogin(house);
    const good = key.get(options);
    const { response } = good;
    const credentials = [
      ...[undefined, null, 'x', [], {}, { ...good, id: '' }, { ...good, type: 'x' }, { ...good, response: {} }],
      { ...good, response: { ...response, signature: 'A'.repeat(4097) } },
      { ...good, response: { ...response, authenticatorData: 'A'.repeat(8193) } },
      { ...good, response: { ...response, userHandle: 'A'.repeat(129) } },
    ];
    for (const credential of credentials) {
      const work = (async () => house.call(finishKeyLogin, undefined, { body: { state, credential } }))();
      await refused('invalid_request', work);
    }
    // What else a browser says is not read, however deep it goes.
    let deep: unknown = [];
    for (let i = 0; i < 50_000; i++) deep = [deep];
    await house.call(finishKeyLogin, undefined, {
      body: { state, credential: { ...good, clientExtensionResults: deep } },
    });
  });
});

describe('a challenge token', () => {
  test('begins one login, within five minutes', async (t) => {
    const { house, key } = await houseWithKey(t);
    const caller = await challengedCaller(house);
    const tries = await Promise.allSettled(Array.from({ length: 5 }, () => house.call(beginKeyLogin, caller)));
    assert.equal(tries.filter(({ status }) => status === 'fulfilled').length, 1);
    await refused('unauthorized', house.call(beginKeyLogin, caller));
    const late = await challengeToken(house);
    house.clock.advance((CHALLENGE_SECONDS + 1) * 1000);
    assert.equal(await house.prove(late), undefined);
    await enterWithKey(house, key);
  });

  test('of somebody whose keys are all gone begins nothing: the password is enough again', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const caller = await challengedCaller(house);
    await house.call(deleteKey, ann, { body: { id: key.id } });
    const refusal = await refused('unauthorized', house.call(beginKeyLogin, caller));
    assert.match(refusal.message, /log in again/);
    await house.enter('ann');
  });

  test('opens nothing but that, and nothing else opens that', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const scopes = { [`compute.${ann.userId}`]: ['read'] };
    const { token: apiToken } = await house.call(createToken, ann, { body: { name: 'robot', scopes } });
    const { options, state } = await beginLogin(house);
    const { token: sessionToken } = await finishLogin(house, state, key.get(options));
    const { state: open } = await beginLogin(house);
    const streams = new OpenStreams(tokenDirectory(house.db), silentLog);
    t.after(() => streams.close());
    const parts = { authenticate: house.prove, streams, pages: new Map(), log: silentLog };
    const { onRequest } = api({ service: house.service, ...parts });
    const status = async (endpoint: AnyEndpoint, token: string): Promise<number> => {
      const reply: HttpReply = await onRequest({
        ...{ method: endpoint.method, path: endpoint.path.replaceAll(/\{.*?\}/g, 'aaaaaaaaaaaa'), query: '' },
        header: (name) => (name === 'authorization' ? `Bearer ${token}` : undefined),
        ...{ remoteAddress: '192.0.2.1', body: async () => Buffer.from('{}'), signal: AbortSignal.abort() },
      });
      return reply.status;
    };

    const challenge = await challengeToken(house);
    const guarded = authEndpoints.filter(({ access }) => access !== 'none');
    assert.ok(guarded.length > 10);
    for (const endpoint of guarded) {
      // A state is no token at all.
      assert.equal(await status(endpoint, open), 401, `${endpoint.name} with a state`);
      if (endpoint.access === 'challenge') continue;
      assert.equal(await status(endpoint, challenge), 401, `${endpoint.name} with a challenge token`);
    }
    assert.equal(await status(beginKeyLogin, sessionToken), 401);
    assert.equal(await status(beginKeyLogin, apiToken), 401);
    assert.equal(await status(beginKeyLogin, challenge), 200);
    assert.equal(await status(beginKeyLogin, challenge), 401);
    // Keys are a person's: no API token touches them.
    for (const endpoint of securityKeyEndpoints.filter(({ access }) => access === 'session')) {
      assert.equal(await status(endpoint, apiToken), 403, endpoint.name);
    }
  });
});

describe('a state', () => {
  test('of one ceremony is none of the other (A10)', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const adding = await house.call(beginAddKey, ann);
    await refused('invalid_credential', finishLogin(house, adding.state, key.get(adding.options)));
    const login = await beginLogin(house);
    await refused('invalid_request', finishAdd(house, ann, login.state, new SoftKey().create(login.options)));
    // Neither was spent by the attempt.
    await finishLogin(house, login.state, key.get(login.options));
    await finishAdd(house, ann, adding.state, new SoftKey().create(adding.options));
  });

  test('of another user opens nothing for whoever has only a key of their own', async (t) => {
    const { house, key } = await houseWithKey(t);
    await addUser(house.outside, 'bob', PASSWORD);
    const bobs = new SoftKey();
    await addKey(house, await house.enter('bob'), bobs);
    const [anns, own] = [await beginLogin(house), await beginLogin(house, 'bob')];
    // Ann's key over Bob's state, and Bob's over Ann's.
    await refused('invalid_credential', finishLogin(house, own.state, key.get(own.options)));
    await refused('invalid_credential', finishLogin(house, anns.state, bobs.get(anns.options)));
  });

  test('ends after five minutes', async (t) => {
    const { house, key } = await houseWithKey(t);
    const { options, state } = await beginLogin(house);
    house.clock.advance((CHALLENGE_SECONDS + 1) * 1000);
    await refused('invalid_credential', finishLogin(house, state, key.get(options)));
    await enterWithKey(house, key);
  });

  test('is only what this platform signed as one, for its own RP id (A01, A05)', async (t) => {
    const { house, ann, key } = await houseWithKey(t);
    const { options, state } = await beginLogin(house);
    const challenge = options.challenge;
    const [header = '', payload = '', signature = ''] = state.split('.');
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
    assert.deepEqual(Object.keys(claims).sort(), ['aud', 'exp', 'iat', 'jti', 'purpose', 'sub']);
    const sign = (head: object, secret = SECRET) => {
      const text = `${encode(head)}.${payload}`;
      return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
    };
    const signed = (change: object) =>
      new SignJWT({ ...claims, ...change })
        .setProtectedHeader({ alg: 'HS256', typ: 'wa-state' })
        .sign(Buffer.from(SECRET));
    const scopes = { [`compute.${ann.userId}`]: ['read'] };
    const { token: apiToken } = await house.call(createToken, ann, { body: { name: 'robot', scopes } });
    const forged: Record<string, string> = {
      'another secret': sign({ alg: 'HS256', typ: 'wa-state' }, 'another secret of 32 bytes or more'),
      'no signature': `${header}.${payload}.`,
      'alg none': `${encode({ alg: 'none', typ: 'wa-state' })}.${payload}.`,
      'another typ': sign({ alg: 'HS256', typ: 'JWT' }),
      'no typ': sign({ alg: 'HS256' }),
      'another algorithm': sign({ alg: 'HS512', typ: 'wa-state' }),
      'changed claims': `${header}.${encode({ ...claims, sub: 'aaaaaaaaaaaa' })}.${signature}`,
      'another RP id': (await webauthnStates(SECRET, 'other.test', house.clock).issue('login', ann.userId)).state,
      'no RP id': await signed({ aud: undefined }),
      'no end': await signed({ exp: undefined }),
      'an end that is text': await signed({ exp: '9999999999' }),
      'no user': await signed({ sub: undefined }),
      'no purpose': await signed({ purpose: undefined }),
      'an unknown purpose': await signed({ purpose: 'anything' }),
      'a challenge of one letter': await signed({ jti: 'x' }),
      'an API token': apiToken,
      'a challenge token': await challengeToken(house),
      'five parts': `${state}.x.x`,
      rubbish: 'x',
    };
    for (const [name, text] of Object.entries(forged)) {
      await refused('invalid_credential', finishLogin(house, text, key.get({ challenge }))).catch((error: unknown) => {
        throw new Error(name, { cause: error });
      });
    }
    // None of them got as far as the key.
    assert.deepEqual(await entries(house, 'login.refuse'), []);
    await finishLogin(house, state, key.get(options));
    const another = await beginLogin(house);
    const nobodys = await webauthnStates(SECRET, 'troupe.test', house.clock).issue('login', 'aaaaaaaaaaaa');
    await refused('invalid_credential', finishLogin(house, nobodys.state, key.get(nobodys)));
    await finishLogin(house, another.state, key.get(another.options));
  });
});

test('with the database away nothing is decided, and nobody gets in', async (t) => {
  const { house, ann, key } = await houseWithKey(t);
  const caller = await challengedCaller(house);
  const { options, state } = await beginLogin(house);
  house.db.failure = new StorageError('unavailable', 'gone');
  await refused('unavailable', house.call(beginKeyLogin, caller));
  await refused('unavailable', finishLogin(house, state, key.get(options)));
  await refused('unavailable', house.call(listKeys, ann));
  house.db.failure = undefined;
  await finishLogin(house, state, key.get(options));
});
