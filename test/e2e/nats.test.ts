/** The platform with NATS_URL: what services publish, and what it does while the server is away. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import protobuf from 'protobufjs';
import { z } from 'zod';
import { CliError } from '../../cmd/config/cli-error.ts';
import { readEnvironment } from '../../cmd/config/config.ts';
import { openSecrets } from '../../cmd/config/data-dir.ts';
import { startPlatform } from '../../cmd/node/platform.ts';
import { outboxStore } from '../../storage/outbox.ts';
import { relayOutbox } from '../../transports/bus/relay.ts';
import { localCertificate } from '../../transports/gateway/tls/platform-certificate.ts';
import { BUS_SECRET, type NatsServerOptions, skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { logIn, request, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { memoryEngine } from '../support/engine/memory-engine.ts';
import { silentLog } from '../support/log.ts';
import { projectRoot } from '../support/project.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutNats();
const PASSWORD = 'the admin of this test';

/** A server, and a way to build the platform on it in this process, on containers in memory. */
async function setting(t: TestContext, options: NatsServerOptions = {}) {
  const database = await testDatabase();
  t.after(() => database.close());
  const nats = await startNats(t, options);
  const data = await tempDir(t);
  const up = async (url = nats.url, changes: Partial<Parameters<typeof startPlatform>[0]> = {}) => {
    const environment = readEnvironment({ ADMIN_PASSWORD: PASSWORD, NATS_URL: url });
    const platform = await startPlatform({
      environment,
      secrets: openSecrets(data, environment),
      database: database.connection,
      engine: async () => memoryEngine(),
      domain: 'troupe.localhost',
      host: '127.0.0.1',
      ports: { auth: 0, compute: 0, net: 0, monitor: 0, notify: 0, http: 0, https: 0, ssh: 0 },
      certificate: await localCertificate(
        data,
        { domain: 'troupe.localhost', containers: 'compute.troupe.localhost' },
        Date.now(),
      ),
      accessLog: undefined,
      isCaching: true,
      log: silentLog,
      onProgress: () => {},
      ...changes,
    });
    let stopped: Promise<void> | undefined;
    const stop = () => (stopped ??= platform.stop());
    t.after(stop);
    const token = await logIn(platform.urls.auth, 'admin', PASSWORD);
    const account = (name: string) =>
      request('POST', `${platform.urls.auth}/api/service-accounts`, { token, body: { name, scopes: {} } });
    /** How many notifications the administrator has. */
    const told = async () =>
      z
        .array(z.unknown())
        .parse((await request('GET', `${platform.urls.notify}/api/notifications`, { token })).json.list).length;
    return { platform, stop, account, told };
  };
  const cli = (...args: string[]) =>
    troupe(['dead-letters', ...args, '--data', data], { env: { DATABASE_URL: database.url, NATS_URL: '' } });
  return { database, nats, up, cli };
}

/** The titles of all notifications that are in the stream, read as another program would: by the .proto file. */
async function notifications(server: string): Promise<string[]> {
  const layout = protobuf.parse(await readFile(join(projectRoot, 'proto/notify/notification.proto'), 'utf8')).root;
  const type = layout.lookupType('troupe.Notification');
  const connection = await connect({ servers: server, reconnect: false });
  try {
    const manager = await jetstreamManager(connection);
    const { messages } = (await manager.streams.info('NOTIFICATIONS')).state;
    const titles: string[] = [];
    const consumer = await jetstream(connection).consumers.get('NOTIFICATIONS');
    while (titles.length < messages) {
      const message = await consumer.next({ expires: 1000 });
      if (message === null) break;
      titles.push(z.object({ message: z.string() }).parse(type.toObject(type.decode(message.data))).message);
    }
    return titles;
  } finally {
    await connection.close();
  }
}

