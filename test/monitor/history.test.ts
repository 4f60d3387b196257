/** What is kept of measurements, and who is told. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COARSE_STEP, FINE_STEP, History } from '../../actors/monitor/history.ts';
import { metricsHistory } from '../../proto/monitor/endpoints.ts';
import { request } from '../support/cluster/platform.ts';
import { nodeSample, podSample } from '../support/monitor/samples.ts';
import { ADMIN, openMonitor } from '../support/service/monitor.ts';
import { until } from '../support/until.ts';

const MB = 2 ** 20;
/** Of a whole minute, Unix seconds. */
const BEGIN = 1_800_000_000 - (1_800_000_000 % 60);
const namespace = 'compute-ann-c0';

test('the last hour is kept by 5 seconds and the last day by the minute, and no more', () => {
  const history = new History();
  const refreshes = 2 * 24 * 720;
  for (let i = 0; i < refreshes; i++) {
    const pod = podSample('ann', 'c0', { cpuMillis: i % 12, memoryBytes: (1 + (i % 12)) * MB, diskBytes: i * 1024 });
    history.take([pod], (BEGIN + i * FINE_STEP) * 1000);
  }
  const fine = history.of(namespace, FINE_STEP, 0);
  assert.deepEqual([fine.timestamps.length, fine.timestamps.at(-1)], [720, BEGIN + (refreshes - 1) * FINE_STEP]);
  assert.deepEqual(fine.disk_usage.slice(-2), [(refreshes - 2) * 1024, (refreshes - 1) * 1024]);
  assert.deepEqual(
    fine.timestamps,
    [...fine.timestamps].sort((a, b) => a - b),
  );
  const coarse = history.of(namespace, COARSE_STEP, 0);
  assert.equal(coarse.timestamps.length, 1440);
  // The mean of 0 to 11, the most of 1 to 12 MB.
  assert.deepEqual([coarse.cpu_usage[0], coarse.memory_usage[0]], [6, 12 * MB]);
  const since = BEGIN + (refreshes - 10) * FINE_STEP;
  assert.equal(history.of(namespace, FINE_STEP, since).timestamps.length, 10);
});

test('a monitor that refreshes more often keeps no more; containers beyond the bound, and the platform itself, have none', () => {
  const history = new History();
  const pods = Array.from({ length: 2001 }, (_, i) => podSample('ann', `c${i}`));
  const { userId: _, ...core } = podSample('', 'core', { namespace: 'core' });
  for (let i = 0; i < 50; i++) history.take([core, ...pods], BEGIN * 1000 + i * 1000);
  assert.equal(history.of(namespace, FINE_STEP, 0).timestamps.length, 10);
  assert.equal(history.of('compute-ann-c1999', FINE_STEP, 0).timestamps.length, 10);
  for (const none of ['compute-ann-c2000', 'core', 'compute-bob-c0'])
    assert.deepEqual(history.of(none, FINE_STEP, 0).timestamps, [], none);
});

test('what was not measured for a day is forgotten, and makes room', () => {
  const history = new History();
  history.take([podSample('ann', 'c0')], BEGIN * 1000);
  history.take([podSample('ann', 'c1')], (BEGIN + 86_500) * 1000);
  assert.deepEqual(history.of(namespace, FINE_STEP, 0).timestamps, []);
  assert.equal(history.of('compute-ann-c1', FINE_STEP, 0).timestamps.length, 1);
});

test('a user reads the history of their own containers, the administrator of all', async (t) => {
  const monitor = await openMonitor(t, { adapter: 'own' });
  const [boss, ann, bob] = [await monitor.person(ADMIN), await monitor.person('ann'), await monitor.person('bob')];
  monitor.measured.nodes = [nodeSample()];
  monitor.measured.problem = undefined;
  monitor.measured.pods = [podSample(ann.id, 'c0', { cpuMillis: 7 })];
  const ask = async (token: string, more = '') => {
    const query = `?namespace=compute-${ann.id}-c0${more}`;
    const { status, json } = await request('GET', `${monitor.url}${metricsHistory.path}${query}`, { token });
    assert.equal(status, 200, JSON.stringify(json));
    return metricsHistory.reply?.parse(json);
  };
  await until(async () => (await ask(ann.token))?.cpu_usage[0] === 7, { what: 'the first point' });
  assert.equal((await ask(ann.token))?.step, FINE_STEP);
  assert.equal((await ask(boss.token))?.cpu_usage[0], 7);
  assert.deepEqual((await ask(bob.token))?.timestamps, []);
  assert.equal((await ask(ann.token, '&since=2026-01-01T00:00:00Z'))?.step, COARSE_STEP);
  assert.deepEqual((await ask(ann.token, '&since=99999999999'))?.timestamps, []);
  const refused = await request('GET', `${monitor.url}${metricsHistory.path}?namespace=x&since=soon`, {
    token: ann.token,
  });
  assert.equal(refused.status, 400);
});
