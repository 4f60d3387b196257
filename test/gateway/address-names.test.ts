/** Readable names of containers at a whole gateway on a real database, over TLS: the same rules, guards and answers. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { type TestContext, test } from 'node:test';
import { changeAddressName } from '../../actors/compute/address-names.ts';
import { ENTRY_PATH, type PortGuard } from '../../proto/gateway/port-guard.ts';
import { containerById } from '../../storage/compute/containers.ts';
import { insertRule } from '../../storage/compute/ingress.ts';
import { tellCompute } from '../../storage/compute/news.ts';
import type { Db } from '../../storage/db.ts';
import { insertRoute } from '../../storage/gateway/routes.ts';
import { runningState } from '../support/gateway/containers.ts';
import { startGateway } from '../support/gateway/gateway.ts';
import { cookieIn, hostOf, OTHER, OWN, openGuarded, type Visit } from '../support/gateway/guards.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { someone } from '../support/service/calls.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const SHOP = hostOf('shop');

/** Gives a container a name, as the compute service does. */
async function name(db: Db, id: string, addressName: string | null): Promise<void> {
  await db.tx(async (tx) => {
    const row = await containerById(tx, id);
    assert.ok(row);
    await changeAddressName(tx, row, addressName, { caller: { ...someone(), userId: row.userId }, now: Date.now() });
  });
}

/** Opens port 443 of a container to everybody, with the certificate of the platform. */
async function openToAll(db: Db, id: string, targetPort: number): Promise<void> {
  await db.tx(async (tx) => {
    await insertRule(tx, id, { port: 443, targetPort, tls: 'platform' });
    await tellCompute(tx, { kind: 'ingress', containerId: id });
  });
}

/** A name that leads nowhere has no certificate. */
const refusesTls = (visit: (visit: Visit) => Promise<unknown>, host: string) =>
  until(
    () =>
      visit({ host }).then(
        () => false,
        () => true,
      ),
    { what: `${host} leads nowhere`, timeoutMs: 3000 },
  );

/** Status and Location of an answer by plain HTTP. */
const plain = (port: number, host: string) =>
  new Promise<unknown[]>((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, path: '/a?b', agent: false, headers: { host } });
    outgoing.on('error', reject).on('response', (incoming) => {
      incoming.resume();
      resolve([incoming.statusCode, incoming.headers.location]);
    });
    outgoing.end();
  });

/** A gateway before a program that says which host was asked for. */
async function open(t: TestContext) {
  const seen: string[] = [];
  const origin = await httpOrigin(t, ({ url = '', headers }, response) => {
    seen.push(`${headers.host} ${url}`);
    const fields = { 'cache-control': 'max-age=60', 'set-cookie': 'a=b; Domain=cloud.test; Path=/' };
    response.writeHead(200, url === '/kept' ? { 'cache-control': 'public, max-age=60' } : fields);
    response.end(`page ${seen.length}`);
  });
  const gateway = await openGuarded(t, origin);
  const reaches = (host: string, status: number) =>
    until(async () => (await gateway.visit({ host }).catch(() => undefined))?.status === status, {
      what: `${host} answers ${status}`,
      timeoutMs: 3000,
    });
  return { ...gateway, seen, origin, reaches };
}

test('a name leads where the id leads, by TLS and by plain HTTP; a change counts at once, and strangers see nothing', async (t) => {
  const { db, visit, ports, seen, origin, reaches } = await open(t);
  await openToAll(db, OWN, origin);
  await reaches(hostOf(OWN), 200);
  await refusesTls(visit, SHOP);
  await name(db, OWN, 'shop');
  await reaches(SHOP, 200);
  assert.match(seen.at(-1) ?? '', /^shop\.compute\.cloud\.test \/$/);
  const { headers } = await visit({ host: SHOP });
  // No cookie for containers of others.
  assert.deepEqual(headers['set-cookie'], ['a=b; Path=/']);
  const sent = await plain(ports.http, `${SHOP}:${ports.http}`);
  assert.deepEqual(sent, [308, `https://${SHOP}:${ports.https}/a?b`]);
  await name(db, OWN, 'store');
  await reaches(hostOf('store'), 200);
  await refusesTls(visit, SHOP);
  assert.equal((await visit()).status, 200);
});

