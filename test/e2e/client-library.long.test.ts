/** The client library against a real platform, through its gateway, and the examples of its page. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { z } from 'zod';
import { TroupeClient } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import { networkEndpoints } from '../../proto/network/endpoints.ts';
import { notifyEndpoints } from '../../proto/notify/endpoints.ts';
import { type Line, line } from '../support/client/line.ts';
import { type Box, startBox } from '../support/clients/container.ts';
import { deleteAll, logIn, type RunningPlatform, startPlatform } from '../support/cluster/platform.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { addPackages, compile, projectWithPackage, runNode } from '../support/package.ts';
import { projectRoot } from '../support/project.ts';
import { until } from '../support/until.ts';

const TABLE: readonly AnyEndpoint[] = [
  ...authEndpoints,
  ...computeEndpoints,
  ...monitorEndpoints,
  ...networkEndpoints,
  ...notifyEndpoints,
];

describe('the client library', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  let data = '';
  let platform: RunningPlatform;
  let token = '';
  let box: Box;
  let client: TroupeClient;
  let wire: Line;
  const ends: (() => Promise<void> | void)[] = [];
  const gatewayPort = () => Number(new URL(platform.ready.urls.https).port);

  const start = async () => {
    platform = await startPlatform({ data, env: { DEFAULT_IMAGE: await tinyImage() } });
    return platform.ready;
  };

  before(async () => {
    data = await mkdtemp(join(tmpdir(), 'troupe-test-'));
    const { urls, admin } = await start();
    token = await logIn(urls.auth, admin.username, admin.password ?? '');
    box = await startBox(urls.compute, token, data);
    const transport = nodeTransport({ authority: await readFile(join(data, 'ca.pem'), 'utf8') });
    wire = await line({ after: (end) => void ends.push(end) }, gatewayPort());
    const { hostname } = new URL(urls.https);
    client = new TroupeClient({ url: `https://${hostname}:${wire.port}`, token, transport });
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

  test('what it answers is what the schemas of the endpoints say', async () => {
    const schema = (name: string): z.ZodType | undefined => TABLE.find((each) => each.name === name)?.reply;
    const params = { id: box.id };
    const replies = {
      session: await client.call('session'),
      listSessions: await client.call('listSessions'),
      listTokens: await client.call('listTokens'),
      listContainers: await client.call('listContainers'),
      getContainer: await client.call('getContainer', { params }),
      addIngress: await client.call('addIngress', { params, body: { port: 8080 } }),
      listIngress: await client.call('listIngress', { params }),
      deleteIngress: await client.call('deleteIngress', { params: { id: box.id, port: '8080' } }),
      listSshKeys: await client.call('listSshKeys'),
      listImages: await client.call('listImages'),
      listAddressNames: await client.call('listAddressNames'),
      listAllContainers: await client.call('listAllContainers'),
      podMetrics: await client.call('podMetrics'),
      clusterInfo: await client.call('clusterInfo'),
      dependencyGraph: await client.call('dependencyGraph'),
      listMappings: await client.call('listMappings'),
      listNotifications: await client.call('listNotifications', { query: { limit: '5' } }),
    };
    for (const [name, reply] of Object.entries(replies)) schema(name)?.parse(reply);
    assert.equal(replies.listContainers.containers[0]?.id, box.id);
  });

  test('a certificate of an authority that it does not know is refused', async () => {
    const stranger = new TroupeClient({ url: platform.ready.urls.https, token, transport: nodeTransport() });
    await assert.rejects(stranger.call('session'), { code: 'untrusted' });
  });

  test('a log, a terminal and notifications go on after the line was cut and the platform ended, and nothing is missing', async () => {
    const numbers: number[] = [];
    const shown: string[] = [];
    const titles: string[] = [];
    let returns = 0;
    let waits = 0;
    const logs = client.follow.logs({
      id: box.id,
      tail: 0,
      onState: ({ state }) => {
        if (state === 'waiting') waits++;
      },
      onLine({ text }) {
        const number = /^tick (\d+)$/.exec(text)?.[1];
        if (number !== undefined) numbers.push(Number(number));
      },
    });
    const notifications = client.follow.notifications({ since: 0, onNotification: ({ title }) => titles.push(title) });
    const terminal = client.follow.terminal({
      id: box.id,
      onOutput: (bytes) => shown.push(Buffer.from(bytes).toString()),
      onReturn: () => returns++,
    });
    terminal.write('KEPT=yes; i=0; while :; do i=$((i+1)); echo tick $i >/proc/1/fd/1; usleep 50000; done &\n');
    await until(() => numbers.length > 20 && titles.length > 0, { what: 'the log has lines' });
    const before = titles.length;
    const goesOn = async () => {
      const last = numbers.at(-1) ?? 0;
      await until(() => numbers.length > last + 60, { what: 'the log goes on', timeoutMs: 60_000 });
    };
    wire.cut();
    await until(() => waits > 5, { what: 'the client tries again', timeoutMs: 60_000 });
    wire.mend(gatewayPort());
    await goesOn();
    await until(() => returns === 1, { what: 'the terminal is back' });
    terminal.write('echo $KEPT by the sh""ell\n');
    await until(() => shown.join('').includes('yes by the shell'), { what: 'the shell is the same' });

    await platform.kill();
    await start();
    wire.mend(gatewayPort());
    await goesOn();
    const [first = 0] = numbers;
    assert.deepEqual(
      numbers,
      numbers.map((_, at) => first + at),
    );
    assert.deepEqual(titles.slice(before), []);
    logs.close();
    notifications.close();
    // A tiny image has no perl, so its shell ends with the process that held it; the terminal is there all the same.
    await until(() => returns >= 2, { what: 'the terminal is back', timeoutMs: 60_000 });
    terminal.write('echo is ba""ck\n');
    await until(() => shown.join('').includes('is back'), { what: 'the shell answers' });
    terminal.close();
    assert.equal((await terminal.done).how, 'closed');
  });

  test('the examples of its page run', async (t) => {
    const folder = await projectWithPackage(t);
    const page = await readFile(join(projectRoot, 'docs/guide/client-library.md'), 'utf8');
    const blocks = [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, block = '']) => block);
    assert.equal(blocks.length, 4);
    const COMPILER = { target: 'ES2023', module: 'NodeNext', types: ['node'], strict: true, outDir: 'built' };
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'app', private: true, type: 'module' }));
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: COMPILER, include: ['*.ts'] }));
    for (const [at, block] of blocks.entries()) await writeFile(join(folder, `example${at}.ts`), block);
    await addPackages(folder, ['@types/node', 'undici-types', 'ws', '@types/ws', 'zod', 'protobufjs', 'long']);
    const { code, stdout } = await compile(folder);
    assert.equal(code, 0, stdout);
    const TROUPE_URL = platform.ready.urls.https;
    const env = { TROUPE_URL, TROUPE_TOKEN: token, TROUPE_CA: join(data, 'ca.pem'), CONTAINER: box.id };
    const run = async (at: number) => {
      const ended = await runNode(folder, [`built/example${at}.js`], env);
      assert.equal(ended.code, 0, ended.stderr);
      return ended.stdout.trim().split('\n');
    };
    assert.deepEqual(await run(0), ['box running', 'not_found 404']);
    const shell = client.follow.terminal({ id: box.id, onOutput() {} });
    shell.write('echo it is the end >/proc/1/fd/1\n');
    const lines = await run(1);
    shell.close();
    assert.deepEqual(lines.slice(-1), ['closed']);
    assert.match(lines.at(-2) ?? '', /^\d{4}-\d\d-\d\d it is the end$/);
    assert.deepEqual(await run(2), ['42 is it - session ended']);
    assert.deepEqual(await run(3), ['1 got a line', '3']);
  });
});
