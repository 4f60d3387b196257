/** Commands in a real container that outlive the line to their client, and the platform. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { TroupeClient } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import { type Line, line } from '../support/client/line.ts';
import { type Box, startBox } from '../support/clients/container.ts';
import { execSocket } from '../support/clients/exec.ts';
import {
  deleteAll,
  logIn,
  type RunningPlatform,
  spawnTroupe,
  startPlatform,
  troupe,
} from '../support/cluster/platform.ts';
import { docker, perlImage, skipWithoutDocker } from '../support/engine/docker-client.ts';
import { until } from '../support/until.ts';

const LINES = 100_000;
/** Counts, with pauses, so that it takes some seconds. */
const COUNT = `i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo $i; [ $((i % 2000)) = 0 ] && usleep 50000; done; exit 7`;
const COUNTED = Array.from({ length: LINES }, (_, at) => `${at + 1}\n`).join('');

describe('a command that is kept in a real container', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  let data = '';
  let platform: RunningPlatform;
  let token = '';
  let box: Box;
  let wire: Line;
  let client: TroupeClient;
  const ends: (() => Promise<void> | void)[] = [];
  const gatewayPort = () => Number(new URL(platform.ready.urls.https).port);
  const start = async () => {
    platform = await startPlatform({ data, env: { DEFAULT_IMAGE: await perlImage() } });
  };
  const commandsThere = async () => {
    const schema = z.object({ Processes: z.array(z.array(z.string())) });
    const { Processes } = await docker().json('GET', `/containers/${box.dockerId}/top`, schema);
    return Processes.filter((columns) => /^troupe-command|sleep 4321/.test(columns.at(-1) ?? '')).length;
  };
  const nothingLeft = () => until(async () => (await commandsThere()) === 0, { what: 'nothing is left' });

  before(async () => {
    data = await mkdtemp(join(tmpdir(), 'troupe-test-'));
    await start();
    const { urls, admin } = platform.ready;
    token = await logIn(urls.auth, admin.username, admin.password ?? '');
    box = await startBox(urls.compute, token, data);
    wire = await line({ after: (end) => void ends.push(end) }, gatewayPort());
    const transport = nodeTransport({ authority: await readFile(join(data, 'ca.pem'), 'utf8') });
    client = new TroupeClient({ url: `https://${new URL(urls.https).hostname}:${wire.port}`, token, transport });
  });
  after(async () => {
    try {
      client.close();
      for (const end of ends) await end();
      await deleteAll(platform.ready.urls.compute, token);
    } finally {
      await platform.stop();
      await rm(data, { recursive: true, force: true });
    }
  });

  test('counts on after its line was cut and its platform killed: none missing, none twice, its exit code right', async () => {
    const parts: Buffer[] = [];
    let bytes = 0;
    let losses = 0;
    const command = client.follow.command({
      id: box.id,
      command: [COUNT],
      onOutput(chunk) {
        parts.push(Buffer.from(chunk));
        bytes += chunk.length;
      },
      onGap: (lost) => assert.fail(`${lost} bytes are lost`),
      onState: ({ state }) => {
        if (state === 'waiting') losses++;
      },
    });
    await until(() => bytes > 20_000, { everyMs: 1 });
    wire.cut();
    wire.mend(gatewayPort());
    const before = bytes;
    await until(() => bytes > before + 20_000, { everyMs: 1 });
    assert.ok(losses > 0);
    await platform.kill();
    assert.ok(bytes < COUNTED.length, 'it was killed in the middle');
    await start();
    wire.mend(gatewayPort());
    assert.equal(await command.done, 7);
    assert.ok(Buffer.concat(parts).toString() === COUNTED, 'all lines once, in order');
    await nothingLeft();
  });

  test('takes its input once, over lost connections', async () => {
    const sent = Buffer.alloc(
      2_000_000,
      Uint8Array.from({ length: 251 }, (_, at) => at),
    );
    const parts: Buffer[] = [];
    const command = client.follow.command({
      id: box.id,
      command: ['cat'],
      onOutput: (chunk) => parts.push(Buffer.from(chunk)),
    });
    const bytes = () => parts.reduce((sum, { length }) => sum + length, 0);
    command.write(sent);
    command.end();
    for (const least of [200_000, 700_000, 1_200_000]) {
      await until(() => bytes() > least, { everyMs: 1 });
      wire.cut();
      wire.mend(gatewayPort());
    }
    assert.equal(await command.done, 0);
    assert.ok(Buffer.concat(parts).equals(sent));
    await nothingLeft();
  });

  test('has a terminal of its size, also after a lost connection', async () => {
    let out = '';
    const command = client.follow.command({
      id: box.id,
      command: ['stty size; read line; echo "<$line>"; stty size; exit 5'],
      size: { cols: 91, rows: 33 },
      onOutput(bytes) {
        out += Buffer.from(bytes).toString();
      },
    });
    await until(() => out.includes('33 91\r\n'));
    wire.cut();
    command.resize({ cols: 100, rows: 40 });
    command.write(Buffer.from('typed\n'));
    wire.mend(gatewayPort());
    assert.equal(await command.done, 5);
    assert.match(out, /^33 91\r\n[\s\S]*<typed>\r\n40 100\r\n$/);
    await nothingLeft();
  });

  test('ends when it is closed', async () => {
    const command = client.follow.command({ id: box.id, command: ['sleep', '4321'], onOutput() {} });
    await until(async () => (await commandsThere()) > 0);
    command.close();
    assert.equal(await command.done, undefined);
    await nothingLeft();
  });

  test('runs once for the command line, which says that its line was lost', async () => {
    const TROUPE_URL = `https://${new URL(platform.ready.urls.https).hostname}:${wire.port}`;
    const env = { TROUPE_URL, TROUPE_TOKEN: token, TROUPE_CA: join(data, 'ca.pem') };
    const child = spawnTroupe(['exec', 'box', '--', COUNT], env);
    let [out, err] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (out += chunk));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk));
    const closed = once(child, 'close');
    await until(() => out.length > 20_000, { everyMs: 1 });
    wire.cut();
    wire.mend(gatewayPort());
    assert.deepEqual((await closed)[0], 7);
    assert.ok(out === COUNTED, 'all lines once, in order');
    assert.match(err, /The connection is lost/);
    await nothingLeft();
  });

  test('tells its session and its cursors to whoever speaks the protocol by hand, and stands in the audit trail', async (t) => {
    const ws = `${platform.ready.urls.compute.replace('http', 'ws')}/compute/containers/${box.id}/exec`;
    const first = await execSocket(
      t,
      ws,
      token,
      ['sh', '-c', 'echo secret; sleep 1; echo more; exit 4'],
      '&session=new',
    );
    const begun = await first.find((frame) => 'text' in frame);
    assert.ok('text' in begun);
    const { session, ...rest } = z.looseObject({ session: z.string() }).parse(JSON.parse(begun.text));
    assert.deepEqual(rest, { type: 'session', resumable: true, cursor: 0, gap: 0, input: { received: 0, written: 0 } });
    await first.find((frame) => 'binary' in frame && Buffer.from(frame.binary).includes('secret'));
    first.socket.terminate();
    const second = await execSocket(t, ws, token, [], `session=${session}&since=7`);
    await second.find((frame) => 'binary' in frame && Buffer.from(frame.binary).toString() === '\x01more\n');
    await second.find((frame) => 'text' in frame && frame.text === '{"type":"exit","code":4}');
    await second.close(1000);
    await nothingLeft();
    const gone = await execSocket(t, ws, token, [], `session=${session}&since=7`);
    assert.deepEqual(await gone.closed, { code: 4404, reason: 'there is no such command any more' });
    const { stdout } = await troupe(['audit', '--action', 'container.exec', '--json', '--data', data]);
    assert.match(stdout, /"program": ?"sh"/);
    assert.ok(!stdout.includes('secret'));
  });
});
