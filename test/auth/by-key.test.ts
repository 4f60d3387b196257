/** What the session of a login by SSH key is good for: the real service over HTTP, with the tokens of such logins. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { beginDevice } from '../../proto/auth/device.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { platformFactsEndpoints } from '../../proto/auth/platform.ts';
import { deleteKey, isRecentLogin } from '../../proto/auth/security-keys.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { AnyEndpoint, Caller } from '../../proto/endpoint.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import { networkEndpoints } from '../../proto/network/endpoints.ts';
import { notifyEndpoints } from '../../proto/notify/endpoints.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { SECRET } from '../support/service/node.ts';
import { serve } from '../support/service/open-service.ts';

failOnLeaks();

const all: readonly AnyEndpoint[] = [
  ...authEndpoints,
  ...platformFactsEndpoints,
  ...computeEndpoints,
  ...monitorEndpoints,
  ...networkEndpoints,
  ...notifyEndpoints,
];

async function setting(t: TestContext) {
  const auth = await openAuth(t);
  const ann = await auth.enter('ann');
  const { userId: id, username, session } = ann;
  assert.ok(session);
  const issue = sessionTokens(SECRET, 3600, auth.clock);
  const sessionsEpoch = session.epoch;
  const { token } = await issue({ id, username, isAdmin: true, sessionsEpoch, via: 'ssh_key' });
  const server = await serve(auth, {});
  const send = async (method: string, path: string, body?: unknown) => {
    const reply = await fetch(`http://127.0.0.1:${server.port}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', connection: 'close' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: reply.status, text: await reply.text() };
  };
  return { auth, ann, token, send };
}

test('for every call of a session it is decided whether a login by SSH key may make it', () => {
  const ofSessions = all.filter(({ access }) => access === 'session');
  const names = (isRefused: boolean) =>
    ofSessions.filter(({ notByKey }) => (notByKey === true) === isRefused).map(({ name }) => name);
  assert.deepEqual(names(true).sort(), REFUSED);
  assert.deepEqual(names(false).sort(), ALLOWED);
});

/** It makes what outlives the key or may do more, or changes what secures the account. */
const REFUSED = [
  'approveDevice',
  'beginAddKey',
  'changePassword',
  'createServiceAccount',
  'createServiceAccountToken',
  'createToken',
  'deleteKey',
  'endOtherSessions',
  'endSession',
  'finishAddKey',
  'renameKey',
  'renewSession',
  'setServiceAccountScopes',
];
/** It reads, takes rights away, or changes what is no credential. `setSshKeyLogin` only takes the mark off. */
const ALLOWED = [
  ...['addMute', 'addWebhook', 'deleteServiceAccount', 'deleteToken', 'deleteWebhook', 'getMail', 'getServiceAccount'],
  ...['getWebhook', 'listKeys', 'listMutes', 'listNotifications', 'listServiceAccountTokens', 'listServiceAccounts'],
  ...['listSessions', 'listTokens', 'listWebhookDeliveries', 'listWebhooks', 'markAllRead', 'markRead'],
  ...['notificationSocket', 'removeMute', 'rotateWebhook', 'session', 'setMail', 'setSshKeyLogin'],
  ...['testWebhook', 'unreadCount', 'updateProfile', 'updateWebhook', 'verifyMail'],
];

test('no call makes a longer or stronger credential out of a key, and none changes what secures the account', async (t) => {
  const { auth, send } = await setting(t);
  const begun = await auth.call(beginDevice, undefined, { body: { name: 'laptop' }, address: '198.51.100.7' });
  for (const [method, path, body] of [
    ['POST', '/api/device/approve', { user_code: begun.user_code, decision: 'approve' }],
    ['POST', '/api/session/renew', undefined],
    ['PUT', '/api/settings/password', { current_password: PASSWORD, new_password: 'another fine password' }],
    ['POST', '/api/settings/keys/add/begin', undefined],
    ['DELETE', '/api/settings/sessions', undefined],
    ['POST', '/api/tokens', { name: 'robot', scopes: {}, expires_in: 'never' }],
  ] as const) {
    const { status, text } = await send(method, path, body);
    assert.equal(status, 403, `${method} ${path}: ${text}`);
    assert.match(text, /A login by SSH key may not do this/, path);
  }
  assert.equal(await auth.db.run('select from device_logins where approved'), 0);
  assert.equal(await auth.db.run('select from api_tokens'), 0);
  assert.equal((await send('GET', '/api/session')).status, 200);
  assert.equal((await send('GET', '/api/tokens')).status, 200);
});

test('its token makes no administrator, whatever it says, and proves nobody fresh', async (t) => {
  const { auth, ann, token } = await setting(t);
  const byKey = await auth.prove(token);
  assert.deepEqual([byKey?.via, byKey?.isAdmin, byKey?.userId], ['ssh_key', false, ann.userId]);
  assert.ok(byKey);
  assert.equal(isRecentLogin(byKey, auth.clock.now()), false);
  assert.equal(isRecentLogin(ann, auth.clock.now()), true);
  // The proof itself refuses it as well, also where its call came by another way.
  await refused('proof_needed', auth.call(deleteKey, byKey, { body: { id: 'AAAA' } }));
});

test('a token of the version before is as it was', async (t) => {
  const { ann } = await setting(t);
  const caller: Caller = ann;
  assert.equal('via' in caller, false);
});
