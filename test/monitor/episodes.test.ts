/** Alerts from the measurement to the outbox: each episode is told once, and the next one again. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { nodeSample, podSample } from '../support/monitor/samples.ts';
import { ADMIN, type MonitorUnderTest, openMonitor } from '../support/service/monitor.ts';
import { until } from '../support/until.ts';

const MINUTE = 60_000;

/** Waits until two refreshes that began after now are over, with what they led to. */
async function settled(monitor: MonitorUnderTest, token: string): Promise<void> {
  const stamp = async () => {
    const { json } = await request('GET', `${monitor.url}/pod-metrics`, { token });
    // Absent until something was measured.
    return z.object({ timestamp: z.string().default('') }).parse(json).timestamp;
  };
  for (let refresh = 0; refresh < 3; refresh++) {
    const before = await stamp();
    await until(async () => (await stamp()) !== before, { timeoutMs: 60_000 });
  }
}

test('alerts: one notification for each episode of crashes, want of memory and a full disk', async (t) => {
  const monitor = await openMonitor(t);
  const ann = await monitor.person('ann');
  const id = await monitor.container(ann, 'web');
  const { clock, measured } = monitor;
  const well = podSample(ann.id, id);
  const told = async () => (await monitor.outbox()).map(({ userId, title }) => `${userId === ann.id} ${title}`);
  const show = async (pod: typeof well) => {
    measured.pods = [pod];
    await settled(monitor, ann.token);
  };
  measured.pods = [well];
  measured.problem = undefined;
  await settled(monitor, ann.token);
  assert.deepEqual(await told(), []);

  const crashes = [3, 2, 1].map((ago) => clock.now() - ago * MINUTE);
  const ill = { ...well, crashedAt: crashes, oomKills: 1, oomAt: clock.now(), diskBytes: 0.95 * 2 ** 30 };
  measured.pods = [ill];
  await until(async () => (await told()).length >= 3, { timeoutMs: 60_000 });
  await show({ ...ill, crashedAt: [...crashes, clock.now()], oomKills: 2, oomAt: clock.now() });
  const first = ['true Container keeps crashing', 'true Container out of memory', 'true Disk nearly full'];
  assert.deepEqual((await told()).sort(), first);
  const [notice] = await monitor.outbox();
  assert.equal(notice?.link, `/containers/${id}`);

  // Between nine tenths and eight nothing ends, and a few quiet minutes end nothing either.
  clock.advance(5 * MINUTE);
  await show({ ...ill, diskBytes: 0.85 * 2 ** 30 });
  await show(ill);
  assert.equal((await told()).length, 3);

  // More than was promised is an episode of its own.
  measured.pods = [{ ...ill, diskBytes: 1.2 * 2 ** 30 }];
  await until(async () => (await told()).includes('true Disk full'), { timeoutMs: 60_000 });
  await settled(monitor, ann.token);
  assert.equal((await told()).length, 4);

  clock.advance(16 * MINUTE);
  await show(well);
  const openRows = async () => (await monitor.db.many(z.object({}), 'select from container_alerts')).length;
  await until(async () => (await openRows()) === 0, { timeoutMs: 60_000, what: 'all episodes are over' });
  measured.pods = [
    {
      ...ill,
      crashedAt: [1, 2, 3].map((ago) => clock.now() - ago * 1000),
      oomAt: clock.now(),
    },
  ];
  await until(async () => (await told()).length >= 7, { timeoutMs: 60_000, what: 'the next episode is told' });
  await settled(monitor, ann.token);
  assert.deepEqual((await told()).sort(), [...first, ...first, 'true Disk full'].sort());
});

test('alerts: the administrator is told once when a disk of the machine is nearly full, and again the next time', async (t) => {
  const monitor = await openMonitor(t);
  const boss = await monitor.person(ADMIN);
  const { measured } = monitor;
  const disks = (share: number) => [
    { path: '/', usedBytes: 10, capacityBytes: 100 },
    { path: '/data', usedBytes: share, capacityBytes: 100 },
  ];
  const show = async (share: number) => {
    measured.nodes = [nodeSample({ disks: disks(share) })];
    await settled(monitor, boss.token);
  };
  const told = async () =>
    (await monitor.outbox()).map(({ userId, ...rest }) => [
      userId === boss.id,
      rest.category,
      rest.scope,
      rest.message,
    ]);
  measured.problem = undefined;
  measured.nodes = [nodeSample({ disks: disks(89) })];
  await show(89);
  assert.deepEqual(await told(), []);
  await show(93);
  const first = [true, 'storage', 'core', 'The disk at /data of box1 is 93 % full.'];
  await until(async () => (await told()).length > 0, { timeoutMs: 60_000 });
  await show(85);
  await show(95);
  assert.deepEqual(await told(), [first]);
  // A moment below ends nothing: of two monitors one may have looked before.
  await show(50);
  await show(95);
  assert.equal((await told()).length, 1);
  monitor.clock.advance(11 * MINUTE);
  await show(50);
  const openRows = async () => (await monitor.db.many(z.object({}), 'select from disk_alerts')).length;
  await until(async () => (await openRows()) === 0, { timeoutMs: 60_000, what: 'the episode is over' });
  await show(96);
  await until(async () => (await told()).length > 1, { timeoutMs: 60_000 });
  assert.deepEqual(await told(), [first, [...first.slice(0, 3), 'The disk at /data of box1 is 96 % full.']]);
});
