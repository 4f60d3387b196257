/**
 * What a Docker Engine 29 answers otherwise than the older ones that tests have (its published API, 1.44 to 1.53), and
 * an engine with a registry at a loopback address from 29.10 on.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { DockerClient } from '../../transports/engines/docker/api/client.ts';
import { containerView, imageCommand, stateOf } from '../../transports/engines/docker/container-view.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { changedContainer } from '../../transports/engines/docker/events.ts';
import { labels, namingOf } from '../../transports/engines/docker/naming.ts';
import { diskUsageOf } from '../../transports/engines/docker/stats/usage.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';

failOnLeaks();

const naming = namingOf('here');

/** An engine that refuses versions below 1.44, as 29 does, and gives these answers. `asked` lists what it was asked for. */
async function docker29(t: TestContext, answers: Record<string, unknown>) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    request.resume();
    const [path = '', query] = (request.url ?? '').split('?');
    response.setHeader('api-version', '1.55');
    if (path === '/_ping') return void response.end('OK');
    asked.push(`${request.method} ${request.url}`);
    const [, minor = '0', call = ''] = /^\/v1\.(\d+)(\/.*)$/.exec(path) ?? [];
    if (Number(minor) < 44) return answer(response, { message: `client version 1.${minor} is too old.` }, 400);
    const found = answers[`${request.method} ${call}`] ?? answers[call];
    if (found === undefined) return answer(response, { message: `no ${call}?${query}` }, 404);
    answer(response, found);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const host = `tcp://127.0.0.1:${port}`;
  const client = new DockerClient(host);
  t.after(async () => {
    client.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { client, host, asked };
}

/** Lists of lines are sent as such. */
function answer(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(Array.isArray(body) && typeof body[0] === 'string' ? body.join('\n') : JSON.stringify(body));
}

test('is spoken to in the newest version of the API that was read', async (t) => {
  const { client, asked } = await docker29(t, { '/info': {} });
  await client.call('GET', '/info');
  assert.deepEqual(asked, ['GET /v1.52/info']);
});

test('what containers hold on disk is read from the lists within sums, and from lists alone', async (t) => {
  const mine = { [labels.installation]: 'here', [labels.container]: 'a1' };
  const Containers = [{ Id: '1', Names: [`/${naming.container('a1')}`], Labels: mine, SizeRw: 5 }];
  const Volumes = [{ Name: 'v', Labels: mine, UsageData: { RefCount: 1, Size: 7 } }];
  const sums = { TotalCount: 1, ActiveCount: 1, TotalSize: 12, Reclaimable: 0 };
  const now = { ContainersUsage: { ...sums, Items: Containers }, VolumesUsage: { ...sums, Items: Volumes } };
  const before = { LayersSize: 0, Images: null, Containers, Volumes, BuildCache: null };
  for (const disk of [now, before]) {
    const { client, asked } = await docker29(t, { '/system/df': disk });
    const held = await diskUsageOf(client, naming, new AbortController().signal);
    assert.deepEqual([...held], [['a1', 12]]);
    assert.match(asked.join(), /verbose=true/);
  }
});

test('an image whose settings are left out, since none is set, runs no command of its own', async (t) => {
  const config = { Id: 'sha256:1', RepoTags: ['x:1'], Os: 'linux', Architecture: 'amd64', Config: {} };
  const { client } = await docker29(t, { '/images/x:1/json': config });
  assert.deepEqual(await imageCommand(client, 'x:1'), { Entrypoint: null, Cmd: null });
});

test('a container is read without the fields of its network that went', () => {
  const network = { IPAddress: '10.1.2.3', NetworkID: 'n', Aliases: null, DNSNames: ['a1'], GwPriority: 0 };
  const view = containerView.parse({
    Id: '1',
    Name: '/x',
    Image: 'sha256:2',
    ImageManifestDescriptor: { mediaType: 'application/vnd.oci.image.manifest.v1+json', digest: 'sha256:3', size: 1 },
    State: { Status: 'running', Running: true, ExitCode: 0, StartedAt: '2026-11-01T00:00:00Z' },
    Config: { Image: 'x:1', Hostname: 'h', Labels: {} },
    HostConfig: { NanoCpus: 1e9, Memory: 2 ** 20 },
    Mounts: [],
    NetworkSettings: { SandboxID: 's', SandboxKey: '/k', Ports: {}, Networks: { n: network } },
  });
  assert.equal(stateOf('a1', view, 'n').address, '10.1.2.3');
});

test('a change of a container is known without the fields of an event that went', () => {
  const Attributes = { [labels.installation]: 'here', [labels.container]: 'a1', name: naming.container('a1') };
  const event = { Type: 'container', Action: 'die', Actor: { ID: '1', Attributes }, scope: 'local', timeNano: 1 };
  assert.equal(changedContainer(event, naming), 'a1');
});

const DETAIL = { errorDetail: { message: 'manifest for app:1 not found: manifest unknown' } };

test('a pull that fails is an error, though the old field for it is gone', async (t) => {
  const { host } = await docker29(t, { '/images/create': ['{"status":"Pulling"}', JSON.stringify(DETAIL)] });
  const engine = await engineAt(t, host);
  await rejectsWith(engine.ensureImage('app:1', { always: false }), 'image_not_found');
});

test('a registry beside that Docker asks by TLS alone is an error that says what to set', async (t) => {
  const message =
    'failed to do request: Head "https://127.0.0.1:1/v2/": http: server gave HTTP response to HTTPS client';
  const { host, asked } = await docker29(t, { '/images/create': [JSON.stringify({ errorDetail: { message } })] });
  const engine = await engineAt(t, host);
  const pull = engine.ensureImage('registry.test/ann/app:1', { always: false });
  await assert.rejects(pull, /by TLS only\. Add "127\.0\.0\.0\/8" to "insecure-registries"/);
  assert.match(asked.join(), /fromImage=127\.0\.0\.1%3A1%2Fann%2Fapp/);
});

async function engineAt(t: TestContext, host: string) {
  const base = { reference: 'none:1', build: () => assert.fail('it is not asked for') };
  const registry = { host: 'registry.test', address: '127.0.0.1:1' };
  const engine = await dockerEngine({ host, installation: 'here', log: silentLog, images: { base }, registry });
  t.after(() => engine.close());
  return engine;
}
