/** COMPUTE_ENGINE=kubernetes: the main path on a real cluster of one node, and what the command line says without one. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { type TestSocket, websocket } from '../support/clients/websocket.ts';
import { logIn, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { buildTinyImage, tinyImageMissing } from '../support/engine/tiny-image.ts';
import { startCluster } from '../support/kubernetes/cluster.ts';
import { clusterDomain } from '../support/kubernetes/cluster-names.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { provideVolumes, testStorageClass } from '../support/kubernetes/volumes.ts';
import { findProgram } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const patience = { timeoutMs: 90_000, everyMs: 200 };
const container = z.object({ id: z.string(), status: z.string() });

async function read(terminal: TestSocket, pattern: RegExp): Promise<string> {
  let shown = '';
  while (!pattern.test(shown)) {
    const frame = await terminal.next(60_000);
    assert.ok('binary' in frame, 'a terminal sends binary frames');
    shown += Buffer.from(frame.binary).toString();
  }
  return shown;
}

test('a person runs a container on a Kubernetes cluster and is inside it', {
  skip: tinyImageMissing() ?? skipWithoutKubernetes(),
  timeout: 900_000,
}, async (t) => {
  const data = await tempDir(t);
  const keyFile = join(data, 'key');
  await run(findProgram('ssh-keygen') ?? 'ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', keyFile]);
  const cluster = await startCluster({ answersNames: true });
  t.after(() => cluster.stop());
  const volumes = provideVolumes(cluster);
  t.after(() => volumes.close());
  const image = await buildTinyImage();
  assert.ok(cluster.docker);
  await image.build(cluster.docker.client, () => {}, new AbortController().signal);
  const platform = await startPlatform({
    data,
    env: {
      COMPUTE_ENGINE: 'kubernetes',
      KUBECONFIG: cluster.kubeconfig,
      KUBERNETES_STORAGE_CLASS: testStorageClass,
      KUBERNETES_ARCHITECTURE: 'any',
      KUBERNETES_CLUSTER_DOMAIN: clusterDomain,
      DEFAULT_IMAGE: image.reference,
    },
  });
  t.after(() => platform.kill());
  const { urls, admin, ssh } = platform.ready;
  const token = await logIn(urls.auth, admin.username, admin.password ?? '');
  const compute = `${urls.compute}/compute`;

  const key = await request('POST', `${compute}/ssh-keys`, {
    token,
    body: { name: 'laptop', public_key: await readFile(`${keyFile}.pub`, 'utf8') },
  });
  const created = await request('POST', `${compute}/containers`, {
    token,
    body: { name: 'first', ssh_key_ids: [key.json.id], ssh_enabled: true },
  });
  assert.equal(created.status, 200, JSON.stringify(created.json));
  const { id } = container.parse(created.json);
  const status = async (): Promise<string> =>
    container.parse((await request('GET', `${compute}/containers/${id}`, { token })).json).status;
  const becomes = (wanted: string) => until(async () => (await status()) === wanted, { ...patience, what: wanted });
  await becomes('running');

  const ws = `${compute.replace('http', 'ws')}/containers/${id}`;
  const headers = { authorization: `Bearer ${token}` };
  const terminal = await websocket(t, `${ws}/terminal`, { headers });
  terminal.send(Buffer.from('echo kept > /root/kept; echo line-of-the-log > /proc/1/fd/1; echo writ""ten\n'));
  await read(terminal, /written\r/);

  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes', 'LogLevel=ERROR'];
  const { stdout } = await run('ssh', [
    ...['-F', 'none', '-i', keyFile, '-p', String(ssh.port), ...options.flatMap((one) => ['-o', one])],
    ...[`${id}@${ssh.host}`, 'cat /root/kept'],
  ]);
  assert.equal(stdout, 'kept\n', 'by the SSH of the gateway');

  const log = await websocket(t, `${ws}/logs?tail=100&token=${token}`);
  const line = await log.find((frame) => 'text' in frame && frame.text.endsWith(' line-of-the-log'));
  assert.ok('text' in line);
  assert.match(line.text, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z /);

  const measured = async (): Promise<boolean> => {
    const { json } = await request('GET', `${urls.monitor}/api/metrics/pods`, { token });
    const text = JSON.stringify(json);
    return text.includes(id) && /"node":"node1"/.test(text);
  };
  await until(measured, { ...patience, what: 'the monitor knows it' });
  const nodes = await request('GET', `${urls.monitor}/api/metrics/nodes`, { token });
  assert.match(JSON.stringify(nodes.json), /node1.*MetricsAvailable/);

  await request('POST', `${compute}/containers/${id}/stop`, { token });
  await becomes('stopped');
  const left = async (what: string): Promise<number> => {
    const { json } = await cluster.call('GET', `/api/v1/${what}?labelSelector=troupe.dev/container=${id}`);
    return z.object({ items: z.array(z.unknown()) }).parse(json).items.length;
  };
  await until(async () => (await left('pods')) === 0, { ...patience, what: 'its pod is gone' });
  assert.equal(await left('persistentvolumeclaims'), 1);
  await request('POST', `${compute}/containers/${id}/start`, { token });
  await becomes('running');
  const again = await websocket(t, `${ws}/terminal`, { headers });
  again.send(Buffer.from('cat /root/kept; echo re""ad\n'));
  assert.match(await read(again, /read\r/), /kept\r/);

  // The person is still inside when the container joins a private network, and finds the other by its name.
  const network = { network: 'shop', alias: 'db' };
  const other = await request('POST', `${compute}/containers`, {
    token,
    body: { name: 'second', ssh_key_ids: [key.json.id], ...network },
  });
  assert.equal(other.status, 200, JSON.stringify(other.json));
  const change = (of: string, body: object) => request('PATCH', `${compute}/containers/${of}`, { token, body });
  const joined = await change(id, { network: 'shop' });
  assert.equal(joined.status, 200, JSON.stringify(joined.json));
  again.send(Buffer.from('until nc -w 1 db 22 < /dev/null | grep -q SSH-2; do sleep 0.2; done; echo fo""und\n'));
  await read(again, /found\r/);
  const refused = await change(id, { alias: 'container' });
  assert.equal(refused.status, 400, JSON.stringify(refused.json));
  assert.match(JSON.stringify(refused.json), /must not be \\"container\\"/);
  assert.equal((await change(container.parse(other.json).id, { network: null })).status, 200);
  again.send(Buffer.from('while nc -w 1 db 22 < /dev/null | grep -q SSH-2; do sleep 0.2; done; echo lo""st\n'));
  await read(again, /lost\r/);

  const deleted = await request('DELETE', `${compute}/containers/${id}`, { token });
  assert.equal(deleted.status, 200, JSON.stringify(deleted.json));
  // The cluster's own controller ends it, at its own pace: it asks for each kind of resource that there is.
  const going = { timeoutMs: 300_000, everyMs: 500, what: 'its namespace is gone' };
  await until(async () => (await left('namespaces')) === 0, going).catch(async (error: unknown) => {
    const of = `?labelSelector=troupe.dev/container=${id}`;
    const found = await Promise.all(['pods', 'namespaces'].map((kind) => cluster.call('GET', `/api/v1/${kind}${of}`)));
    throw new Error(`it is still there: ${JSON.stringify(found.map(({ json }) => json))}`, { cause: error });
  });
  assert.equal(await platform.stop(), 0, platform.log());
});

test('a cluster that is not there is named before anything starts', async (t) => {
  const data = await tempDir(t);
  const env = { COMPUTE_ENGINE: 'kubernetes', DEFAULT_IMAGE: 'registry.example/base:1' };
  const args = ['up', '--data', data, '--port-offset', 'auto'];
  const missing = await troupe(args, { env: { ...env, KUBECONFIG: `${data}/none` } });
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /KUBECONFIG is .*none, which is not there/);
  const noImage = await troupe(args, { env: { COMPUTE_ENGINE: 'kubernetes' } });
  assert.equal(noImage.code, 1);
  assert.match(noImage.stderr, /needs DEFAULT_IMAGE/);
});
