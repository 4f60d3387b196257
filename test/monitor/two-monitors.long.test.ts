/** The platform and a second monitor beside it: alerts from a container or a disk to rows and sockets, and tokens that end streams. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { nodesSchema } from '../../proto/monitor/endpoints.ts';
import { notificationSchema } from '../../proto/notify/endpoints.ts';
import { startBox } from '../support/clients/container.ts';
import { websocket } from '../support/clients/websocket.ts';
import {
  deleteAll,
  logIn,
  type RunningPlatform,
  request,
  spawnTroupe,
  startPlatform,
  troupe,
} from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { inDocker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { runIn, sse } from '../support/monitor/event-streams.ts';
import { mountSkip, mountSmall } from '../support/monitor/small-disk.ts';
import { until } from '../support/until.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const JWT_SECRET = 'a secret of the tests, 32 bytes or more';
const MB = 2 ** 20;

describe('the platform with a second monitor', { skip: skipWithoutDocker() || mountSkip(), timeout: 220_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let env: Record<string, string>;
  let [data, admin, ann, box, monitor] = ['', '', '', '', ''];

  before(async () => {
    data = await mountSmall(cleanup, '20m');
    const database = await testDatabase();
    cleanup.after(() => database.close());
    env = { JWT_SECRET, DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD, NATS_URL: '' };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    const { auth, compute } = platform.ready.urls;
    const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: 'the password of ann\n' });
    assert.equal(added.code, 0, added.stderr);
    admin = await logIn(auth, 'admin', ADMIN_PASSWORD);
    ann = await logIn(auth, 'ann', 'the password of ann');
    box = (await startBox(compute, ann, data)).id;
    // Nearly all of what was promised to it, and nothing in truth.
    await runIn(box, 'truncate -s 4700M /root/large');
    // A second monitor on the same database, which measures soon and often: whichever sees something first tells of it.
    const child = spawnTroupe(['monitor', '-addr', '127.0.0.1:0', '-refresh', '500ms', '--json'], env);
    const ended = once(child, 'close');
    cleanup.after(async () => {
      child.kill('SIGTERM');
      assert.equal((await ended)[0], 0);
    });
    child.stderr.resume();
    const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
    monitor = `http://127.0.0.1:${z.object({ port: z.number() }).parse(JSON.parse(String(first.value))).port}`;
  });
  after(async () => {
    if (ann !== '') await deleteAll(platform.ready.urls.compute, ann);
    for (const end of ends) await end();
  });

  /** What came over `/ws/notifications` from now on, and what is kept, by title. */
  const listen = async (t: { after(end: () => void): void }, token: string) => {
    const { notify } = platform.ready.urls;
    const socket = await websocket(t, `${notify.replace('http', 'ws')}/ws/notifications?token=${token}`);
    const came: z.output<typeof notificationSchema>[] = [];
    socket.socket.on('message', (text) => came.push(notificationSchema.strict().parse(JSON.parse(String(text)))));
    const rows = async (title: string) => {
      const { json } = await request('GET', `${notify}/api/notifications?limit=100`, { token });
      return z
        .array(notificationSchema)
        .parse(json.list)
        .filter((row) => row.title === title);
    };
    return { came: (title: string) => came.filter((one) => one.title === title), rows };
  };
  /** Waits until both monitors have measured twice. */
  const measuredAgain = async () => {
    const stamps = () =>
      Promise.all(
        [platform.ready.urls.monitor, monitor].map(async (url) => {
          const { json } = await request('GET', `${url}/pod-metrics`, { token: ann });
          return z.string().parse(json.timestamp);
        }),
      );
    for (let round = 0; round < 2; round++) {
      const before = await stamps();
      await until(async () => (await stamps()).every((stamp, index) => stamp !== before[index]), {
        timeoutMs: 60_000,
        everyMs: 100,
      });
    }
  };
  const isUp = async () => (await inDocker(box))[0]?.state === 'running';

  test('streams of both processes end when their API token is deleted, or its service account loses the scope', async (t) => {
    const { auth, monitor: platforms } = platform.ready.urls;
    const post = async (path: string, body: object) => {
      const { status, json } = await request('POST', auth + path, { token: ann, body });
      assert.equal(status, 200, JSON.stringify(json));
      return z.object({ id: z.string(), token: z.string().default('') }).parse(json);
    };
    const uid = z.string().parse((await request('GET', `${auth}/api/session`, { token: ann })).json.user_id);
    const scopes = { [`compute.${uid}.containers`]: ['read'] };
    const own = await post('/api/tokens', { name: 'own', scopes, expires_in: 'never' });
    const account = await post('/api/service-accounts', { name: 'robot', scopes });
    const robot = await post(`/api/service-accounts/${account.id}/tokens`, { name: 'robot', expires_in: 'never' });
    const open = (token: string) =>
      Promise.all(
        [platforms, monitor].map(async (url) => ({
          stream: await sse(t, `${url}/sse/health`, { token }),
          socket: await websocket(t, `${url.replace('http', 'ws')}/ws/pod-metrics?token=${token}`),
        })),
      );
    const [owns, robots] = [await open(own.token), await open(robot.token)];
    const reasons = async (streams: typeof owns) => {
      await until(() => streams.every(({ stream }) => stream.isOver()), { what: 'all event streams end' });
      return Promise.all(streams.map(async ({ socket }) => (await socket.closed).reason));
    };
    assert.equal((await request('DELETE', `${auth}/api/tokens/${own.id}`, { token: ann })).status, 200);
    assert.deepEqual(await reasons(owns), ['token revoked', 'token revoked']);
    assert.ok(robots.every(({ stream }) => !stream.isOver()));
    const changed = { scopes: { [`networking.${uid}`]: ['read'] } };
    const path = `/api/service-accounts/${account.id}/scopes`;
    assert.equal((await request('PUT', auth + path, { token: ann, body: changed })).status, 200);
    assert.deepEqual(await reasons(robots), ['scope withdrawn', 'scope withdrawn']);
  });

  test("a container's disk: one row for its user, kept from before anybody listened", async (t) => {
    const { rows } = await listen(t, ann);
    await until(async () => (await rows('Disk nearly full')).length > 0, { timeoutMs: 60_000, everyMs: 200 });
    const [row] = await rows('Disk nearly full');
    assert.equal(row?.category, 'storage');
    assert.match(row.scope, new RegExp(`^compute-.*-${box}$`));
    await measuredAgain();
    assert.equal((await rows('Disk nearly full')).length, 1);
  });

  test('out of memory: one row and one message an episode', async (t) => {
    const { came, rows } = await listen(t, ann);
    const title = 'Container out of memory';
    await runIn(box, 'tail -c 900000000 /dev/zero');
    await until(async () => came(title).length > 0 && (await rows(title)).length > 0, {
      timeoutMs: 90_000,
      everyMs: 200,
    });
    await runIn(box, 'tail -c 900000000 /dev/zero');
    await measuredAgain();
    await measuredAgain();
    assert.deepEqual([came(title).length, (await rows(title)).length], [1, 1]);
    assert.deepEqual([came(title)[0]?.category, came(title)[0]?.link], ['compute', `/containers/${box}`]);
  });

  test('a crash loop: one row and one message an episode', async (t) => {
    const { came, rows } = await listen(t, ann);
    const title = 'Container keeps crashing';
    for (let crash = 0; crash < 4; crash++) {
      await until(isUp, { timeoutMs: 60_000, everyMs: 50, what: `it runs for crash ${crash}` });
      // From within, so that no engine was told.
      await runIn(box, 'kill -TERM 1').catch(() => undefined);
      await until(async () => !(await isUp()), { timeoutMs: 60_000, what: 'it ends' });
    }
    await until(async () => came(title).length > 0 && (await rows(title)).length > 0, {
      timeoutMs: 90_000,
      everyMs: 200,
    });
    await measuredAgain();
    assert.deepEqual([came(title).length, (await rows(title)).length], [1, 1]);
  });

  test('the disk of the data folder: the node shows it, and the administrator is told once', async (t) => {
    const { came, rows } = await listen(t, admin);
    const title = 'Disk nearly full';
    assert.equal((await rows(title)).filter(({ message }) => message.includes(data)).length, 0);
    await writeFile(join(data, 'fills-it'), Buffer.alloc(18.8 * MB));
    const node = async () => {
      const { json } = await request('GET', `${platform.ready.urls.monitor}/cluster-info`, { token: admin });
      return nodesSchema.parse(json).nodes[0];
    };
    await until(async () => (await node())?.disk_capacity === 20 * MB, { timeoutMs: 60_000, everyMs: 200 });
    const pressure = (await node())?.conditions.find(({ type }) => type === 'DiskPressure');
    assert.equal(pressure?.status, 'True');
    const ofData = () => came(title).filter(({ message }) => message.includes(data));
    await until(() => ofData().length > 0, { timeoutMs: 60_000 });
    await measuredAgain();
    const kept = (await rows(title)).filter(({ message }) => message.includes(data));
    assert.deepEqual([ofData().length, kept.length], [1, 1]);
    assert.deepEqual([kept[0]?.category, kept[0]?.scope], ['storage', 'core']);
  });
});
