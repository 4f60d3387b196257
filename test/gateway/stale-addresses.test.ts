/** Who asks for a container must not reach whoever gets its address next. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Arrivals } from '../../actors/gateway/arrivals.ts';
import type { ContainerTarget } from '../../actors/gateway/deps.ts';
import type { RouteSnapshot } from '../../actors/gateway/routing.ts';
import type { ContainerStatus } from '../../proto/compute/fields.ts';
import { RouteTable } from '../../proto/gateway/routes.ts';
import type { ContainerState } from '../../proto/ports/engine.ts';
import { tellCompute } from '../../storage/compute/news.ts';
import { testDatabase } from '../support/database/database.ts';
import { addContainer, runningState } from '../support/gateway/containers.ts';
import { startGateway } from '../support/gateway/gateway.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { pause } from '../support/pause.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const DOMAIN = 'cloud.test';
const CONTAINER = 'abcdefghijk1';

/** A gateway in front of one container that has port 80 open, and that the engine lists as running whatever is wanted of it. */
async function open(t: TestContext) {
  const { db, close } = await testDatabase();
  t.after(close);
  const origin = await httpOrigin(t, (_incoming, response) => response.end('whoever has the address'));
  await addContainer(db, CONTAINER, { ports: [[80, origin]] });
  const state: { -readonly [K in keyof ContainerState]: ContainerState[K] } = runningState(CONTAINER);
  let lists = 0;
  const gateway = await startGateway(t, {
    db,
    engine: {
      list: async () => {
        lists++;
        return [state];
      },
      inspect: async () => state,
      dial: () => Promise.reject(new Error('not asked for')),
    },
  });
  /** Writes a status as the compute service does. */
  const setStatus = (status: ContainerStatus) =>
    db.tx(async (tx) => {
      await tx.run('update containers set status = $2 where id = $1', [CONTAINER, status]);
      await tellCompute(tx, { kind: 'status', containerId: CONTAINER, status });
    });
  return { db, state, setStatus, statusOf: () => statusAt(gateway.ports.http), lists: () => lists };
}

async function statusAt(port: number): Promise<number> {
  const answer = await exchange(
    port,
    `GET / HTTP/1.1\r\nHost: ${CONTAINER}.compute.${DOMAIN}\r\nConnection: close\r\n\r\n`,
  );
  return Number(answer.split(' ')[1]);
}

test('a container is reached as soon as it is said to be running, and who asks a moment too early waits', async (t) => {
  const { state, setStatus, statusOf, lists } = await open(t);
  for (let start = 0; start < 5; start++) {
    state.phase = 'created';
    state.address = null;
    const before = lists();
    await setStatus('initializing');
    await until(() => lists() > before, { what: 'the gateway has looked, and found no address' });
    const early = statusOf();
    state.phase = 'running';
    state.address = '127.0.0.1';
    await setStatus('running');
    assert.deepEqual([await statusOf(), await early], [200, 200], `start ${start}`);
  }
});

test('what still runs of a container that is to be started anew gets no more requests: who asks waits', async (t) => {
  const { setStatus, statusOf } = await open(t);
  assert.equal(await statusOf(), 200);
  await setStatus('pending');
  const held = await until(
    async () => {
      const asked = statusOf();
      const first = await Promise.race([asked, pause(300, 'watch').then(() => 'held')]);
      return first === 'held' ? { asked } : undefined;
    },
    { what: 'a request waits' },
  );
  await setStatus('running');
  assert.equal(await held.asked, 200);
});

test('nobody waits for what is not coming, and no more than a bounded number wait at all', async () => {
  const snapshot = (target: Partial<ContainerTarget>): RouteSnapshot => ({
    routes: new RouteTable([]),
    containers: new Map([[CONTAINER, { address: undefined, ports: new Map(), ...target }]]),
  });
  let shown: RouteSnapshot = snapshot({});
  const arrivals = new Arrivals(() => shown);
  assert.equal(arrivals.wait(CONTAINER), undefined);
  assert.equal(arrivals.wait('abcdefghijk2'), undefined);
  shown = snapshot({ isComing: true });
  const waiting = Array.from({ length: 500 }, () => arrivals.wait(CONTAINER));
  assert.ok(waiting.every((one) => one !== undefined));
  assert.equal(arrivals.wait(CONTAINER), undefined);
  // News that a look has not followed yet counts, too: what the look saw may be older.
  const seen = arrivals.look();
  arrivals.expect(CONTAINER);
  shown = snapshot({});
  seen();
  assert.equal(arrivals.wait(CONTAINER), undefined, 'they wait on');
  const next = arrivals.look();
  shown = snapshot({ address: '127.0.0.1' });
  next();
  await Promise.all(waiting);
  assert.equal(arrivals.wait(CONTAINER), undefined);
});

