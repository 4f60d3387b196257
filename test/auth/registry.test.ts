/** `GET /v2/token` of the real service, over HTTP. */

import assert from 'node:assert/strict';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { describe, type TestContext, test } from 'node:test';
import { decodeProtectedHeader, jwtVerify } from 'jose';
import { z } from 'zod';
import type { RegistryDeps } from '../../actors/auth/deps.ts';
import { PULL_CREDENTIAL_SECONDS, pullAuth } from '../../actors/auth/registry/pull-credential.ts';
import { keyId, parseRegistryKey, registrySigner } from '../../actors/auth/registry/registry-key.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import {
  createServiceAccount,
  createServiceAccountToken,
  createToken,
  deleteToken,
  setServiceAccountScopes,
} from '../../proto/auth/api-tokens.ts';
import { ownRegistryToken, registryToken, registryUsage } from '../../proto/auth/registry.ts';
import { keyIds } from '../../proto/auth/shared-secret.ts';
import type { Caller } from '../../proto/endpoint.ts';
import type { RegistryRoom } from '../../proto/ports/local-registry.ts';
import { readAudit } from '../../storage/audit.ts';
import { makePublic } from '../../storage/auth/repositories.ts';
import { tokenDirectory } from '../../storage/auth/token-directory.ts';
import { StorageError } from '../../storage/errors.ts';
import { api } from '../../transports/api/api.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import { listen } from '../../transports/http/index.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { type AuthUnderTest, openAuth, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { SECRET } from '../support/service/node.ts';

failOnLeaks();

const SERVICE = 'registry.test:5000';
const ALL = ['pull', 'push', 'delete'];

const replySchema = z.strictObject({ token: z.string(), expires_in: z.literal(300), issued_at: z.iso.datetime() });
const accessSchema = z.array(
  z.strictObject({ type: z.literal('repository'), name: z.string(), actions: z.array(z.string()) }),
);
const claimsSchema = z.strictObject({
  type: z.literal('registry'),
  iss: z.string(),
  sub: z.string(),
  aud: z.string(),
  exp: z.int(),
  nbf: z.int(),
  iat: z.int(),
  jti: z.string().min(16),
  access: accessSchema,
});
const refusalSchema = z.strictObject({ error: z.string(), code: z.string(), fields: z.unknown().optional() });

type Credentials = readonly [username: string, password: string];

interface Asking {
  readonly as?: Credentials;
  readonly scope?: string | readonly string[];
  readonly service?: string;
  readonly authorization?: string;
}

/** The service behind a real listener. */
async function open(t: TestContext, registry: RegistryDeps = {}) {
  const auth = await openAuth(t, { registry });
  const handlers = api({
    service: auth.service,
    authenticate: auth.prove,
    streams: new OpenStreams(tokenDirectory(auth.outside), silentLog),
    pages: new Map(),
    log: auth.log,
  });
  const server = await listen({ host: '127.0.0.1', port: 0, ...handlers }, 'node');
  t.after(() => server.close(0));

  const ask = ({ as, scope = [], service = SERVICE, authorization }: Asking = {}): Promise<Response> => {
    const query = new URLSearchParams({ service });
    for (const one of typeof scope === 'string' ? [scope] : scope) query.append('scope', one);
    const header = authorization ?? (as === undefined ? undefined : basic(as));
    return fetch(`http://127.0.0.1:${server.port}/v2/token?${query}`, {
      headers: header === undefined ? {} : { authorization: header },
    });
  };
  /** The claims of the token that is given. */
  const claims = async (asking: Asking = {}) => {
    const response = await ask(asking);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const { token } = replySchema.parse(JSON.parse(text));
    const currentDate = new Date(auth.clock.now());
    const { payload } = await jwtVerify(token, Buffer.from(SECRET), { algorithms: ['HS256'], currentDate });
    return claimsSchema.parse(payload);
  };
  /** What of everything on each repository is granted. */
  const rights = async (as: Credentials | undefined, ...names: string[]) => {
    const scope = names.map((name) => `repository:${name}:*`);
    const { access } = await claims({ scope, ...(as === undefined ? {} : { as }) });
    return names.map((name) => access.find((entry) => entry.name === name)?.actions.join(',') ?? '');
  };
  /** Asserts that it is refused as a wrong login is. */
  const wrong = async (asking: Asking) => {
    const response = await ask(asking);
    assert.equal(response.status, 401, JSON.stringify(asking));
    assert.match(response.headers.get('www-authenticate') ?? '', /^Basic realm="[^"]+"/);
    assert.equal(refusalSchema.parse(await response.json()).code, 'invalid_credentials');
  };
  return { auth, ask, claims, rights, wrong, port: server.port };
}

const basic = ([username, password]: Credentials) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
const ann: Credentials = ['ann', PASSWORD];
const from = (address: string, as: Credentials) => ({ ...asking(as), address });

/** A service account of ann's with these scopes, with a token: its id, and what it logs in with. */
async function serviceAccount(auth: AuthUnderTest, name: string, scopes: (uid: string) => Record<string, string[]>) {
  const caller = await auth.enter('ann');
  const body = { name, scopes: scopes(caller.userId) };
  const { id } = await auth.call(createServiceAccount, caller, { body });
  const made = await auth.call(createServiceAccountToken, caller, { params: { id }, body: { name: 'ci' } });
  const credentials: Credentials = [name, made.token];
  return { id, tokenId: made.id, credentials, caller };
}

describe('a registry token', () => {
  test('has exactly the keys that registries know, and lives five minutes', async (t) => {
    const { auth, ask, claims } = await open(t);
    const response = await ask({ as: ann, scope: 'repository:ann/app:pull,push' });
    assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const reply = replySchema.parse(await response.json());
    const [kid] = keyIds(SECRET);
    assert.deepEqual(decodeProtectedHeader(reply.token), { alg: 'HS256', typ: 'JWT', kid });
    const { payload } = await jwtVerify(reply.token, Buffer.from(SECRET));
    const said = claimsSchema.parse(payload);
    assert.deepEqual(
      { ...said, jti: '', iat: 0, nbf: 0, exp: said.exp - said.iat },
      {
        ...{ type: 'registry', iss: 'troupe', sub: 'ann', aud: SERVICE, jti: '', iat: 0, nbf: 0, exp: 300 },
        access: [{ type: 'repository', name: 'ann/app', actions: ['pull', 'push'] }],
      },
    );
    assert.equal(said.nbf, said.iat);
    assert.equal(new Date(reply.issued_at).getTime(), said.iat * 1000);
    assert.notEqual((await claims({ as: ann })).jti, said.jti);
    auth.clock.advance(301_000);
    await assert.rejects(
      jwtVerify(reply.token, Buffer.from(SECRET), { currentDate: new Date(auth.clock.now()) }),
      /exp/,
    );
  });

  test('is given to anybody, with what is public', async (t) => {
    const { auth, claims, rights } = await open(t);
    await makePublic(auth.outside, 'ann/open');
    const { sub, access } = await claims();
    assert.deepEqual({ sub, access }, { sub: '', access: [] });
    assert.deepEqual(await rights(undefined, 'ann/open', 'ann/app', 'library/debian', 'app'), ['pull', '', 'pull', '']);
  });

  test('gives a user their own, and the pull of what is public', async (t) => {
    const { auth, rights } = await open(t);
    await addUser(auth.outside, 'bob', PASSWORD);
    await addUser(auth.outside, 'admin', PASSWORD);
    await makePublic(auth.outside, 'bob/open');
    const names = ['ann/app', 'bob/open', 'bob/app', 'library/debian', 'anna/app'];
    const all = ALL.join();
    assert.deepEqual(await rights(ann, ...names), [all, 'pull', '', 'pull', '']);
    assert.deepEqual(await rights(['bob', PASSWORD], ...names), ['', all, all, 'pull', '']);
    assert.deepEqual(await rights(['admin', PASSWORD], ...names), ['', 'pull', '', all, '']);
  });

  test('gives a service account what its scopes say now', async (t) => {
    const { auth, claims, rights } = await open(t);
    await makePublic(auth.outside, 'bob/open');
    const account = await serviceAccount(auth, 'Deploy robot', (uid) => ({
      [`storage.${uid}.registry.app`]: ['push', 'pull'],
      [`storage.${uid}.registry.ann/logs`]: ['delete'],
    }));
    const names = ['ann/app', 'ann/logs', 'ann/app2', 'ann/app.v2', 'ann/ann/app', 'bob/open', 'bob/app', 'library/x'];
    assert.deepEqual(await rights(account.credentials, ...names), [
      ...['pull,push', 'delete', '', '', '', 'pull', '', 'pull'],
    ]);
    assert.equal((await claims({ as: account.credentials })).sub, 'ann');
    const scopes = { [`storage.${account.caller.userId}.registry`]: ['pull'] };
    await auth.call(setServiceAccountScopes, account.caller, { params: { id: account.id }, body: { scopes } });
    assert.deepEqual(await rights(account.credentials, ...names), [
      ...['pull', 'pull', 'pull', 'pull', 'pull', 'pull', '', 'pull'],
    ]);
    await auth.call(deleteToken, account.caller, { params: { id: account.tokenId } });
    await refused('invalid_credentials', auth.call(registryToken, undefined, asking(account.credentials)));
  });

  test('gives a user’s own API token what its scopes say, under the user’s name', async (t) => {
    const { auth, rights, wrong } = await open(t);
    const caller = await auth.enter('ann');
    const scopes = { [`storage.${caller.userId}.registry.app`]: ['pull'] };
    const body = { name: 'laptop', scopes, expires_in: '30d' };
    const { token } = await auth.call(createToken, caller, { body });
    assert.deepEqual(await rights(['ann', token], 'ann/app', 'ann/other'), ['pull', '']);
    for (const name of ['laptop', 'bob', 'Ann', '']) await wrong({ as: [name, token] });
    auth.clock.advance(31 * 86_400_000);
    await wrong({ as: ['ann', token] });
  });

  test('opens nothing of the platform', async (t) => {
    const { auth, ask } = await open(t);
    const { token } = replySchema.parse(await (await ask({ as: ann, scope: 'repository:ann/app:*' })).json());
    for (const text of [token, `svc_${token}`]) assert.equal(await auth.prove(text), undefined);
  });
});

test('a service account may have a colon in its name', async (t) => {
  const { auth, claims, wrong } = await open(t);
  const { credentials } = await serviceAccount(auth, 'ci: deploy', (uid) => ({ [`storage.${uid}.registry`]: ALL }));
  assert.equal((await claims({ as: credentials, scope: 'repository:ann/app:push' })).access.length, 1);
  await wrong({ as: ['ci', credentials[1]] });
  await wrong({ as: ['ci: deploy:', credentials[1]] });
});

test('a pull pass pulls the one repository it was made for, for its user and an hour, and opens nothing else', async (t) => {
  const { auth, ask, claims, rights, wrong } = await open(t);
  const { userId } = await auth.enter('ann');
  await addUser(auth.outside, 'bob', PASSWORD);
  await makePublic(auth.outside, 'bob/open');
  const deps = { db: auth.outside, clock: auth.clock, jwtSecret: SECRET };
  const passFor = async (image: string, id = userId): Promise<Credentials | undefined> => {
    const auth = await pullAuth(deps, SERVICE)?.({ userId: id, image });
    assert.ok(auth === undefined || 'password' in auth);
    return auth && [auth.username, auth.password];
  };
  assert.equal(pullAuth(deps, undefined), undefined);
  for (const image of ['debian:12', 'other.test/ann/app:1', `${SERVICE}/ann/app`])
    assert.equal(await passFor(image), undefined, image);
  assert.equal(await passFor(`${SERVICE}/ann/app:1`, 'nobody'), undefined);
  const pass = (await passFor(`${SERVICE}/ann/app:1`)) ?? assert.fail('there is no pass');
  assert.equal(pass[0], 'ann');
  assert.deepEqual(await rights(pass, 'ann/app', 'ann/other', 'bob/open', 'library/x'), ['pull', '', '', '']);
  const { sub } = await claims({ as: pass });
  assert.equal(sub, 'ann');
  // A pass gives no more than its user has.
  assert.deepEqual(await rights(await passFor(`${SERVICE}/bob/app:1`), 'bob/app'), ['']);
  assert.deepEqual(await rights(await passFor(`${SERVICE}/bob/open:1`), 'bob/open'), ['pull']);
  assert.deepEqual(await rights(await passFor(`${SERVICE}/library/x:1`), 'library/x'), ['pull']);
  for (const as of [
    ['bob', pass[1]],
    ['ann', `${pass[1]}x`],
    ['ann', pass[1].slice(5)],
  ] as const)
    await wrong({ as });
  for (const text of [pass[1], pass[1].slice(5), `svc_${pass[1].slice(5)}`])
    assert.equal(await auth.prove(text), undefined);
  // A registry token, signed with the same secret, is no pass.
  const { token } = replySchema.parse(await (await ask({ as: ann })).json());
  await wrong({ as: ['ann', `pull_${token}`] });
  auth.clock.advance(PULL_CREDENTIAL_SECONDS * 1000 + 1000);
  await wrong({ as: pass });
});

test('with a security key the password alone opens no registry; an API token does', async (t) => {
  const { auth, ask, claims } = await open(t);
  const { credentials } = await serviceAccount(auth, 'robot', (uid) => ({ [`storage.${uid}.registry`]: ALL }));
  await auth.outside.run(
    `insert into security_keys (id, user_id, public_key, counter, transports, authenticator_type, user_verified)
     select 'key', id, '', 0, '{}', '', false from users where username = 'ann'`,
  );
  const response = await ask({ as: ann, scope: 'repository:ann/app:pull' });
  assert.equal(response.status, 401);
  const told = await response.json();
  assert.match(refusalSchema.parse(told).error, /security key needs an API token/);
  // Nothing tells the right password from a wrong one: not the answer, and not what is counted.
  const wrong = await ask({ as: ['ann', 'wrong'], scope: 'repository:ann/app:pull' });
  assert.deepEqual([wrong.status, await wrong.json()], [401, told]);
  const [first, second] = await readAudit(auth.db, { action: 'registry_token.refused', limit: 10 });
  assert.deepEqual([first?.detail, second?.detail], [{ reason: 'second_factor' }, {}]);
  for (let i = 0; i < 3; i++) await ask({ as: ann, scope: 'repository:ann/app:pull' });
  assert.equal((await ask({ as: ann, scope: 'repository:ann/app:pull' })).status, 429);
  assert.equal((await claims({ as: credentials, scope: 'repository:ann/app:push' })).access.length, 1);
});

describe('a registry token for who is logged in', () => {
  const scope = 'repository:ann/app:pull,push repository:bob/app:pull,push repository:library/x:pull,push';
  const SELF = { service: SERVICE };

  test('has what the user may do, and an API token what its scopes say', async (t) => {
    const { auth } = await open(t, SELF);
    const ann = await auth.enter('ann');
    const own = await auth.call(ownRegistryToken, ann, { query: { scope } });
    const rights = [
      { repository: 'ann/app', actions: ['pull', 'push'] },
      { repository: 'library/x', actions: ['pull'] },
    ];
    assert.deepEqual(own.access, rights);
    const { payload } = await jwtVerify(own.token, Buffer.from(SECRET), { currentDate: new Date(auth.clock.now()) });
    const said = claimsSchema.parse(payload);
    assert.deepEqual([said.sub, said.aud], ['ann', SERVICE]);
    assert.deepEqual(
      said.access.map(({ name, actions }) => ({ repository: name, actions })),
      rights,
    );

    const key = `storage.${ann.userId}.registry.app`;
    const limited: Caller = { ...ann, kind: 'api_token', scopes: { [key]: ['pull'] } };
    const { access } = await auth.call(ownRegistryToken, limited, { query: { scope } });
    assert.deepEqual(access, [{ repository: 'ann/app', actions: ['pull'] }, rights[1]]);
  });

  test('is refused where there is no registry', async (t) => {
    const { auth } = await open(t);
    await refused('not_found', auth.call(ownRegistryToken, await auth.enter('ann'), { query: { scope } }));
  });
});

describe('asking for a registry token', () => {
  test('with anything but a user’s password or an account’s own token is refused', async (t) => {
    const { auth, wrong } = await open(t);
    const account = await serviceAccount(auth, 'robot', (uid) => ({ [`storage.${uid}.registry`]: ALL }));
    const [, robotToken] = account.credentials;
    const { token: session } = await auth.login('ann', PASSWORD);
    const tries: Credentials[] = [
      ...([
        ['ann', 'wrong'],
        ['nobody', PASSWORD],
        ['ANN', PASSWORD],
        ['', ''],
        ['ann', ''],
        ['', PASSWORD],
      ] as const),
      ...([
        ['ann', session],
        ['ann', robotToken],
        ['robot2', robotToken],
        ['Robot', robotToken],
        [' robot', robotToken],
      ] as const),
      ...([
        ['', robotToken],
        ['robot', robotToken.slice(4)],
        ['robot', `${robotToken}x`],
        ['robot', `SVC_${robotToken.slice(4)}`],
      ] as const),
      ...([
        ['robot', 'svc_'],
        [account.id, robotToken],
        [account.tokenId, robotToken],
        ['a\0b', 'x'],
        ['robot', `svc_${session}`],
      ] as const),
      ['x'.repeat(3000), 'y'.repeat(1000)],
    ];
    // Each counts: from one address they would soon be too many.
    for (const [i, as] of tries.entries())
      await refused('invalid_credentials', auth.call(registryToken, undefined, from(`198.51.${i}.1`, as)));
    await wrong({ as: ['ann', session] });
  });

  test('with a header that is no Basic header is refused; an empty one is none', async (t) => {
    const { ask, wrong } = await open(t);
    for (const authorization of [
      ...['Basic', 'Basic ', 'Basic !!!!', 'Basic YW5u', 'Bearer x', 'Digest x', `Basic ${'A'.repeat(9000)}`],
      `Basic ${Buffer.from([0xff, 0x3a, 0xff]).toString('base64')}`,
    ])
      await wrong({ authorization });
    assert.equal((await ask({ authorization: '' })).status, 200);
    assert.equal((await ask({ authorization: basic(ann).replace('Basic', 'bAsIc') })).status, 200);
  });

  test('takes a password with colons, letters of any script, and the prefix of tokens', async (t) => {
    const { auth, claims } = await open(t);
    for (const [username, password] of [
      ['carl', 'a:b::cdefg'],
      ['dora', 'pässwörd 🚀🚀'],
      ['emil', 'svc_is how mine begins'],
    ] as const) {
      await addUser(auth.outside, username, password);
      assert.equal((await claims({ as: [username, password] })).sub, username);
    }
  });

  test('reads scopes that are repeated, joined by spaces, or both', async (t) => {
    const { claims } = await open(t);
    const scope = ['repository:ann/a:pull repository:ann/b:push', 'repository:ann/a:push,delete', ''];
    assert.deepEqual((await claims({ as: ann, scope })).access, [
      { type: 'repository', name: 'ann/a', actions: ALL },
      { type: 'repository', name: 'ann/b', actions: ['push'] },
    ]);
  });

  test('passes over what nobody may have or nobody can mean', async (t) => {
    const { claims } = await open(t);
    const scope = [
      ...['registry:catalog:*', 'repository:a/../b:push', 'repository:Ann/app:pull', 'repository(plugin):ann/a:pull'],
      ...[`repository:${SERVICE}/ann/app:pull`, `repository:ann/${'a'.repeat(252)}:pull`, 'repository:ann/app:admin'],
      ...['repository:bob/app:push,pull', 'x', '::::', 'repository:ann/good:pull'],
    ];
    assert.deepEqual((await claims({ as: ann, scope })).access, [
      { type: 'repository', name: 'ann/good', actions: ['pull'] },
    ]);
  });

  test('for very many repositories is answered with the first hundred', async (t) => {
    const { auth, claims } = await open(t);
    const many = Array.from({ length: 400 }, (_, i) => `repository:ann/${i}:*`);
    assert.equal((await claims({ as: ann, scope: many.join(' ') })).access.length, 100);
    const thousand = Array.from({ length: 1000 }, (_, i) => `repository:a${i}:*`).join(' ');
    const input = { query: { service: SERVICE, scope: thousand.slice(0, 16_384) } };
    assert.ok(await auth.call(registryToken, undefined, input));
    await refused(
      'invalid_request',
      (async () => auth.call(registryToken, undefined, { query: { service: SERVICE, scope: thousand } }))(),
    );
  });

  test('without a service is refused; so is, where the registry is known, another one', async (t) => {
    const { ask, port } = await open(t, { service: SERVICE, issuer: 'https://auth.test' });
    assert.equal((await fetch(`http://127.0.0.1:${port}/v2/token`)).status, 400);
    for (const service of [
      '',
      'registry.test',
      'other.test:5000',
      `${SERVICE}/`,
      SERVICE.toUpperCase(),
      'x'.repeat(257),
    ]) {
      const response = await ask({ service, as: ann });
      assert.equal(response.status, 400, service);
      assert.equal(refusalSchema.parse(await response.json()).code, 'invalid_request');
    }
    assert.equal((await ask({ as: ann })).status, 200);
  });

  test('with what Docker adds to the query is the same; by POST it is not answered', async (t) => {
    const { port } = await open(t);
    const url = `http://127.0.0.1:${port}/v2/token`;
    const more = 'account=ann&client_id=docker&offline_token=true';
    const response = await fetch(`${url}?service=x&${more}`, { headers: { authorization: basic(ann) } });
    replySchema.parse(await response.json());
    // Clients that try OAuth 2 first then come with GET.
    assert.equal((await fetch(url, { method: 'POST', body: 'grant_type=password' })).status, 405);
  });

  test('while the database is away says so', async (t) => {
    const { auth, ask } = await open(t);
    auth.db.failure = new StorageError('unavailable', 'away');
    const response = await ask({ as: ann });
    assert.equal(response.status, 503);
    assert.ok(Number(response.headers.get('retry-after')) > 0);
    assert.equal((await ask()).status, 200, 'anybody, for nothing, takes no database');
  });
});

describe('guessing at the registry’s endpoint', () => {
  /** The waits that were set last longer than any test. */
  const prolong = (auth: AuthUnderTest) =>
    auth.outside.run(
      `update login_attempts set blocked_until = blocked_until + interval '1 minute' where blocked_until > 'epoch'`,
    );

  test('is throttled with logins, for the user and the address', async (t) => {
    const { auth, ask, wrong } = await open(t);
    for (let i = 0; i < 5; i++) await wrong({ as: ['ann', `wrong ${i}`] });
    await prolong(auth);
    const response = await ask({ as: ann });
    assert.equal(response.status, 429);
    assert.ok(Number(response.headers.get('retry-after')) > 0);
    await refused('too_many_attempts', auth.login('ann', PASSWORD, '127.0.0.1'));
    await auth.login('ann', PASSWORD, '192.0.2.7');
    await auth.call(registryToken, undefined, from('192.0.2.7', ann));
    await auth.outside.run('update login_attempts set blocked_until = now()');
    auth.clock.advance(1000);
    assert.equal((await ask({ as: ann })).status, 200);
    assert.equal((await ask({ as: ann })).status, 200);
  });

  test('does not stop who has a token', async (t) => {
    const { auth } = await open(t);
    const { credentials } = await serviceAccount(auth, 'ann', (uid) => ({ [`storage.${uid}.registry`]: ['pull'] }));
    const wrong = from('192.0.2.8', ['ann', 'svc_wrong']);
    for (let i = 0; i < 5; i++) await refused('invalid_credentials', auth.call(registryToken, undefined, wrong));
    await prolong(auth);
    await refused('too_many_attempts', auth.call(registryToken, undefined, from('192.0.2.8', ann)));
    await auth.call(registryToken, undefined, from('192.0.2.8', credentials));
    await auth.call(registryToken, undefined, from('192.0.2.9', ann));
  });

  test('is no guessing when a client asks for many tokens at once with the right password', async (t) => {
    const { ask } = await open(t);
    const asked = Array.from({ length: 20 }, (_, i) => ask({ as: ann, scope: `repository:ann/${i}:pull` }));
    assert.deepEqual(new Set((await Promise.all(asked)).map(({ status }) => status)), new Set([200]));
  });

  test('at once with one wrong password counts, and stays wrong', async (t) => {
    const { ask } = await open(t);
    const statuses = new Set<number>();
    for (let round = 0; round < 12; round++) {
      const asked = Array.from({ length: 5 }, () => ask({ as: ['ann', 'wrong'] }));
      for (const { status } of await Promise.all(asked)) statuses.add(status);
    }
    assert.deepEqual([...statuses].sort(), [401, 429]);
  });
});

test('a user is told what their own images hold, and a token only within its scopes', async (t) => {
  const usage = async (username: string) => ({ used: username.length, limit: username === 'ann' ? 10 : undefined });
  const { auth } = await open(t, { service: SERVICE, usage });
  const ann = await auth.enter('ann');
  assert.deepEqual(await auth.call(registryUsage, ann, {}), { used_bytes: 3, limit_bytes: 10 });
  assert.deepEqual(await auth.call(registryUsage, { ...ann, username: 'admin' }, {}), {
    used_bytes: 5,
    limit_bytes: null,
  });
  const other = await open(t, { service: SERVICE });
  const refusal = await refused('not_found', other.auth.call(registryUsage, await other.auth.enter('ann'), {}));
  assert.match(refusal.message, /runs no image registry of its own/);
});

test('a disk that is almost full takes no pushes, and removals a while longer', async (t) => {
  let found: RegistryRoom = 'enough';
  const { auth, ask } = await open(t, { service: SERVICE, room: async () => found });
  const push = 'repository:ann/app:pull,push';
  const remove = `${push},delete`;
  const own = async (scope: string) => auth.call(ownRegistryToken, await auth.enter('ann'), { query: { scope } });
  const statuses = async () => {
    const asked = ['repository:ann/app:pull', push, remove].map((scope) => ask({ as: ann, scope }));
    return (await Promise.all(asked)).map(({ status }) => status);
  };
  assert.deepEqual(await statuses(), [200, 200, 200]);
  found = 'little';
  assert.deepEqual(await statuses(), [200, 507, 200]);
  assert.match((await refused('no_space', own(push))).message, /registry is almost full: remove images, or ask/);
  assert.equal((await own(remove)).access.length, 1);
  assert.equal((await ask({ scope: push })).status, 200, 'who may push nothing is told nothing');
  found = 'none';
  assert.deepEqual(await statuses(), [200, 507, 200]);
  assert.deepEqual((await own(remove)).access, [{ repository: 'ann/app', actions: ['pull', 'delete'] }]);
  assert.equal((await ask({ as: ann, scope: `${remove} repository:ann/other:push` })).status, 507);
});

test('with a signing key a token is ES256, names the key and carries its certificate', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const signer = await registrySigner(database.db, parseRegistryKey(pem));
  const { auth, ask } = await open(t, { signer, issuer: 'https://auth.test' });
  const { token } = replySchema.parse(await (await ask({ as: ann, scope: 'repository:ann/app:pull' })).json());
  const { x5c, ...header } = z
    .strictObject({ alg: z.string(), typ: z.string(), kid: z.string(), x5c: z.array(z.base64()) })
    .parse(decodeProtectedHeader(token));
  assert.deepEqual(header, { alg: 'ES256', typ: 'JWT', kid: keyId(privateKey) });
  const certificate = new X509Certificate(Buffer.from(x5c[0] ?? '', 'base64'));
  const { payload } = await jwtVerify(token, certificate.publicKey, { algorithms: ['ES256'], audience: SERVICE });
  assert.equal(claimsSchema.parse(payload).iss, 'https://auth.test');
  for (const text of [token, `svc_${token}`]) assert.equal(await auth.prove(text), undefined);
});

function asking(as: Credentials) {
  const [username, password] = as;
  return { query: { service: SERVICE }, basic: { username, password } };
}
