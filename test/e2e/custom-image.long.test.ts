/** A container of an image of its owner's that has no SSH server: from a real registry to a terminal. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { tar } from '../../lib/tar.ts';
import { websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, request, startPlatform } from '../support/cluster/platform.ts';
import { docker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { publish, registryInstalled, removePublished, startRegistry } from '../support/engine/docker-registry.ts';
import { findProgram, skipUnless } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const skip = skipWithoutDocker() || skipUnless(registryInstalled, 'docker-registry is not installed');

test('an image without an SSH server runs and has a terminal', {
  skip,
  timeout: 900_000,
}, async (t) => {
  const data = await tempDir(t);
  const owner = randomUUID();
  const registry = await startRegistry({ open: true });
  t.after(() => registry.close());
  const client = docker();
  t.after(async () => {
    await removePublished(client, owner);
    await client.call('DELETE', `/images/troupe/bare:${owner}`);
    client.close();
  });
  const busybox = await readFile('/usr/bin/busybox');
  await client.call('POST', '/images/create', {
    query: { fromSrc: '-', repo: 'troupe/bare', tag: owner, changes: 'CMD ["/bin/sleep", "1000"]' },
    archive: tar(
      [
        { kind: 'directory', path: 'bin', mode: 0o755 },
        { kind: 'file', path: 'bin/busybox', mode: 0o755, data: busybox },
        ...['sh', 'sleep', 'stty', 'echo'].map((name) => ({
          kind: 'symlink' as const,
          path: `bin/${name}`,
          target: 'busybox',
        })),
      ],
      0,
    ),
  });
  const image = `${registry.host}/admin/bare:1`;
  await publish(client, `troupe/bare:${owner}`, image, owner);

  const keyFile = join(data, 'key');
  await run(findProgram('ssh-keygen') ?? 'ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', keyFile]);
  const platform = await startPlatform({
    data,
    env: { REGISTRY_HOST: registry.host, DEFAULT_IMAGE: await tinyImage() },
  });
  t.after(() => platform.kill());
  const { urls, admin } = platform.ready;
  const token = await logIn(urls.auth, admin.username, admin.password ?? '');
  const key = await request('POST', `${urls.compute}/compute/ssh-keys`, {
    token,
    body: { name: 'laptop', public_key: await readFile(`${keyFile}.pub`, 'utf8') },
  });
  const create = (image: string) =>
    request('POST', `${urls.compute}/compute/containers`, {
      token,
      body: { name: 'bare', ssh_key_ids: [key.json.id], image, pull_policy: 'Always' },
    });
  const view = async (id: unknown) =>
    (await request('GET', `${urls.compute}/compute/containers/${id}`, { token })).json;

  const missing = await create(`${registry.host}/admin/none:1`);
  await until(async () => (await view(missing.json.id)).status === 'failed', { timeoutMs: 60_000 });
  assert.match(
    z.string().parse((await view(missing.json.id)).status_reason),
    /none:1 cannot be pulled: .*not found|unknown/,
  );

  const { json } = await create(image);
  await until(async () => (await view(json.id)).status === 'running', { timeoutMs: 60_000 });
  const terminal = await websocket(t, `${urls.compute.replace('http', 'ws')}/compute/containers/${json.id}/terminal`, {
    headers: { authorization: `Bearer ${token}` },
  });
  terminal.send(Buffer.from('stty size; echo "TERM is $TERM"; exit\n'));
  let shown = '';
  while (!/TERM is xterm-256color\r/.test(shown)) {
    const frame = await terminal.next(20_000);
    if ('binary' in frame) shown += Buffer.from(frame.binary).toString();
  }
  assert.match(shown, /24 80\r/);
  assert.deepEqual(await terminal.closed, { code: 1000, reason: 'session ended' });

  await deleteAll(urls.compute, token);
  assert.equal(await platform.stop(), 0, platform.log());
});
