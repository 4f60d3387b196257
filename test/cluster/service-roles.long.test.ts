/** Each service alone, with its own role of the database: every endpoint does its work, and nothing that it needs is refused. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { platformEndpoints } from '../../proto/auth/admin.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { platformFactsEndpoints } from '../../proto/auth/platform.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import { networkEndpoints } from '../../proto/network/endpoints.ts';
import { notifyEndpoints } from '../../proto/notify/endpoints.ts';
import { ORIGIN, RP_ID, SoftKey } from '../support/auth/authenticator.ts';
import { startBox } from '../support/clients/container.ts';
import { websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, type Reply, request, troupe } from '../support/cluster/platform.ts';
import { GROUND_PASSWORD, layGround, skipWithoutServices } from '../support/cluster/services.ts';
import { sse } from '../support/monitor/event-streams.ts';
import { standIn } from '../support/network/dns-provider.ts';
import { startMailServer } from '../support/notify/mail-server.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { skipWithout } from '../support/require.ts';
import type { Cleanup } from '../support/temp.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const ENDPOINTS: readonly AnyEndpoint[] = [
  ...authEndpoints,
  ...computeEndpoints,
  ...monitorEndpoints,
  ...networkEndpoints,
  ...notifyEndpoints,
  ...platformEndpoints,
  ...platformFactsEndpoints,
];
const begun = z.object({ options: z.looseObject({ challenge: z.string() }), state: z.string() });

/** A registry without images. */
async function emptyRegistry(t: Cleanup): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end('{"repositories":[]}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise((resolve) => void server.close(() => resolve())));
  const address = server.address() as AddressInfo;
  return `127.0.0.1:${address.port}`;
}

/** One request that a test makes. */
interface Call {
  readonly token?: string;
  readonly body?: unknown;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
}

/** Calls endpoints by their names and notes which were answered. */
function caller(urls: Readonly<Record<string, string>>) {
  const used = new Set<string>();
  const addressOf = (service: string, name: string, { params = {}, query = '' }: Call): [AnyEndpoint, string] => {
    const endpoint = ENDPOINTS.find((one) => one.service === service && one.name === name);
    assert.ok(endpoint, `${service} has no ${name}`);
    used.add(`${service}.${name}`);
    return [endpoint, `${urls[service]}${endpoint.path.replace(/\{(\w+)\}/g, (_, key) => params[key] ?? '')}${query}`];
  };
  return {
    unused: () => ENDPOINTS.map(({ service, name }) => `${service}.${name}`).filter((name) => !used.has(name)),
    urlOf: (service: string, name: string, options: Call = {}) => addressOf(service, name, options)[1],
    call: async (service: string, name: string, options: Call = {}): Promise<Reply> => {
      const [{ method, idempotent }, url] = addressOf(service, name, options);
      const { token, body } = options;
      const headers = idempotent === undefined ? {} : { 'idempotency-key': randomUUID() };
      const sent = { headers, ...(token && { token }), ...(body === undefined ? {} : { body }) };
      const reply = await request(method, url, sent);
      assert.ok(reply.status < 300, `${service}.${name}: ${reply.status} ${JSON.stringify(reply.json)}`);
      return reply;
    },
  };
}
type Api = ReturnType<typeof caller>;

const text = (reply: Reply, field = 'id') => z.coerce.string().parse(reply.json[field]);

/** A program logs in by a code that a person approves. */
async function useDevice({ call }: Api, token: string): Promise<void> {
  const device = await call('auth', 'beginDevice', { body: { name: 'laptop' } });
  const body = { user_code: text(device, 'user_code'), decision: 'approve' };
  await call('auth', 'approveDevice', { token, body });
  const got = await call('auth', 'deviceToken', { body: { device_code: text(device, 'device_code') } });
  await call('notify', 'listNotifications', { token: text(got, 'token') });
}

