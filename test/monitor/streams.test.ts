/** The broadcaster and its clients without sockets: what they cost, what a slow one gets, and what a source that hangs leaves behind. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Broadcaster } from '../../actors/monitor/broadcaster.ts';
import { EventsClient } from '../../actors/monitor/clients.ts';
import { type MonitorDeps, monitorNumbers } from '../../actors/monitor/deps.ts';
import { Readings } from '../../actors/monitor/readings.ts';
import { type Audience, Snapshots } from '../../actors/monitor/snapshots.ts';
import { cpuQuantity, memoryQuantity, percentOf } from '../../actors/monitor/views.ts';
import { Connections } from '../../actors/service/parts.ts';
import type { MetricsSource, PodSample } from '../../proto/ports/metrics-source.ts';
import { start, stop, tree } from '../../supervision/index.ts';
import { silentLog } from '../support/log.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

function pod(userId: string, more: Partial<PodSample> = {}): PodSample {
  return {
    ...{ name: 'c', namespace: `compute-${userId}-c`, node: 'n', userId, containerId: 'c' },
    ...{ cpuMillis: 1, cpuCapacityMillis: 500, memoryBytes: 1, memoryCapacityBytes: 2, diskBytes: 1 },
    ...{ diskCapacityBytes: 10, restarts: 0, crashedAt: [], oomKills: 0 },
    ...more,
  };
}

function openBroadcaster(t: Cleanup, more: { maxClients?: number; maxClientsOfUser?: number } = {}) {
  const numbers = monitorNumbers();
  const never: unknown = undefined;
  const unused = { db: never, bus: never, log: never, sources: [], own: () => [], graph: never, refreshMs: 1000 };
  // The broadcaster uses its clock, its limits and nothing else.
  const deps = { ...unused, clock: { now: Date.now }, numbers, ...more } as unknown as MonitorDeps;
  const broadcaster = new Broadcaster(deps, new Snapshots());
  const system = start({ name: 'test', log: silentLog });
  t.after(() => stop(system));
  const connections = new Connections('monitor', { now: Date.now });
  const parent = connections.start(system);
  const client = (userId: string, audience: Audience = { userId }) =>
    new EventsClient(
      {
        broadcaster,
        connections,
        audience,
        userId,
        kinds: ['pods'],
        isCombined: false,
        expiresAt: Number.POSITIVE_INFINITY,
      },
      undefined,
    );
  /** Of the actors of event streams. */
  const kinds = () => tree(system).children.flatMap(({ children }) => children.map(({ kind }) => kind));
  return { broadcaster, numbers, client, parent, kinds };
}

/** What a client was written; it reads no further while `isFull`. */
function reader(client: EventsClient) {
  const sink = { frames: [] as string[], isFull: false, isOver: false };
  client.open({
    write: (chunk) => {
      sink.frames.push(Buffer.from(chunk).toString('utf8'));
      return !sink.isFull;
    },
    end: () => {
      sink.isOver = true;
    },
    fail: () => {
      sink.isOver = true;
    },
  });
  return sink;
}

test('10,000 idle event streams cost one encoding for each audience, and one more is refused', async (t) => {
  const { broadcaster, numbers, client } = openBroadcaster(t, { maxClients: 10_000, maxClientsOfUser: 1000 });
  t.after(() => broadcaster.close());
  const clients = Array.from({ length: 10_000 }, (_, index) => {
    const userId = `user${index % 10}`;
    broadcaster.admit(userId);
    return client(userId);
  });
  const readers = clients.map(reader);
  broadcaster.snapshots.setPods([pod('user1'), pod('user2')], 1);
  broadcaster.tell('pods');
  await until(() => numbers.pushed === 10_000);
  const frames = readers.map((one) => one.frames.at(-1) ?? '');
  assert.equal(frames.filter((text) => text.includes('compute-user1-')).length, 1000);
  assert.equal(broadcaster.snapshots.encodings, 10);
  assert.equal(numbers.pushed, 10_000);
  assert.throws(() => broadcaster.admit('another'), { code: 'overloaded' });
  for (const one of clients) one.end();
  assert.ok(readers.every(({ isOver }) => isOver));
  assert.deepEqual([broadcaster.size, numbers.streams], [0, 0]);
});

test('one user cannot take all streams', (t) => {
  const { broadcaster, client } = openBroadcaster(t, { maxClients: 10, maxClientsOfUser: 2 });
  t.after(() => broadcaster.close());
  client('ann');
  client('ann');
  assert.throws(() => broadcaster.admit('ann'), { code: 'overloaded' });
  broadcaster.admit('bob');
});