test('requests of a few owners that take every place keep no other from waiting', async () => {
  const ids = (owner: string) => [1, 2, 3].map((each) => `${owner}${each}`);
  const owners = ['anna', 'bert', 'cleo', 'dora'];
  const containers = new Map<string, ContainerTarget>();
  for (const owner of owners)
    for (const id of ids(owner)) containers.set(id, { owner, address: undefined, ports: new Map(), isComing: true });
  const shown: RouteSnapshot = { routes: new RouteTable([]), containers };
  const arrivals = new Arrivals(() => shown);
  const letOut: string[] = [];
  /** Asks so often for a container, and says how many of those wait. */
  const ask = (id: string, times: number) =>
    Array.from({ length: times }, (_, at) => arrivals.wait(id)?.then(() => letOut.push(`${id}-${at}`))).filter(
      (one) => one !== undefined,
    ).length;
  assert.equal(ask('anna1', 600), 500, 'of one container');
  assert.equal(ask('anna2', 600), 250, 'of one owner');
  assert.equal(ask('bert1', 400) + ask('bert2', 300), 700);
  assert.equal(ask('cleo1', 500) + ask('cleo2', 50), 550, 'all places are taken');
  assert.equal(arrivals.wait('anna3'), undefined);
  assert.equal(ask('dora1', 60), 60);
  await Promise.resolve();
  assert.equal(letOut.length, 60);
  assert.deepEqual(letOut.slice(0, 2), ['anna1-0', 'anna1-1'], 'who waited longest, of whom most wait for');
  assert.deepEqual(new Set(letOut.map((one) => one.slice(0, 4))), new Set(['anna', 'bert']));
  const seen = arrivals.look();
  containers.clear();
  seen();
  await Promise.resolve();
  assert.equal(letOut.length, 2060);
});

test('a certificate authority is answered long before it gives up, though the container is still coming', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const coming = { address: undefined, ports: new Map(), isComing: true };
  const shown: RouteSnapshot = { routes: new RouteTable([]), containers: new Map([[CONTAINER, coming]]) };
  const arrivals = new Arrivals(() => shown);
  const letOut: string[] = [];
  const waiting = (['client', 'authority'] as const).map((who) =>
    arrivals.wait(CONTAINER, who)?.then(() => letOut.push(who)),
  );
  t.mock.timers.tick(3000);
  await waiting[1];
  assert.deepEqual(letOut, ['authority']);
  t.mock.timers.tick(12_000);
  await waiting[0];
  assert.deepEqual(letOut, ['authority', 'client']);
});

for (const desired of ['stopped', 'deleted'] as const) {
  test(`a container that is to be ${desired} is not reached any more, whatever the engine still says of it`, async (t) => {
    const { db, statusOf } = await open(t);
    assert.equal(await statusOf(), 200);
    await db.tx(async (tx) => {
      await tx.run('update containers set desired = $2 where id = $1', [CONTAINER, desired]);
      await tellCompute(tx, { kind: desired === 'deleted' ? 'gone' : 'stopped', containerId: CONTAINER });
    });
    await until(async () => (await statusOf()) === 503, { what: 'the gateway says that it does not run' });
    await db.run(`update containers set desired = 'running' where id = $1`, [CONTAINER]);
    await until(async () => (await statusOf()) === 200, { what: 'it is reached again', timeoutMs: 60_000 });
  });
}

test('what users do with their ports is looked at when they do it, and the engine is not asked about the containers of all', {
  timeout: 40_000,
}, async (t) => {
  const { db, statusOf, lists } = await open(t);
  const [began, before] = [performance.now(), lists()];
  // At one a look, ten changes would take fifty seconds.
  for (let change = 0; change < 10; change++) {
    const isOpen = change % 2 === 1;
    await db.tx(async (tx) => {
      await tx.run('update ingress_rules set port = $2 where container_id = $1', [CONTAINER, isOpen ? 80 : 443]);
      await tellCompute(tx, { kind: 'ingress', containerId: CONTAINER });
    });
    await until(async () => (await statusOf()) === (isOpen ? 200 : 404), {
      what: `change ${change}`,
      timeoutMs: 20_000,
    });
  }
  // That is done every five seconds, whatever users do.
  const regular = Math.ceil((performance.now() - began) / 5000) + 1;
  assert.ok(lists() - before <= regular, `${lists() - before} lists where ${regular} are due`);
});
