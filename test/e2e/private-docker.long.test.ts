/** `troupe up` where no Docker Engine runs: it brings its own, and leaves it running for the containers. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { z } from 'zod';
import { DockerClient } from '../../transports/engines/docker/api/client.ts';
import { dockerdFiles } from '../../transports/engines/docker/host/dockerd-files.ts';
import { privateDockerHost } from '../../transports/engines/docker/host/private-dockerd.ts';
import { isAlive } from '../../transports/engines/docker/host/processes.ts';
import { logIn, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { buildTinyImage } from '../support/engine/tiny-image.ts';
import { skipUnless, skipWithout } from '../support/require.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const skip =
  skipWithout('dockerd', 'iptables') ||
  skipUnless(process.getuid?.() === 0, 'a private dockerd takes root') ||
  skipUnless(!existsSync('/var/run/docker.sock'), 'this machine has a Docker Engine of its own');

/** The environment of a machine on which nobody says where Docker is. */
const env = { DOCKER_HOST: '', ADMIN_PASSWORD: 'the admin of this test' };

test('up starts a private Docker Engine and keeps it running, SIGTERM leaves containers running, down stops all', {
  skip,
  timeout: 900_000,
}, async (t: Cleanup) => {
  const data = await tempDir(t);
  t.after(async () => {
    await troupe(['down', '--data', data], { env });
  });
  const image = await buildTinyImage();
  // DEFAULT_IMAGE is not there yet at the first start: it serves all the same.
  const first = await startPlatform({ data, env: { ...env, DEFAULT_IMAGE: image.reference } });
  const host = (await privateDockerHost(data)) ?? '';
  assert.match(host, /^unix:\/\//);
  await image.build(new DockerClient(host), () => {}, new AbortController().signal);

  const { urls } = first.ready;
  const token = await logIn(urls.auth, 'admin', env.ADMIN_PASSWORD);
  const key = await request('POST', `${urls.compute}/compute/ssh-keys`, {
    token,
    body: { name: 'k', public_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICrSHhbpPKMHUfhULNt2JzEkshWvEnerw8RTQbVxdySt' },
  });
  const created = await request('POST', `${urls.compute}/compute/containers`, {
    token,
    body: { name: 'one', ssh_key_ids: [key.json.id] },
  });
  const id = z.string().parse(created.json.id);
  const status = async (compute: string) =>
    (await request('GET', `${compute}/compute/containers/${id}`, { token })).json.status;
  await until(async () => (await status(urls.compute)) === 'running', { what: 'it runs', timeoutMs: 60_000 });
  assert.equal(await first.stop(), 0, first.log());

  const second = await startPlatform({ data, env: { ...env, DEFAULT_IMAGE: image.reference } });
  assert.equal(await privateDockerHost(data), host);
  assert.equal(await status(second.ready.urls.compute), 'running');
  const refused = await troupe(['down', '--data', data], { env });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /Troupe already runs/);
  const { pidFile } = dockerdFiles(data);
  const pid = Number(readFileSync(pidFile, 'utf8'));
  process.kill(pid, 'SIGKILL');
  await until(async () => !isAlive(pid) && (await privateDockerHost(data)) !== undefined, { timeoutMs: 60_000 });
  assert.notEqual(Number(readFileSync(pidFile, 'utf8')), pid);
  await until(() => new DockerClient(host).ping().catch(() => false), { what: 'it answers', timeoutMs: 60_000 });
  assert.equal(await second.stop(), 0, second.log());

  const down = await troupe(['down', '--data', data], { env });
  assert.equal(down.code, 0, down.stderr);
  assert.match(down.stdout, /^Stopped 1 container\. .*\nStopped the private Docker Engine\.\n$/);
  assert.equal(await privateDockerHost(data), undefined);

  const third = await startPlatform({ data, env: { ...env, DEFAULT_IMAGE: image.reference } });
  const { compute } = third.ready.urls;
  await until(async () => (await status(compute)) === 'running', {
    what: 'the next up starts it again',
    timeoutMs: 60_000,
  });
  await request('DELETE', `${compute}/compute/containers/${id}`, { token });
  const client = new DockerClient((await privateDockerHost(data)) ?? '');
  const filters = encodeURIComponent(JSON.stringify({ label: ['troupe.installation'] }));
  // Networks too: the bridge of one would outlive its dockerd.
  await until(async () => {
    const left = (path: string) => client.json('GET', `${path}filters=${filters}`, z.array(z.unknown()));
    return (await left('/containers/json?all=1&')).length + (await left('/networks?')).length === 0;
  });
  assert.equal(await third.stop(), 0, third.log());
  assert.equal((await troupe(['down', '--data', data], { env })).code, 0);
});