test('publishes on NATS; while the server is away it serves, says so, keeps what it has to say, and catches up', {
  skip,
}, async (t) => {
  const { nats, up } = await setting(t);
  const { platform, account, told } = await up();
  const health = () => request('GET', `${platform.urls.auth}/healthz`);
  const ready = async () => {
    const response = await fetch(`http://127.0.0.1:${new URL(platform.urls.http).port}/readyz`);
    return [response.status, await response.text()] as const;
  };
  assert.equal((await account('first')).status, 200);
  await until(async () => (await notifications(nats.server)).length === 1, { what: 'the first notification' });
  await until(async () => (await told()) === 1, { what: 'it is told' });
  assert.deepEqual([(await health()).status, await ready()], [200, [200, 'ready\n']]);

  await nats.kill();
  // Not even its store comes back.
  await nats.empty();
  for (const name of ['second', 'third']) assert.equal((await account(name)).status, 200);
  const ill = await until(async () => {
    const reply = await health();
    return reply.status === 503 ? reply : undefined;
  });
  assert.match(JSON.stringify(ill.json), /NATS at 127\.0\.0\.1:\d+ has not been reached for \d+ s/);
  const [status, text] = await ready();
  assert.equal(status, 200);
  assert.match(text, /^ready, but NATS at /);

  await nats.start();
  const titles = await until(
    async () => {
      const found = await notifications(nats.server).catch(() => []);
      return found.length >= 2 ? found : undefined;
    },
    { timeoutMs: 60_000, what: 'the outbox arrives' },
  );
  assert.equal(titles.length, 2);
  assert.match(titles.join(), /second.*third/);
  await until(async () => (await told()) === 3, { timeoutMs: 60_000, what: 'they are told' });
  assert.equal((await health()).status, 200);
});

test('a start waits for a server that is not there yet, and tells', { skip }, async (t) => {
  const { nats, up } = await setting(t, { stopped: true });
  const lines: string[] = [];
  const starting = up(nats.url, { onProgress: (line) => lines.push(line) });
  await until(() => lines.find((line) => line.startsWith('waiting: NATS at ')));
  assert.match(
    lines.join('\n'),
    /waiting: NATS at 127\.0\.0\.1:\d+ has not been reached for \d+ s \(connection refused\)/,
  );
  await nats.start();
  const { account } = await starting;
  assert.equal((await account('first')).status, 200);
  await until(async () => (await notifications(nats.server)).length === 1);
});

test('a start ends with a reason: a wrong password, no JetStream, or told to stop while it waits', {
  skip,
}, async (t) => {
  const { nats, up } = await setting(t, {
    configuration: 'authorization { users: [{ user: "troupe", password: "right" }] }',
  });
  await assert.rejects(up(`nats://troupe:wr0ng@${nats.server}`), (error) => {
    assert.ok(error instanceof CliError);
    assert.match(error.message, /^NATS at 127\.0\.0\.1:\d+ does not let Troupe in: check the user and password/);
    assert.ok(!error.message.includes('wr0ng'));
    return true;
  });
  const bare = await startNats(t, { jetStream: false });
  await assert.rejects(up(bare.url), /JetStream is not running on the server/);
  await nats.kill();
  await assert.rejects(up(nats.url, { isLeaving: () => true }), /Stopped while waiting for NATS/);
});