test('a slow client gets the newest snapshot, and nothing is kept for it meanwhile', (t) => {
  const { broadcaster, numbers, client } = openBroadcaster(t);
  t.after(() => broadcaster.close());
  const slow = client('ann');
  const sink = reader(slow);
  sink.isFull = true;
  for (let at = 1; at <= 6; at++) {
    broadcaster.snapshots.setPods([pod('ann')], at);
    broadcaster.tell('pods');
  }
  // The first filled it.
  assert.equal(sink.frames.length, 2);
  sink.isFull = false;
  slow.drain();
  assert.equal(sink.frames.length, 3);
  assert.match(sink.frames[2] ?? '', /"timestamp":"1970-01-01T00:00:00\.006Z"/);
  assert.equal(numbers.skipped, 4);
});

test('a stream that ended before it was opened is over at once, and leaves only once', (t) => {
  const { broadcaster, numbers, client } = openBroadcaster(t);
  t.after(() => broadcaster.close());
  const early = client('ann');
  early.end();
  assert.equal(reader(early).isOver, true);
  early.closed();
  assert.deepEqual([broadcaster.size, numbers.streams], [0, 0]);
});

test('users see their own pods: an id that begins like another is another', () => {
  const snapshots = new Snapshots();
  snapshots.setPods([pod('u1'), pod('u10'), pod('', { namespace: 'core' })], 1);
  assert.deepEqual(
    snapshots.pods({ userId: 'u1' })?.pods.map(({ namespace }) => namespace),
    ['compute-u1-c'],
  );
  assert.equal(snapshots.pods('admin')?.pods.length, 3);
  assert.equal(snapshots.pods({ userId: '' })?.pods.length, 0);
});

test('a source that hangs is asked once, leaves its last sample with its time, and is named', async () => {
  let release = () => {};
  let hangs = false;
  let calls = 0;
  const source: MetricsSource = {
    name: 'docker',
    get calls() {
      return calls;
    },
    read: () => {
      calls += 1;
      if (!hangs) return Promise.resolve({ pods: [pod('ann')] });
      return new Promise((resolve) => {
        release = () => resolve({ pods: [] });
      });
    },
    close: async () => {},
  };
  const readings = new Readings([source], 5000);
  const failures: string[] = [];
  const refresh = (now: number) =>
    readings.refresh(20, () => now, {
      onNodes() {},
      onPods() {},
      onFailure: (source, reason) => void failures.push(`${source}: ${reason}`),
    });
  await refresh(1000);
  hangs = true;
  await refresh(6000);
  await refresh(11_000);
  assert.deepEqual(failures, ['docker: it does not answer', 'docker: it does not answer']);
  assert.equal(calls, 2);
  assert.deepEqual([readings.pods()?.at, readings.pods()?.items.length], [1000, 1]);
  assert.deepEqual(readings.problems(6000, 10_000), []);
  assert.deepEqual(readings.problems(12_000, 10_000), ['docker: it does not answer (last measured 11 s ago)']);
  release();
});

test('an event stream has an actor among the connections: it ends with the stream, and the stream with it', async (t) => {
  const { broadcaster, numbers, client, parent, kinds } = openBroadcaster(t);
  const [gone, ended, left] = [client('ann'), client('ann'), client('bob')];
  const readers = [gone, ended, left].map(reader);
  assert.deepEqual(kinds(), ['monitor/events', 'monitor/events', 'monitor/events']);
  gone.closed();
  ended.end();
  await until(() => kinds().length === 1, { what: 'two actors have ended' });
  stop(parent);
  await until(() => readers[2]?.isOver === true, { what: 'the stream of the third ends with its actor' });
  assert.deepEqual([broadcaster.size, numbers.streams], [0, 0]);
  const late = client('ann');
  assert.equal(reader(late).isOver, true);
  assert.equal(broadcaster.size, 0);
});

test('quantities are in the notation of Kubernetes', () => {
  assert.deepEqual([0, 250.4, 1000, 1500].map(cpuQuantity), ['0', '250m', '1', '1500m']);
  assert.deepEqual([0, 1024, 24 * 2 ** 30].map(memoryQuantity), ['0Ki', '1Ki', '25165824Ki']);
  assert.deepEqual([percentOf(1, 3), percentOf(1, 0)], [33.33, 0]);
});
