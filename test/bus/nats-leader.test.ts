/** Three nats-servers that keep a stream together, and lose the one that leads it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import type { ConsumerConfig, StreamConfig } from '../../proto/ports/bus.ts';
import { natsBus } from '../../transports/bus/nats.ts';
import { BUS_SECRET, skipWithoutNats, startNats, type TestNats } from '../support/bus/nats-server.ts';
import { silentLog } from '../support/log.ts';
import { freePort } from '../support/temp.ts';
import { until } from '../support/until.ts';

const stream: StreamConfig = {
  name: 'S',
  subjects: ['s.>'],
  maxMessages: 100_000,
  maxBytes: 64 << 20,
  maxAgeMs: 3_600_000,
  duplicateWindowMs: 600_000,
};
const config: ConsumerConfig = { durable: 'worker', ackWaitMs: 5000, maxDeliver: 100, maxAckPending: 100 };
/** Elections take seconds on a busy machine. */
const PATIENT = { timeoutMs: 120_000, everyMs: 100 };

test('the leader of a stream steps down, and is killed: what was acknowledged is there once, and consumers go on', {
  skip: skipWithoutNats(),
  timeout: 900_000,
}, async (t) => {
  const ports = [await freePort(), await freePort(), await freePort()];
  const routes = ports.map((port) => `nats-route://127.0.0.1:${port}`).join(', ');
  const servers: TestNats[] = [];
  for (const [index, port] of ports.entries()) {
    const cluster = `cluster { name: c, listen: "127.0.0.1:${port}", routes: [${routes}] }`;
    servers.push(await startNats(t, { configuration: `server_name: n${index}\n${cluster}` }));
  }
  const address = { servers: servers.map(({ server }) => server) };
  const bus = natsBus({
    secret: BUS_SECRET,
    address,
    name: 'test',
    deadLetters: { add: async () => {} },
    log: silentLog,
    replicas: 3,
  });
  t.after(() => bus.close());
  const worked = (work: Promise<unknown>) =>
    work.then(
      () => true,
      () => false,
    );
  await until(() => worked(bus.ensureStream(stream)), { ...PATIENT, what: 'the servers keep a stream' });
  const got: string[] = [];
  const take = () =>
    bus.consume(stream.name, config, async (batch) => {
      got.push(...batch.map(({ data }) => Buffer.from(data).toString()));
      await Promise.all(batch.map((message) => message.ack()));
    });
  await until(() => worked(take()), { ...PATIENT, what: 'there is a consumer' });

  /** The stream as its servers see it: who leads, how many messages. */
  const look = async () => {
    const connection = await connect({ servers: address.servers, reconnect: false });
    try {
      const { cluster, state } = await (await jetstreamManager(connection)).streams.info(stream.name);
      return { leader: servers[Number(cluster?.leader?.slice(1))], messages: state.messages };
    } finally {
      await connection.close();
    }
  };
  const found = () => look().catch(() => undefined);
  const leaderBut = (former?: TestNats) =>
    until(
      async () => {
        const leader = (await found())?.leader;
        return leader === former ? undefined : leader;
      },
      { ...PATIENT, what: 'somebody else leads' },
    );

  const sent: string[] = [];
  let over = false;
  const sending = (async () => {
    for (let n = 0; !over; n++) {
      const ids = Array.from({ length: 10 }, (_, index) => `${n}.${index}`);
      // What is refused for want of a leader is tried again under its id.
      const append = (id: string) => worked(bus.append('s.x', Buffer.from(id), { msgId: id }));
      await Promise.all(ids.map((id) => until(() => append(id), PATIENT)));
      sent.push(...ids);
    }
  })();
  const more = async () => {
    const before = sent.length;
    await until(() => sent.length >= before + 100, { ...PATIENT, what: 'messages are taken' });
  };
  await more();

  const first = await leaderBut();
  // As an operator's tool asks: the platform's own questions are sealed.
  const tool = await connect({ servers: address.servers, reconnect: false });
  await tool.request(`$JS.API.STREAM.LEADER.STEPDOWN.${stream.name}`, new Uint8Array(), { timeout: 10_000 });
  await tool.close();
  const second = await leaderBut(first);
  await more();

  await second.kill();
  const third = await leaderBut(second);
  await more();
  await second.start();
  assert.notEqual(third, second);

  over = true;
  await sending;
  await until(() => new Set(got).size === sent.length, { ...PATIENT, what: 'all of them come' });
  await until(async () => (await found())?.messages === sent.length, { ...PATIENT, what: 'each is there once' });
});
