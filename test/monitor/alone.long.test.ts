/** `troupe monitor` alone, on a Docker Engine of the test's own that may stand still, with containers that work. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { newId } from '../../proto/ids.ts';
import { podsSchema } from '../../proto/monitor/endpoints.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { setSetting } from '../../storage/settings.ts';
import { jsonLines } from '../../transports/engines/common/calls.ts';
import { DockerClient } from '../../transports/engines/docker/api/client.ts';
import {
  dockerdInstalled,
  startPrivateDockerd,
  stopPrivateDockerd,
} from '../../transports/engines/docker/host/private-dockerd.ts';
import { websocket } from '../support/clients/websocket.ts';
import { request, spawnTroupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { buildTinyImage, tinyImageMissing } from '../support/engine/tiny-image.ts';
import { silentLog } from '../support/log.ts';
import { sse } from '../support/monitor/event-streams.ts';
import { receiver } from '../support/monitor/otlp-receiver.ts';
import { skipUnless } from '../support/require.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const SECRET = 'a secret of the tests, 32 bytes or more';
const INSTALLATION = 'alone';
const REFRESH_MS = 2000;
const canStart = dockerdInstalled() && process.getuid?.() === 0 && tinyImageMissing() === undefined;

/** What a container has used of the processor at some moments, as its cgroup says. */
class CgroupWatch {
  readonly #file: string;
  readonly #nsOf: (text: string) => number;
  readonly #seen: { at: number; usedNs: number }[] = [];
  readonly #timer: NodeJS.Timeout;

  private constructor(file: string, nsOf: (text: string) => number) {
    this.#file = file;
    this.#nsOf = nsOf;
    this.#timer = setInterval(() => void this.#look().catch(() => undefined), 50);
  }

