/** SSH through the gateway of the running platform: a real container, the real client, and what ends a session. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { generateKeyPair } from '../../transports/ssh/keys.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { skipWithout } from '../support/require.ts';
import { type Ended, finish, run } from '../support/ssh/gateway.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the admin of this test';

describe('SSH', { skip: skipWithoutDocker() || skipWithout('ssh', 'ssh-keyscan', 'sftp'), timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let start: () => Promise<RunningPlatform>;
  let token = '';
  let id = '';
  let chosen = 0;
  let options: string[] = [];

  before(async () => {
    const dir = await tempDir(cleanup);
    const data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const env = { DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: PASSWORD };
    start = () => startPlatform({ data, env });
    platform = await start();
    cleanup.after(() => platform.stop());
    token = await logIn(platform.ready.urls.auth, 'admin', PASSWORD);
    const keys = await Promise.all(
      ['chosen', 'other', 'stranger'].map(async (name) => {
        const pair = generateKeyPair(name);
        await writeFile(join(dir, name), pair.privateKey, { mode: 0o600 });
        return pair.publicKey;
      }),
    );
    options = ['-F', 'none', '-o', `UserKnownHostsFile=${join(dir, 'known_hosts')}`, '-o', 'IdentitiesOnly=yes'];
    options.push('-o', `IdentityFile=${dir}/%n`);
    const added = [];
    for (const public_key of keys.slice(0, 2)) {
      added.push(await call('POST', '/ssh-keys', { name: `k${added.length}`, public_key }));
    }
    chosen = z.number().parse(added[0]?.id);
    const made = await call('POST', '/containers', { name: 'ssh', ssh_key_ids: [chosen], ssh_enabled: true });
    id = z.string().parse(made.id);
    await untilRunning();
  });
  after(async () => {
    if (token !== '') await deleteAll(platform.ready.urls.compute, token);
    for (const end of ends) await end();
  });

  async function call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const reply = await request(method, `${platform.ready.urls.compute}/compute${path}`, {
      token,
      ...(body === undefined ? {} : { body }),
    });
    assert.equal(reply.status, 200, JSON.stringify(reply.json));
    return reply.json;
  }

  const untilRunning = () =>
    until(async () => (await call('GET', `/containers/${id}`)).status === 'running', {
      what: 'it runs',
      timeoutMs: 60_000,
    });

  /** `ssh` with one of the keys (as the alias of the gateway, which is how ssh names key files). */
  function startSsh(command: string, { key = 'chosen', user = id, port = platform.ready.ssh.port } = {}): ChildProcess {
    const { host } = platform.ready.ssh;
    const where = ['-o', `HostName=${host}`, '-p', String(port), '-o', 'BatchMode=yes'];
    const known = ['-o', 'StrictHostKeyChecking=accept-new', '-o', 'HostKeyAlias=gateway'];
    return spawn('ssh', [...options, ...where, ...known, `${user}@${key}`, command]);
  }
  const ssh = (command: string, how?: Parameters<typeof startSsh>[1]): Promise<Ended> => finish(startSsh(command, how));

  test('enters the container as root, with the key that was chosen for it', async () => {
    const ended = await ssh('echo "$(id -u) $(hostname)"; exit 3');
    assert.equal(ended.code, 3, ended.stderr);
    assert.match(ended.stdout.toString(), /^0 \S+\n$/);
    const text = await finish(startSsh('cat'), 'x'.repeat(3_000_000));
    assert.equal(text.stdout.length, 3_000_000);
  });

  test('says what is wrong to those who may know it, and the same to all others', async () => {
    assert.match((await ssh('true', { key: 'other' })).stderr, /was not chosen for container/);
    const foreign = await ssh('true', { key: 'stranger' });
    const missing = await ssh('true', { key: 'stranger', user: 'zzzzzzzzzzzz' });
    assert.equal(foreign.code, 255);
    assert.equal(foreign.stderr, missing.stderr.replaceAll('zzzzzzzzzzzz', id));
  });

  /** A session that is open, and how it ended. */
  async function openSession(): Promise<{ child: ChildProcess; stderr: () => string }> {
    const child = startSsh('echo here; sleep 600');
    let [out, stderr] = ['', ''];
    child.stdout?.on('data', (chunk: Buffer) => (out += chunk));
    child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk));
    cleanup.after(() => void child.kill());
    await until(() => out.includes('here') || child.exitCode !== null, { what: 'a session' });
    assert.equal(child.exitCode, null, stderr);
    return { child, stderr: () => stderr };
  }

  test('ends at once when SSH is turned off, and says so', async () => {
    const { child, stderr } = await openSession();
    const actors = await request('GET', `${platform.ready.urls.auth}/api/runtime/actors`, { token });
    assert.ok(JSON.stringify(actors.json).includes('"gateway/ssh"'));
    await call('PUT', `/containers/${id}/ssh`, { ssh_enabled: false });
    await until(() => child.exitCode !== null, { what: 'the session ends', timeoutMs: 2000 });
    assert.match(stderr(), /SSH is off for container/);
    assert.match((await ssh('true')).stderr, /SSH is off for container/);
    await call('PUT', `/containers/${id}/ssh`, { ssh_enabled: true });
    await until(async () => (await ssh('true')).code === 0, { what: 'it opens again', timeoutMs: 60_000 });
  });

  test('is spoken on a port of the container too, while a rule opens it', async () => {
    const port = 8000 + (process.pid % 900);
    await call('POST', `/containers/${id}/ingress`, { port, target_port: 80 });
    await until(async () => (await ssh('echo there', { port })).stdout.toString() === 'there\n', {
      what: 'SSH on the port',
      timeoutMs: 20_000,
    });
    assert.equal((await ssh('true', { port, key: 'stranger' })).code, 255);
    await call('DELETE', `/containers/${id}/ingress/${port}`);
  });

  test('has the same host keys after a restart', async () => {
    const scan = async () => {
      const { host, port } = platform.ready.ssh;
      const { stdout } = await run('ssh-keyscan', ['-p', String(port), host]);
      return stdout
        .toString()
        .replaceAll(/^\[.*?\]:\d+ /gm, '')
        .split('\n')
        .sort()
        .join('\n');
    };
    const before = await scan();
    assert.match(before, /ssh-ed25519 [\s\S]*ssh-rsa /);
    await platform.stop();
    platform = await start();
    assert.equal(await scan(), before);
    assert.equal((await ssh('true')).code, 0);
  });

  test('ends when the container stops, and says that it is stopped', async () => {
    const { child } = await openSession();
    await call('POST', `/containers/${id}/stop`);
    await until(() => child.exitCode !== null, { what: 'the session ends', timeoutMs: 2000 });
    assert.match((await ssh('true')).stderr, /is stopped: start it first/);
    await call('POST', `/containers/${id}/start`);
    await untilRunning();
  });

  test('ends when its key is deleted', async () => {
    const { child } = await openSession();
    const ended = once(child, 'close');
    await call('DELETE', `/ssh-keys/${chosen}`);
    await until(() => child.exitCode !== null, { what: 'the session ends', timeoutMs: 2000 });
    await ended;
    assert.match((await ssh('true')).stderr, /Permission denied/);
  });
});
