/** Two real `troupe up` on one PostgreSQL, one nats-server and one Docker Engine: they are one platform. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get } from 'node:https';
import { test } from 'node:test';
import { z } from 'zod';
import { nodesView } from '../../cmd/node/nodes-view.ts';
import { listNodes } from '../../storage/placement/nodes.ts';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { startBox } from '../support/clients/container.ts';
import { websocket } from '../support/clients/websocket.ts';
import { SHARDS } from '../support/cluster/chronicle.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the admin of this test';
const statusSchema = z.object({ status: z.string() });

/** The status of a call of the auth service through the gateway of a process. */
async function throughGateway({ ready }: RunningPlatform, token: string): Promise<number | undefined> {
  const asked = get({
    ...{ host: '127.0.0.1', port: new URL(ready.urls.https).port, path: '/api/session', agent: false },
    ...{ servername: ready.domain, rejectUnauthorized: false },
    headers: { host: ready.domain, authorization: `Bearer ${token}` },
  });
  const [response] = await once(asked, 'response');
  response.resume();
  return response.statusCode;
}

test('two processes are one platform: either answers for all, one is drained, one is killed, and nothing is lost', {
  skip: skipWithoutDocker() || skipWithoutNats(),
  timeout: 900_000,
}, async (t) => {
  // In reverse: what runs ends before what it stands on.
  const ends: (() => unknown)[] = [];
  const after = { after: (end: () => unknown) => void ends.unshift(end) };
  t.after(async () => {
    for (const end of ends) await end();
  });
  const database = await testDatabase();
  after.after(() => database.close());
  const nats = await startNats(after);
  const folders = [await tempDir(after), await tempDir(after)];
  const env = {
    ...{ DATABASE_URL: database.url, NATS_URL: nats.url, ADMIN_PASSWORD: PASSWORD, DEFAULT_IMAGE: await tinyImage() },
    ...{
      JWT_SECRET: 'the shared secret of this test, over 32 bytes',
      ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
    },
  };
  // At once, on an empty database.
  const [a, b] = await Promise.all([
    startPlatform({ data: folders[0] ?? '', env }),
    startPlatform({ data: folders[1] ?? '', env }),
  ]);
  const killed = { b: false };
  let token = '';
  after.after(async () => {
    try {
      await deleteAll(a.ready.urls.compute, token);
    } finally {
      await a.stop();
      if (!killed.b) await b.stop();
    }
  });
  const cli = (...args: string[]) => troupe(['nodes', ...args], { env: { DATABASE_URL: database.url } });
  const nodes = async () => nodesView({ nodes: await listNodes(database.db), services: [] }).nodes;
  const pidOf = ({ child }: RunningPlatform) => `:${child.pid}`;
  const nodeOf = async (platform: RunningPlatform) =>
    (await nodes()).find(({ address }) => address.endsWith(pidOf(platform)));

  token = await logIn(a.ready.urls.auth, 'admin', PASSWORD);
  const box = await startBox(a.ready.urls.compute, token, folders[0] ?? '');
  const { id } = box;
  const view = async ({ ready }: RunningPlatform) => {
    const reply = await request('GET', `${ready.urls.compute}/compute/containers/${id}`, { token });
    return reply.status === 200 ? statusSchema.parse(reply.json).status : `HTTP ${reply.status}`;
  };
  // Leases of a process that gets no processor for seconds are lost for a moment: conditions, not moments, are asserted.
  const bothAnswer = () =>
    until(async () => [await view(a), await view(b)].every((status) => status === 'running'), {
      what: 'both answer',
      timeoutMs: 30_000,
    });
  await bothAnswer();
  await until(async () => (await nodes()).filter(({ state }) => state === 'serving').length === 2, {
    what: 'both serve',
  });

  // What is open at A stays, whatever becomes of the nodes that hold its user and container.
  const bearer = { headers: { authorization: `Bearer ${token}` } };
  const ws = a.ready.urls.compute.replace('http', 'ws');
  const shell = await websocket(after, `${ws}/compute/containers/${id}/terminal`, bearer);
  const updates = await websocket(after, `${ws}/compute/ws`, bearer);
  const says = async (word: string) => {
    shell.send(Buffer.from(`echo "${word}"now\n`));
    let said = '';
    await shell.find((frame) => {
      if ('binary' in frame) said += Buffer.from(frame.binary).toString();
      return said.includes(`${word}now`);
    });
  };
  await says('one');

  const drained = await cli('drain', (await nodeOf(a))?.id ?? '');
  assert.equal(drained.code, 0, drained.stderr);
  await until(async () => (await nodeOf(a))?.state === 'drained', { what: 'A is drained' });
  await bothAnswer();
  await says('two');
  const heldByB = async () => Object.values((await nodeOf(b))?.shards ?? {});
  await until(async () => (await heldByB()).every((n) => n === SHARDS), { what: 'B holds all', timeoutMs: 60_000 });

  assert.equal((await cli('drain', '--cancel', String(a.child.pid))).code, 1, 'a pid is no name');
  assert.equal((await cli('drain', '--cancel', (await nodeOf(a))?.address ?? '')).code, 0);
  await until(async () => Object.values((await nodeOf(a))?.shards ?? {}).some((n) => n > 0), {
    what: 'A takes some again',
    timeoutMs: 30_000,
  });

  // B held the rest; its gateway's routes were the last to be written down.
  await b.kill();
  killed.b = true;
  await until(async () => (await view(a)) === 'running', { what: 'A answers for all', timeoutMs: 60_000 });
  await until(async () => (await throughGateway(a, token)) === 200, {
    what: 'its gateway leads to it',
    timeoutMs: 30_000,
  });
  await says('three');
  const stopping = () => request('POST', `${a.ready.urls.compute}/compute/containers/${id}/stop`, { token });
  await until(async () => [200, 409].includes((await stopping()).status), { what: 'it is stopped', timeoutMs: 60_000 });
  await updates.find((frame) => 'text' in frame && frame.text.includes('"stopped"'));
  // 1012 when it had not said to the container's actor yet, since that moved, that it is there.
  assert.ok([1000, 1012].includes((await shell.closed).code));
});
