/** Notifications of the running platform: a container that starts is told on the socket, directly and through the gateway. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { type NotificationView, notificationSchema } from '../../proto/notify/endpoints.ts';
import { type TestSocket, UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the password of this test';

describe('notifications', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let env: Record<string, string>;
  let data: string;
  let admin = '';
  let ann = '';

  before(async () => {
    data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    env = { DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: PASSWORD };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: `${PASSWORD}\n` });
    assert.equal(added.code, 0, added.stderr);
    const { auth } = platform.ready.urls;
    [admin, ann] = [await logIn(auth, 'admin', PASSWORD), await logIn(auth, 'ann', PASSWORD)];
  });
  after(async () => {
    if (ann !== '') await deleteAll(platform.ready.urls.compute, admin, ann);
    for (const end of ends) await end();
  });

  const notify = () => platform.ready.urls.notify;
  const open = (token: string, query = '') =>
    websocket(cleanup, `${notify().replace('http', 'ws')}/ws/notifications${query}`, {
      headers: { authorization: `Bearer ${token}` },
    });
  const next = async (socket: TestSocket, timeoutMs = 60_000): Promise<NotificationView> =>
    notificationSchema.strict().parse(await socket.json(timeoutMs));
  const list = async (token: string) =>
    z
      .array(notificationSchema.strict())
      .parse((await request('GET', `${notify()}/api/notifications`, { token })).json.list);

  test('starting and stopping a container is told to its owner, on every socket, and to nobody else', async () => {
    const { compute } = platform.ready.urls;
    const [one, two, other] = [await open(ann), await open(ann), await open(admin)];
    const key = await request('POST', `${compute}/compute/ssh-keys`, {
      token: ann,
      body: { name: 'k', public_key: publicKey() },
    });
    const created = await request('POST', `${compute}/compute/containers`, {
      token: ann,
      body: { name: 'web', ssh_key_ids: [key.json.id] },
    });
    const id = z.string().parse(created.json.id);
    const started = await next(one);
    assert.deepEqual(
      [started.title, started.message, started.link, started.category, started.scope, started.read],
      ['Container started', '"web" is running.', `/containers/${id}`, 'compute', '', false],
    );
    assert.deepEqual(await next(two), started);
    await request('POST', `${compute}/compute/containers/${id}/stop`, { token: ann });
    assert.equal((await next(one)).title, 'Container stopped');
    const again = await open(ann, `?since=${started.id}`);
    assert.equal((await next(again)).title, 'Container stopped');
    assert.deepEqual(
      (await list(ann)).map(({ title }) => title),
      ['Container stopped', 'Container started'],
    );
    assert.deepEqual(await list(admin), []);
    assert.equal(other.queued(), 0);
    assert.equal(
      (await request('POST', `${notify()}/api/notifications/${started.id}/read`, { token: admin })).status,
      404,
    );
    assert.equal(
      (await request('POST', `${notify()}/api/notifications/${started.id}/read`, { token: ann })).status,
      200,
    );
    assert.deepEqual((await request('GET', `${notify()}/api/notifications/unread-count`, { token: ann })).json, {
      count: 1,
    });
    for (const socket of [one, two, again, other]) await socket.close(1000);
  });

  test('an operator tells everybody while it runs', async () => {
    const sockets = [await open(ann), await open(admin)];
    const sent = await troupe(
      ['notify', 'send', '--everybody', '--title', 'Maintenance', '--body', 'at noon', '--json', '--data', data],
      { env },
    );
    assert.deepEqual([sent.code, sent.stdout], [0, '{"users":2}\n'], sent.stderr);
    for (const socket of sockets) assert.equal((await next(socket)).title, 'Maintenance');
    for (const socket of sockets) await socket.close(1000);
  });

  test('the gateway reaches it by host and by path, with the origins of the platform', async () => {
    const ca = await readFile(join(data, 'ca.pem'), 'utf8');
    const { port } = new URL(platform.ready.urls.https);
    for (const host of ['notify.troupe.localhost', 'troupe.localhost']) {
      const through = (origin: string) =>
        websocket(cleanup, `wss://127.0.0.1:${port}/ws/notifications?since=0&token=${ann}`, {
          ...{ ca, servername: host, origin },
          headers: { host },
        });
      const socket = await through(`https://console.troupe.localhost:${port}`);
      assert.equal((await next(socket)).title, 'Container started');
      await socket.close(1000);
      await assert.rejects(
        through('https://evil.test'),
        (error) => error instanceof UpgradeRefused && error.status === 403,
      );
    }
    assert.ok(!platform.log().includes(ann), 'a token reached the log');
  });

  test('service accounts that come and go are told', async () => {
    const { auth } = platform.ready.urls;
    const socket = await open(ann);
    const made = await request('POST', `${auth}/api/service-accounts`, {
      token: ann,
      body: { name: 'ci', scopes: {} },
    });
    assert.equal(made.status, 200, JSON.stringify(made.json));
    assert.equal((await next(socket)).category, 'auth');
    await request('DELETE', `${auth}/api/service-accounts/${made.json.id}`, { token: ann });
    assert.equal((await next(socket)).category, 'auth');
    await until(async () => (await list(ann)).filter(({ category }) => category === 'auth').length === 2);
    await socket.close(1000);
  });

  test('it has its pages and its numbers', async () => {
    assert.deepEqual((await request('GET', `${notify()}/healthz`)).json, { status: 'ok' });
    assert.match(await (await fetch(`${notify()}/metrics`)).text(), /^troupe_notify_stored_total [1-9]/m);
    const { json } = await request('GET', `${notify()}/openapi.json`);
    assert.ok(Object.keys(z.record(z.string(), z.unknown()).parse(json.paths)).includes('/ws/notifications'));
  });
});