async function useAuth(api: Api, token: string, userId: string, registry: string): Promise<void> {
  const { call, urlOf } = api;
  const scopes = { [`compute.${userId}.containers`]: ['read'] };
  const spare = text(await call('auth', 'login', { body: { username: 'ann', password: GROUND_PASSWORD } }), 'token');
  await call('auth', 'session', { token: spare });
  await call('auth', 'listSessions', { token });
  await call('auth', 'logout', { token: spare });
  await call('auth', 'renewSession', { token: spare });
  const logins = z
    .array(z.object({ id: z.number(), is_current: z.boolean() }))
    .parse((await call('auth', 'listSessions', { token: spare })).json.list);
  const own = logins.find(({ is_current }) => is_current);
  await call('auth', 'endSession', { token, params: { id: String(own?.id) } });
  await useDevice(api, token);
  await call('auth', 'endOtherSessions', { token });
  await call('auth', 'updateProfile', { token, body: { display_name: 'Ann' } });
  const made = await call('auth', 'createToken', { token, body: { name: 'one', scopes, expires_in: '30d' } });
  const [{ id = '' } = {}] = z
    .array(z.object({ id: z.string() }))
    .parse(Object.values((await call('auth', 'listTokens', { token })).json).find(Array.isArray));
  await call('auth', 'checkToken', { params: { id } });
  await call('compute', 'listContainers', { token: text(made, 'token') });
  const used = async () => {
    const { json } = await call('auth', 'listTokens', { token });
    return /"last_used_at":[1-9]/.test(JSON.stringify(json));
  };
  await until(used, { what: 'the last use is noted', timeoutMs: 60_000 });
  await call('auth', 'deleteToken', { token, params: { id } });
  const params = { id: text(await call('auth', 'createServiceAccount', { token, body: { name: 'ci', scopes } })) };
  await call('auth', 'listServiceAccounts', { token });
  await call('auth', 'getServiceAccount', { token, params });
  await call('auth', 'setServiceAccountScopes', { token, params, body: { scopes: {} } });
  await call('auth', 'createServiceAccountToken', { token, params, body: { name: 'two', expires_in: 'never' } });
  await call('auth', 'listServiceAccountTokens', { token, params });
  await call('auth', 'deleteServiceAccount', { token, params });
  await call('auth', 'registryToken', { query: `?service=${registry}` });
  await call('auth', 'ownRegistryToken', { token, query: '?scope=repository:ann/app:pull,push' });
  // Only the process that runs a registry knows, and it asks no database of this service.
  assert.equal((await request('GET', urlOf('auth', 'registryUsage'), { token })).status, 404);

  const key = new SoftKey();
  const add = begun.parse((await call('auth', 'beginAddKey', { token })).json);
  const added = { state: add.state, credential: key.create(add.options), name: 'key' };
  await call('auth', 'finishAddKey', { token, body: added });
  await call('auth', 'listKeys', { token });
  await call('auth', 'renameKey', { token, body: { id: key.id, name: 'my key' } });
  const first = await call('auth', 'login', { body: { username: 'ann', password: GROUND_PASSWORD } });
  const challenge = begun.parse((await call('auth', 'beginKeyLogin', { token: text(first, 'challenge_token') })).json);
  const credential = key.get(challenge.options, { userHandle: null });
  await call('auth', 'finishKeyLogin', { body: { state: challenge.state, credential } });
  await call('auth', 'deleteKey', { token, body: { id: key.id } });
  const passwords = { current_password: GROUND_PASSWORD, new_password: 'another long password' };
  await call('auth', 'changePassword', { token, body: passwords });
}