test('dead letters are listed, shown, sent again once, and discarded', { skip }, async (t) => {
  const { database, nats, cli } = await setting(t);
  const { natsBus } = await import('../../transports/bus/nats.ts');
  const { deadLetterSink } = await import('../../storage/bus/dead-letters.ts');
  const { NOTIFICATIONS_STREAM, encodeNotification } = await import('../../proto/notify/notification.ts');
  const deadLetters = deadLetterSink(database.db);
  const bus = natsBus({
    secret: BUS_SECRET,
    address: { servers: [nats.server] },
    name: 'test',
    deadLetters,
    log: silentLog,
  });
  t.after(() => bus.close());
  // The platform's relay without its notification service, in whose place a consumer fails at will.
  const relaying = new AbortController();
  const store = outboxStore(database.db);
  const relayed = relayOutbox({ store, bus, log: silentLog, signal: relaying.signal });
  const endRelay = async () => {
    relaying.abort();
    await relayed;
  };
  t.after(endRelay);
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  const got: string[] = [];
  let fail = true;
  const config = { durable: 'notification-service', ackWaitMs: 30_000, maxDeliver: 2, maxAckPending: 100 };
  await bus.consume('NOTIFICATIONS', config, async (batch) => {
    for (const message of batch) {
      got.push(message.subject);
      if (fail && message.subject === 'notify.bad') await message.term('it cannot be read\u001b[2J');
      else if (fail) await message.nak();
      else await message.ack();
    }
  });
  const metadata = { eventId: 'e', source: 'test', createdAt: 1 };
  const notification = { userId: 'ann', title: 'Hello', message: 'm', link: '', scope: '', metadata };
  await bus.append('notify.ann', encodeNotification({ ...notification, category: 'auth' }), { msgId: 'an id' });
  await bus.append('notify.bad', Buffer.from([0xff, 0]));
  const row = z.object({
    id: z.number(),
    subject: z.string(),
    deliveries: z.number(),
    reason: z.string(),
    message_id: z.string().nullable(),
  });
  const list = async () => z.array(row).parse(JSON.parse((await cli('list', '--json')).stdout));
  const letters = await until(async () => {
    const found = await list();
    return found.length === 2 ? found : undefined;
  });
  const ann = letters.find(({ subject }) => subject === 'notify.ann');
  const bad = letters.find(({ subject }) => subject === 'notify.bad');
  assert.ok(ann !== undefined && bad !== undefined);
  assert.deepEqual([ann.deliveries, ann.reason, ann.message_id], [2, 'delivered too often', 'an id']);
  const table = (await cli('list')).stdout;
  assert.match(table, /^ID +GIVEN UP +SUBJECT +CONSUMER +TRIED/);
  assert.ok(!table.includes('\u001b'), 'a reason moves the cursor');
  assert.equal((await cli('list', '--stream', 'OTHER')).stdout, 'There are no dead letters.\n');

  const shown = await cli('show', String(ann.id));
  assert.match(shown.stdout, /"title": "Hello"/);
  assert.match((await cli('show', String(bad.id))).stdout, /\/wA=/);
  const raw = z
    .object({ data_base64: z.string() })
    .parse(JSON.parse((await cli('show', String(bad.id), '--json')).stdout));
  assert.equal(raw.data_base64, '/wA=');

  fail = false;
  const before = got.filter((subject) => subject === 'notify.ann').length;
  assert.equal((await cli('replay', String(ann.id), '--json')).stdout, `{"replayed":[${ann.id}]}\n`);
  await until(() => got.filter((subject) => subject === 'notify.ann').length === before + 1, {
    what: 'it comes again',
  });
  assert.equal((await cli('replay', '--all', '--json')).stdout, `{"replayed":[${bad.id}]}\n`);
  assert.match((await cli('replay', '--all')).stdout, /Nothing to replay/);
  assert.match((await cli('replay', String(ann.id), '--again')).stdout, /^Replayed \d+\./);
  await until(() => got.filter((subject) => subject === 'notify.ann').length === before + 2, { what: 'and again' });

  assert.equal((await cli('discard', String(ann.id))).stdout, 'Discarded 1.\n');
  assert.equal((await cli('discard', String(ann.id))).stdout, 'Discarded 0.\n');
  assert.equal((await cli('discard', '--stream', 'NOTIFICATIONS', '--json')).stdout, '{"discarded":1}\n');
  assert.deepEqual(await list(), []);
  for (const args of [['show', '1'], ['show', 'x'], ['replay'], ['discard'], ['discard', '1', '--all']]) {
    const refused = await cli(...args);
    assert.deepEqual([refused.code, refused.stdout], [1, ''], args.join(' '));
    assert.match(refused.stderr, /^troupe: /);
  }
});