  /** Of the cgroup of a process, version 1 or 2. */
  static async of(t: Cleanup, pid: number): Promise<CgroupWatch> {
    const lines = (await readFile(`/proc/${pid}/cgroup`, 'utf8')).trim().split('\n');
    const [, , path = ''] = lines.find((line) => line.split(':')[1]?.split(',').includes('cpuacct'))?.split(':') ?? [];
    const [old, both] = ['cpuacct', 'cpu,cpuacct'].map((name) => `/sys/fs/cgroup/${name}${path}/cpuacct.usage`);
    const file = [old, both].find((one) => path !== '' && one !== undefined && existsSync(one));
    const unified = `/sys/fs/cgroup${lines.find((line) => line.startsWith('0::'))?.slice(3)}/cpu.stat`;
    const watch =
      file !== undefined
        ? new CgroupWatch(file, Number)
        : new CgroupWatch(unified, (text) => Number(/^usage_usec (\d+)/m.exec(text)?.[1]) * 1000);
    t.after(() => clearInterval(watch.#timer));
    await watch.#look();
    return watch;
  }

  /** Thousandths of a core between two moments, Unix ms. */
  meanMillis(from: number, to: number): number {
    return ((this.#usedAt(to) - this.#usedAt(from)) / 1e6 / (to - from)) * 1000;
  }

  /** Whether it has looked since. */
  hasSeen(at: number): boolean {
    return (this.#seen.at(-1)?.at ?? 0) > at;
  }

  async #look(): Promise<void> {
    const before = Date.now();
    const usedNs = this.#nsOf(await readFile(this.#file, 'utf8'));
    this.#seen.push({ at: (before + Date.now()) / 2, usedNs });
  }

  #usedAt(at: number): number {
    const index = this.#seen.findIndex((one) => one.at >= at);
    const [left, right] = [this.#seen[index - 1], this.#seen[index]];
    if (left === undefined || right === undefined) return Number.NaN;
    return left.usedNs + ((right.usedNs - left.usedNs) * (at - left.at)) / Math.max(1, right.at - left.at);
  }
}

describe('the monitor alone', {
  skip: skipUnless(canStart, 'a Docker Engine of its own takes root and docker.io'),
  timeout: 900_000,
}, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let [url, token, container] = ['', '', ''];
  let pid = 0;
  let client: DockerClient;
  let logs: Awaited<ReturnType<typeof receiver>>['got'];

  before(async () => {
    const dataDir = await tempDir(cleanup);
    cleanup.after(() => stopPrivateDockerd({ dataDir, log: silentLog, graceSeconds: 0 }));
    const dockerd = await startPrivateDockerd({ dataDir, log: silentLog });
    pid = dockerd.pid;
    client = new DockerClient(dockerd.host);
    cleanup.after(() => client.close());
    const image = await buildTinyImage();
    await image.build(client, () => {}, new AbortController().signal);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const [userId, containerId] = [newId(), newId()];
    await insertUser(database.db, { id: userId, username: 'ann', passwordHash: 'none' });
    await setSetting(database.db, 'installation', INSTALLATION);
    const user = { id: userId, username: 'ann', isAdmin: false };
    ({ token } = await sessionTokens(SECRET, 3600, { now: Date.now })(user));
    const created = await client.json('POST', '/containers/create', z.object({ Id: z.string() }), {
      query: { name: `troupe-${INSTALLATION}-${containerId}` },
      body: {
        Image: image.reference,
        Cmd: ['sleep', '3600'],
        Labels: { 'troupe.installation': INSTALLATION, 'troupe.user': userId, 'troupe.container': containerId },
        HostConfig: { NanoCpus: 5e8, Memory: 64 * 2 ** 20, NetworkMode: 'none', Init: true },
      },
    });
    container = created.Id;
    await client.call('POST', `/containers/${container}/start`);
    const collector = await receiver(cleanup);
    logs = collector.got;
    const flags = ['-addr', '127.0.0.1:0', '-refresh', `${REFRESH_MS}ms`, '-api-server', dockerd.host];
    const shipping = ['-log-service', `127.0.0.1:${collector.port}`, '-log-source', 'the-test'];
    const roles = await database.serviceRoles();
    const env = { DATABASE_URL: roles.urlOf('monitor'), JWT_SECRET: SECRET, NATS_URL: '' };
    const child = spawnTroupe(['monitor', ...flags, ...shipping, '--json'], env);
    const ended = once(child, 'close');
    cleanup.after(async () => {
      child.kill('SIGTERM');
      assert.equal((await ended)[0], 0);
    });
    child.stderr.resume();
    const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
    const { port } = z.object({ ready: z.literal(true), port: z.number() }).parse(JSON.parse(String(first.value)));
    url = `http://127.0.0.1:${port}`;
    await until(async () => (await pods()).pods.length === 1, { timeoutMs: 60_000, what: 'the container is measured' });
  });
  after(async () => {
    if (pid > 0) process.kill(pid, 'SIGCONT');
    for (const end of ends) await end();
  });

  const pods = async () => {
    const { status, json } = await request('GET', `${url}/pod-metrics`, { token });
    return status === 503 ? { timestamp: '', pods: [] } : podsSchema.parse(json);
  };
  const numbers = async () => {
    const text = await (await fetch(`${url}/metrics`)).text();
    const lines = new Map(text.split('\n').map((line) => [line.split(' ')[0], Number(line.split(' ')[1])]));
    return (name: string) => lines.get(name) ?? Number.NaN;
  };

  test('a container that burns half a core shows it in the second snapshot, to a tenth of what its cgroup counts meanwhile', async (t) => {
    const state = z.object({ State: z.object({ Pid: z.number() }) });
    const { State } = await client.json('GET', `/containers/${container}/json`, state);
    const cgroup = await CgroupWatch.of(t, State.Pid);
    // The moments at which the engine measured, which the monitor's snapshots lie between.
    const stamps: number[] = [];
    const stop = new AbortController();
    t.after(() => stop.abort());
    const follow = async () => {
      const stream = await client.stream('GET', `/containers/${container}/stats`, { signal: stop.signal });
      for await (const line of jsonLines(stream))
        stamps.push(Date.parse(z.object({ read: z.string() }).parse(line).read));
    };
    follow().catch(() => undefined);
    const stream = await sse(t, `${url}/sse/pod-metrics`, { token });
    await until(() => stream.events.length > 0 && stamps.length > 1, { timeoutMs: 60_000 });
    const { Id } = await client.json('POST', `/containers/${container}/exec`, z.object({ Id: z.string() }), {
      body: { Cmd: ['timeout', '120', 'sh', '-c', 'while :; do :; done'] },
    });
    await client.call('POST', `/exec/${Id}/start`, { body: { Detach: true } });
    const began = Date.now();
    const since = () =>
      stream.events
        .map(({ data }) => podsSchema.parse(data))
        .map(({ timestamp, pods: [pod] }) => ({ at: Date.parse(timestamp), cpu: pod?.cpu_usage ?? 0 }))
        .filter(({ at }) => at > began);
    await until(() => since().length >= 2, { timeoutMs: 60_000, what: 'two refreshes' });
    const [first, second] = since();
    assert.ok(first !== undefined && second !== undefined);
    await until(() => cgroup.hasSeen(second.at));
    // The last measurement before a snapshot, or one before that if its line was late.
    const lastBefore = (at: number) => stamps.filter((stamp) => stamp <= at).slice(-3);
    const possible = lastBefore(second.at).flatMap((to) =>
      lastBefore(first.at).flatMap((from) => (from < to ? [cgroup.meanMillis(from, to)] : [])),
    );
    const shown = `shown ${second.cpu}, the cgroup counted ${possible.map(Math.round).join(' or ')}`;
    assert.ok(
      possible.some((mean) => mean > 20 && Math.abs(second.cpu - mean) <= mean / 10),
      shown,
    );
    const [pod] = (await pods()).pods;
    assert.equal(pod?.cpu_capacity, 500);
    assert.equal(pod?.memory_capacity, 64 * 2 ** 20);
  });

  test('while the engine stands still the last snapshot stays with its time, /healthz says so, and it recovers', async (t) => {
    const stream = await sse(t, `${url}/sse/pod-metrics`, { token });
    await until(() => stream.events.length > 0, { timeoutMs: 60_000 });
    const health = async () => {
      const { status, json } = await request('GET', `${url}/healthz`);
      return `${status} ${JSON.stringify(json)}`;
    };
    process.kill(pid, 'SIGSTOP');
    await until(async () => /^503 .*docker: .*last measured \d+ s ago/.test(await health()), { timeoutMs: 60_000 });
    const last = await pods();
    assert.equal(last.pods.length, 1);
    const age = async () => Date.now() / 1000 - (await numbers())('troupe_monitor_pods_timestamp_seconds');
    const [before, events] = [await age(), stream.events.length];
    await until(async () => (await age()) > before + 2, { timeoutMs: 60_000, what: 'the age grows' });
    assert.equal((await pods()).timestamp, last.timestamp);
    assert.equal(stream.events.length, events);
    assert.equal(stream.isOver(), false);
    assert.ok((await numbers())('troupe_monitor_source_failures_total') >= 1);
    process.kill(pid, 'SIGCONT');
    await until(async () => (await health()) === '200 {"status":"ok"}', { timeoutMs: 60_000, what: 'it recovers' });
    await until(() => stream.events.length > events, { timeoutMs: 60_000, what: 'the stream goes on' });
    assert.notEqual((await pods()).timestamp, last.timestamp);
  });

  test('-log-service: what the command logs arrives over OTLP, under the name of -log-source', async () => {
    const line = await until(() => logs.find(({ text }) => text === 'a source of metrics does not answer'), {
      timeoutMs: 30_000,
    });
    assert.deepEqual([line.source, line.level, line.fields.source], ['the-test', 'warn', 'docker']);
    assert.ok((await numbers())('troupe_logs_shipped_total') >= 1);
  });

  test('a refresh costs as many engine calls with 1 client as with 200', async (t) => {
    const counts = async () => {
      const of = await numbers();
      return {
        calls: of('troupe_monitor_source_calls_total{source="docker"}'),
        refreshes: of('troupe_monitor_refreshes_total'),
        clients: of('troupe_monitor_event_streams') + of('troupe_monitor_sockets'),
      };
    };
    const callsPerRefresh = async () => {
      const from = await counts();
      const isOver = async () => {
        const now = await counts();
        return now.calls >= from.calls + 6 ? now : undefined;
      };
      const to = await until(isOver, { everyMs: 100, timeoutMs: 60_000 });
      // Once a minute the disks are added up, and a refresh may be under way at either end; a source that is still busy is not asked again.
      return (to.calls - from.calls) / (to.refreshes - from.refreshes);
    };
    await sse(t, `${url}/sse/pod-metrics`, { token });
    await until(async () => (await counts()).clients === 1, {
      timeoutMs: 30_000,
      what: 'clients of other tests are gone',
    });
    const withOne = await callsPerRefresh();
    const headers = { authorization: `Bearer ${token}` };
    await Promise.all(
      Array.from({ length: 100 }, async () => {
        await sse(t, `${url}/sse/pod-metrics`, { token });
        await websocket(t, `${url.replace('http', 'ws')}/ws/pod-metrics`, { headers });
      }),
    );
    assert.equal((await counts()).clients, 201);
    const withMany = await callsPerRefresh();
    assert.ok(withOne < 1.5 && withMany < 1.5, `${withOne} calls a refresh with one client, ${withMany} with 201`);
  });
});