async function useAdministration({ call }: Api, token: string): Promise<void> {
  await call('auth', 'adminListUsers', { token });
  const params = { id: text(await call('auth', 'adminAddUser', { token, body: { username: 'for-a-while' } })) };
  const own = { token, params };
  for (const name of ['adminSetPassword', 'adminForgetKeys', 'adminListSessions', 'adminEndSessions'])
    await call('auth', name, own);
  await call('auth', 'adminChangeUser', { ...own, body: { registry_limit_mb: 5 } });
  const { hash } = new URL(text(await call('auth', 'adminPasswordLink', own), 'url'));
  const link = { token: hash.slice(1) };
  await call('auth', 'showPasswordLink', { body: link });
  await call('auth', 'usePasswordLink', { body: { ...link, new_password: 'a password by a link' } });
  await call('auth', 'adminDisableUser', { ...own, query: '?stop=true' });
  await call('auth', 'adminEnableUser', own);
  await call('auth', 'adminRemoveUser', own);
  await call('auth', 'adminAudit', { token });
  for (const name of ['showPlatform', 'showPlatformFacts', 'showPlatformApi']) await call('auth', name, { token });
  const nodes = z
    .array(z.looseObject({ id: z.string() }))
    .parse((await call('auth', 'adminNodes', { token })).json.nodes);
  const node = { token, params: { id: nodes[0]?.id ?? '' } };
  await call('auth', 'adminDrainNode', { ...node, query: '?force=true' });
  await call('auth', 'adminUndrainNode', node);
  await call('auth', 'adminListRoutes', { token });
  const body = { host: 'app.troupe.test', path_prefix: '/', target: '127.0.0.1:3000' };
  const route = text(await call('auth', 'adminAddRoute', { token, body }));
  await call('auth', 'adminDeleteRoute', { token, params: { id: route } });
}

async function newKey(folder: string): Promise<string> {
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'key')]);
  return readFile(join(folder, 'key.pub'), 'utf8');
}

async function useCompute(t: Cleanup, api: Api, token: string, admin: string, id: string): Promise<void> {
  const { call, urlOf } = api;
  const own = { token, params: { id } };
  await call('compute', 'getContainer', own);
  await call('compute', 'updateContainer', { ...own, body: { name: 'another name', address_name: 'another-name' } });
  await call('compute', 'getSettings', own);
  await call('compute', 'listRevisions', own);
  await call('compute', 'listContainers', { token });
  await call('compute', 'listImages', { token });
  await call('compute', 'listAddressNames', { token });
  await call('compute', 'listAllContainers', { token: admin });
  await call('compute', 'getSsh', own);
  await call('compute', 'setSsh', { ...own, body: { ssh_enabled: true } });
  await call('compute', 'addIngress', { ...own, body: { port: 80, target_port: 8080 } });
  await call('compute', 'listIngress', own);
  await call('compute', 'changeIngress', { token, params: { id, port: '80' }, body: { cache: 'explicit' } });
  await call('compute', 'deleteIngress', { token, params: { id, port: '80' } });
  await call('compute', 'addIngress', { ...own, body: { port: 443, tls: 'platform', access: 'mine' } });
  await call('compute', 'enterIngress', { token, params: { id, port: '443' }, body: {} });
  await call('compute', 'deleteIngress', { token, params: { id, port: '443' } });
  await call('compute', 'forgetAnswers', own);
  await call('compute', 'getMounts', own);
  await call('compute', 'setPullPolicy', { ...own, body: { pull_policy: 'IfNotPresent' } });
  const socket = async (name: string, query: string) =>
    await websocket(t, urlOf('compute', name, { params: { id }, query }).replace('http', 'ws'));
  await socket('terminal', `?token=${token}`);
  await socket('logs', `?token=${token}`);
  await socket('computeSocket', `?token=${token}`);
  await socket('execContainer', `?command=true&token=${token}`);
  const file = { token, params: { id }, query: '?path=/tmp/file' };
  await call('compute', 'writeFiles', { ...file, body: 'text' });
  await call('compute', 'readFiles', file);
  await call('compute', 'readLogs', own);
  await call('compute', 'removeFiles', file);
  await call('compute', 'setMounts', { ...own, body: { mount_paths: ['/root', '/data'] } });
  const becomes = (status: string) =>
    until(async () => (await call('compute', 'getContainer', own)).json.status === status, {
      what: status,
      timeoutMs: 60_000,
    });
  await becomes('running');
  await call('compute', 'stopContainer', own);
  await becomes('stopped');
  await call('compute', 'updateContainer', { ...own, body: { env: { GREETING: 'hello' } } });
  await call('compute', 'startContainer', own);
  await becomes('running');
  const public_key = await newKey(await tempDir(t));
  const params = { id: text(await call('compute', 'createSshKey', { token, body: { name: 'more', public_key } })) };
  await call('compute', 'listSshKeys', { token });
  await call('compute', 'setSshKeyLogin', { token, params, body: { login: true } });
  const body = { name: 'more', ssh_key_ids: [Number(params.id)], ssh_enabled: true };
  const more = text(await call('compute', 'createContainer', { token, body }));
  const last = text(await call('compute', 'createContainer', { token, body }));
  await call('compute', 'deleteSshKey', { token, params });
  await call('compute', 'adminStopContainer', { token: admin, params: { id: more } });
  await call('compute', 'adminDeleteContainer', { token: admin, params: { id: more } });
  await call('compute', 'deleteContainer', { token, params: { id: last } });
}

