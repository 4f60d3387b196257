import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { SignJWT } from 'jose';
import { webauthnStates } from '../../actors/auth/login/webauthn-state-token.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import { createToken } from '../../proto/auth/api-tokens.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { beginAddKey, beginKeyLogin, deleteKey, securityKeyEndpoints } from '../../proto/auth/security-keys.ts';
import { CHALLENGE_SECONDS } from '../../proto/auth/tokens.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import type { HttpReply } from '../../proto/ports/http.ts';
import { tokenDirectory } from '../../storage/auth/token-directory.ts';
import { api } from '../../transports/api/api.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import { SoftKey } from '../support/auth/authenticator.ts';
import {
  addKey,
  authWithKey,
  beginLogin,
  challengedCaller,
  challengeToken,
  enterWithKey,
  entries,
  finishAdd,
  finishLogin,
} from '../support/auth/second-factor.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { SECRET } from '../support/service/node.ts';

failOnLeaks();

describe('a challenge token', () => {
  test('begins one login, within five minutes', async (t) => {
    const { auth, key } = await authWithKey(t);
    const caller = await challengedCaller(auth);
    const tries = await Promise.allSettled(Array.from({ length: 5 }, () => auth.call(beginKeyLogin, caller)));
    assert.equal(tries.filter(({ status }) => status === 'fulfilled').length, 1);
    await refused('unauthorized', auth.call(beginKeyLogin, caller));
    const late = await challengeToken(auth);
    auth.clock.advance((CHALLENGE_SECONDS + 1) * 1000);
    assert.equal(await auth.prove(late), undefined);
    await enterWithKey(auth, key);
  });

  test('of somebody whose keys are all gone begins nothing: the password is enough again', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const caller = await challengedCaller(auth);
    await auth.call(deleteKey, ann, { body: { id: key.id } });
    const refusal = await refused('unauthorized', auth.call(beginKeyLogin, caller));
    assert.match(refusal.message, /log in again/);
    await auth.enter('ann');
  });

  test('opens nothing but that, and nothing else opens that', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const scopes = { [`compute.${ann.userId}`]: ['read'] };
    const { token: apiToken } = await auth.call(createToken, ann, { body: { name: 'robot', scopes } });
    const { options, state } = await beginLogin(auth);
    const { token: sessionToken } = await finishLogin(auth, state, key.get(options));
    const { state: open } = await beginLogin(auth);
    const streams = new OpenStreams(tokenDirectory(auth.db), silentLog);
    t.after(() => streams.close());
    const parts = { authenticate: auth.prove, streams, pages: new Map(), log: silentLog };
    const { onRequest } = api({ service: auth.service, ...parts });
    const status = async (endpoint: AnyEndpoint, token: string): Promise<number> => {
      const reply: HttpReply = await onRequest({
        ...{ method: endpoint.method, path: endpoint.path.replaceAll(/\{.*?\}/g, 'aaaaaaaaaaaa'), query: '' },
        header: (name) => (name === 'authorization' ? `Bearer ${token}` : undefined),
        ...{
          remoteAddress: '192.0.2.1',
          stream: () => Readable.from([]),
          body: async () => Buffer.from('{}'),
          signal: AbortSignal.abort(),
        },
      });
      return reply.status;
    };

    const challenge = await challengeToken(auth);
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
  test('of one ceremony is none of the other', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const adding = await auth.call(beginAddKey, ann);
    await refused('invalid_credential', finishLogin(auth, adding.state, key.get(adding.options)));
    const login = await beginLogin(auth);
    await refused('invalid_request', finishAdd(auth, ann, login.state, new SoftKey().create(login.options)));
    // Neither was spent by the attempt.
    await finishLogin(auth, login.state, key.get(login.options));
    await finishAdd(auth, ann, adding.state, new SoftKey().create(adding.options));
  });

  test('of another user opens nothing for whoever has only a key of their own', async (t) => {
    const { auth, key } = await authWithKey(t);
    await addUser(auth.outside, 'bob', PASSWORD);
    const bobs = new SoftKey();
    await addKey(auth, await auth.enter('bob'), bobs);
    const [anns, own] = [await beginLogin(auth), await beginLogin(auth, 'bob')];
    // Ann's key over Bob's state, and Bob's over Ann's.
    await refused('invalid_credential', finishLogin(auth, own.state, key.get(own.options)));
    await refused('invalid_credential', finishLogin(auth, anns.state, bobs.get(anns.options)));
  });

  test('ends after five minutes', async (t) => {
    const { auth, key } = await authWithKey(t);
    const { options, state } = await beginLogin(auth);
    auth.clock.advance((CHALLENGE_SECONDS + 1) * 1000);
    await refused('invalid_credential', finishLogin(auth, state, key.get(options)));
    await enterWithKey(auth, key);
  });

  test('is only what this platform signed as one, for its own RP id', async (t) => {
    const { auth, ann, key } = await authWithKey(t);
    const { options, state } = await beginLogin(auth);
    const challenge = options.challenge;
    const [header = '', payload = '', signature = ''] = state.split('.');
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
    assert.deepEqual(Object.keys(claims).sort(), ['aud', 'epoch', 'exp', 'iat', 'jti', 'purpose', 'sub']);
    const sign = (head: object, secret = SECRET) => {
      const text = `${encode(head)}.${payload}`;
      return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
    };
    const signed = (change: object) =>
      new SignJWT({ ...claims, ...change })
        .setProtectedHeader({ alg: 'HS256', typ: 'wa-state' })
        .sign(Buffer.from(SECRET));
    const scopes = { [`compute.${ann.userId}`]: ['read'] };
    const { token: apiToken } = await auth.call(createToken, ann, { body: { name: 'robot', scopes } });
    const forged: Record<string, string> = {
      'another secret': sign({ alg: 'HS256', typ: 'wa-state' }, 'another secret of 32 bytes or more'),
      'no signature': `${header}.${payload}.`,
      'alg none': `${encode({ alg: 'none', typ: 'wa-state' })}.${payload}.`,
      'another typ': sign({ alg: 'HS256', typ: 'JWT' }),
      'no typ': sign({ alg: 'HS256' }),
      'another algorithm': sign({ alg: 'HS512', typ: 'wa-state' }),
      'changed claims': `${header}.${encode({ ...claims, sub: 'aaaaaaaaaaaa' })}.${signature}`,
      'another RP id': (await webauthnStates(SECRET, 'other.test', auth.clock).issue('login', ann.userId)).state,
      'no RP id': await signed({ aud: undefined }),
      'no end': await signed({ exp: undefined }),
      'an end that is text': await signed({ exp: '9999999999' }),
      'no user': await signed({ sub: undefined }),
      'no purpose': await signed({ purpose: undefined }),
      'an unknown purpose': await signed({ purpose: 'anything' }),
      'a challenge of one letter': await signed({ jti: 'x' }),
      'an API token': apiToken,
      'a challenge token': await challengeToken(auth),
      'five parts': `${state}.x.x`,
      rubbish: 'x',
    };
    for (const [name, text] of Object.entries(forged)) {
      await refused('invalid_credential', finishLogin(auth, text, key.get({ challenge }))).catch((error: unknown) => {
        throw new Error(name, { cause: error });
      });
    }
    // None of them got as far as the key.
    assert.deepEqual(await entries(auth, 'login.refused'), []);
    await finishLogin(auth, state, key.get(options));
    const another = await beginLogin(auth);
    const nobodys = await webauthnStates(SECRET, 'troupe.test', auth.clock).issue('login', 'aaaaaaaaaaaa');
    await refused('invalid_credential', finishLogin(auth, nobodys.state, key.get(nobodys)));
    await finishLogin(auth, another.state, key.get(another.options));
  });
});