test('another gateway on the same database learns of a name at once, and of its end', async (t) => {
  const { db, visit, origin, reaches } = await open(t);
  await openToAll(db, OWN, origin);
  await reaches(hostOf(OWN), 200);
  const list = async () => [runningState(OWN)];
  const engine = {
    list,
    inspect: async () => runningState(OWN),
    dial: () => Promise.reject(new Error('not asked for')),
  };
  const { ports } = await startGateway(t, { db, engine });
  const port = ports.https;
  const answers = async (host: string) => (await visit({ host, port }).catch(() => undefined))?.status;
  await until(async () => (await answers(hostOf(OWN))) === 200, { what: 'it is there', timeoutMs: 60_000 });
  for (const each of ['shop', 'store']) {
    await name(db, OWN, each);
    await until(async () => (await answers(hostOf(each))) === 200, { what: `${each} is there`, timeoutMs: 2000 });
  }
  await until(async () => (await answers(SHOP)) === undefined, { what: 'it is gone', timeoutMs: 2000 });
});

test('a name that moves to another container brings no kept answer of the one before', async (t) => {
  const { db, visit, origin, reaches } = await open(t);
  for (const id of [OWN, OTHER]) await openToAll(db, id, origin);
  await name(db, OWN, 'shop');
  await reaches(SHOP, 200);
  const kept = async () => (await visit({ host: SHOP, path: '/kept' })).text;
  const before = await kept();
  assert.equal(await kept(), before);
  await name(db, OWN, null);
  // As after 90 days.
  await db.run('update address_names set reserved_until = now() - interval $$1 second$$');
  await name(db, OTHER, 'shop');
  // The name leads nowhere for a moment, if the gateway looks in between.
  const isNew = (text: string) => text.startsWith('page ') && text !== before;
  const seen = () => kept().then(isNew, () => false);
  await until(seen, { what: 'the answer of the new one', timeoutMs: 3000 });
});

test('a route of the operator wins over a name', async (t) => {
  const { db, origin, visit, reaches } = await open(t);
  await openToAll(db, OWN, origin);
  await name(db, OWN, 'shop');
  await reaches(SHOP, 200);
  const other = await httpOrigin(t, (_, response) => response.end('of the operator'));
  const route = { host: SHOP, path_prefix: '/', target: `127.0.0.1:${other}`, strip_prefix: false, priority: 1 };
  assert.ok(await insertRoute(db, route));
  await until(async () => (await visit({ host: SHOP })).text === 'of the operator', {
    what: 'it leads there',
    timeoutMs: 3000,
  });
});

test('a guarded port is guarded at the name as at the id, and a pass of one host opens no other', async (t) => {
  const { db, visit, guard, proofs, clock, reaches } = await open(t);
  const rule = await guard(OWN);
  await name(db, OWN, 'shop');
  await reaches(SHOP, 401);
  const page = { accept: 'text/html' };
  const sent = new URL((await visit({ host: SHOP, path: '/a', headers: page })).headers.location ?? '');
  assert.deepEqual([sent.searchParams.get('host'), sent.searchParams.get('path')], [SHOP, '/a']);
  const guarded: PortGuard = { containerId: OWN, port: 443, rule, hash: null };
  const { token } = proofs.entry(guarded, SHOP, '/a', clock.now());
  const entered = await visit({ host: SHOP, path: `${ENTRY_PATH}?token=${token}`, headers: page });
  const cookie = cookieIn(entered);
  assert.match(cookie, /^__Host-troupe-access/);
  assert.equal((await visit({ host: SHOP, headers: { cookie } })).status, 200);
  assert.equal((await visit({ headers: { cookie } })).status, 401);
  // A page of another container acts as nobody here.
  const foreign = { cookie, 'sec-fetch-site': 'same-site', origin: `https://${hostOf(OTHER)}` };
  assert.equal((await visit({ host: SHOP, method: 'POST', headers: foreign })).status, 403);
  // Whoever has the name next asks again.
  await guard(OTHER);
  await name(db, OWN, null);
  await db.run('update address_names set reserved_until = now() - interval $$1 second$$');
  await name(db, OTHER, 'shop');
  const answers = () => visit({ host: SHOP, headers: { cookie } }).catch(() => undefined);
  await until(async () => (await answers())?.status === 401, { what: 'the pass counts no more', timeoutMs: 3000 });
});