async function useNotify(t: Cleanup, api: Api, token: string, codes: () => string): Promise<void> {
  const { call, urlOf } = api;
  const url = urlOf('notify', 'notificationSocket', { query: `?since=0&token=${token}` });
  const socket = await websocket(t, url.replace('http', 'ws'));
  const { id } = z.object({ id: z.number() }).parse(await socket.json());
  await socket.close();
  await call('notify', 'listNotifications', { token });
  await call('notify', 'unreadCount', { token });
  await call('notify', 'markRead', { token, params: { id: String(id) } });
  await call('notify', 'markAllRead', { token });
  const body = { category: 'compute', scope: '' };
  await call('notify', 'addMute', { token, body });
  await call('notify', 'listMutes', { token });
  await call('notify', 'removeMute', { token, body });
  await useWebhooks(t, api, token, codes);
}

/** All is sent by the role of the database that the service has. */
async function useWebhooks(t: Cleanup, { call }: Api, token: string, codes: () => string): Promise<void> {
  const receiver = await startReceiver(t);
  const added = await call('notify', 'addWebhook', { token, body: { url: receiver.url } });
  const own = { token, params: { id: text(added) } };
  await call('notify', 'listWebhooks', { token });
  await call('notify', 'getWebhook', own);
  await call('notify', 'rotateWebhook', own);
  await call('notify', 'testWebhook', own);
  const answered = async () =>
    /"status":204/.test(JSON.stringify((await call('notify', 'listWebhookDeliveries', own)).json));
  await until(answered, { what: 'the webhook is called' });
  await call('notify', 'updateWebhook', { ...own, body: { enabled: false } });
  await call('notify', 'deleteWebhook', own);
  await call('notify', 'getMail', { token });
  await call('notify', 'setMail', { token, body: { address: 'ann@example.com' } });
  await call('notify', 'verifyMail', { token, body: { code: codes() } });
}

async function useMonitor(t: Cleanup, { call, urlOf }: Api, token: string, admin: string): Promise<void> {
  for (const { name, access, path } of monitorEndpoints) {
    const who = access === 'admin' ? admin : token;
    if (path.startsWith('/ws/')) {
      await (await websocket(t, `${urlOf('monitor', name).replace('http', 'ws')}?token=${who}`)).close();
    } else if (path.startsWith('/sse/')) {
      const stream = await sse(t, urlOf('monitor', name), { token: who });
      await until(() => stream.events.length > 0, { what: `an event of ${path}` });
      stream.close();
    } else
      await until(
        () =>
          call('monitor', name, { token: who, query: name === 'metricsHistory' ? '?namespace=none' : '' }).then(
            () => true,
            () => false,
          ),
        { what: path },
      );
  }
}

async function useNetwork({ call }: Api, token: string, containerId: string): Promise<void> {
  const params = { id: text(await call('network', 'connectDomain', { token, body: { token: 'good' } })) };
  await call('network', 'listOwnedDomains', { token });
  await call('network', 'refreshDomain', { token, params });
  const body = { domain: 'shop.example.com', container_id: containerId, target_port: 8080 };
  const mapping = { id: text(await call('network', 'createMapping', { token, body })) };
  await call('network', 'changeMapping', { token, params: mapping, body: { cache: 'off' } });
  await call('network', 'listMappings', { token });
  await call('network', 'verifyMapping', { token, params: mapping });
  await call('network', 'deleteMapping', { token, params: mapping });
  await call('network', 'disconnectDomain', { token, params });
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  await call('network', 'useTools', { token, body: ping });
}

test('every endpoint of every service works when each process has the role of its service alone', {
  skip: skipWithoutServices() || skipWithout('ssh', 'ssh-keygen'),
  timeout: 900_000,
}, async (t) => {
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const before: Cleanup = { after: (end) => void ends.unshift(end) };
  const provider = await standIn(before);
  provider.zones.set('good', [{ id: 'z1', name: 'example.com', status: 'active' }]);
  const signing = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
  });
  const registry = await emptyRegistry(before);
  const mails = await startMailServer(before);
  const ground = await layGround(before, {
    ...{ WEBAUTHN_RP_ID: RP_ID, WEBAUTHN_ORIGINS: ORIGIN, ADMIN_PASSWORD: GROUND_PASSWORD },
    ...{ REGISTRY_HOST: registry, REGISTRY_SIGNING_KEY: String(signing) },
    DNS_PROVIDER_URL: provider.url,
    ...{ WEBHOOK_ALLOW: '127.0.0.0/8', SMTP_URL: mails.url, SMTP_FROM: 'notices@troupe.test' },
  });
  const [auth, compute, monitor, notify, gateway] = await Promise.all([
    ...[ground.start('auth'), ground.start('compute'), ground.start('monitor'), ground.start('notify')],
    ground.start('gateway'),
  ]);
  assert.ok(auth && compute && monitor && notify && gateway);
  await ground.settled();
  const api = caller({
    ...{ auth: auth.url, compute: compute.url, monitor: monitor.url, notify: notify.url },
    network: gateway.net.url,
  });
  const ann = await ground.person('ann');
  const { token } = ann;
  const admin = await logIn(auth.url, 'admin', GROUND_PASSWORD);
  const folder = await tempDir(ground);
  ground.after(() => (compute.isRunning ? deleteAll(compute.url, token) : undefined));
  const box = await startBox(compute.url, token, folder);

  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes', 'LogLevel=ERROR'];
  const { stdout } = await run('ssh', [
    ...['-F', 'none', '-i', box.keyFile, '-p', gateway.sshPort, ...options.flatMap((one) => ['-o', one])],
    ...[`${box.id}@127.0.0.1`, 'echo entered'],
  ]);
  assert.equal(stdout, 'entered\n');
  await useNotify(ground, api, token, () => /The code is (\d{6})/.exec(mails.mails.at(-1)?.text ?? '')?.[1] ?? '');
  await useCompute(ground, api, token, admin, box.id);
  await useNetwork(api, token, box.id);
  await useMonitor(ground, api, token, admin);
  await useAuth(api, token, ann.id, registry);
  await useAdministration(api, admin);
  assert.deepEqual(api.unused(), []);

  // What is left of a user who is removed is ended by the services, each its part.
  const bob = await ground.person('bob');
  const hisBox = await startBox(compute.url, bob.token, folder);
  const his = { token: bob.token };
  await api.call('network', 'connectDomain', { ...his, body: { token: 'good' } });
  const body = { domain: 'bob.example.com', container_id: hisBox.id, target_port: 8080 };
  await api.call('network', 'createMapping', { ...his, body });
  await api.call('notify', 'addMute', { ...his, body: { category: 'other', scope: '' } });
  await api.call('notify', 'addWebhook', { ...his, body: { url: 'http://127.0.0.1:1024/' } });
  await api.call('notify', 'setMail', { ...his, body: { address: 'bob@example.com' } });
  const removed = await troupe(['users', 'remove', 'bob', '--yes', '--no-wait'], {
    env: { DATABASE_URL: ground.databaseUrl },
  });
  assert.equal(removed.code, 0, removed.stderr);
  await until(async () => (await ground.db.run('select from users where id = $1', [bob.id])) === 0, {
    what: 'bob is forgotten',
    timeoutMs: 60_000,
  });
  for (const process of [auth, compute, monitor, notify, gateway]) assert.ok(await process.isReady(), process.name);
});
