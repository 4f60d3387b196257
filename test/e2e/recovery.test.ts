/** What happens to containers when the platform dies, and when somebody meddles with Docker behind its back. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform } from '../support/cluster/platform.ts';
import { docker, inDocker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const view = z.object({ id: z.string(), status: z.string() });

interface Setting {
  platform: RunningPlatform;
  token: string;
  readonly id: string;
  readonly ssh: (command: string) => Promise<string>;
  readonly restart: () => Promise<void>;
  readonly status: () => Promise<string>;
}

/** A platform on a data folder of its own with one running container. */
async function running(t: Cleanup): Promise<Setting> {
  // In reverse: the folder with the database goes last.
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const data = await tempDir({ after: (end) => void ends.unshift(end) });
  const env = { DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: 'the admin of this test' };
  const start = async () => {
    const platform = await startPlatform({ data, env });
    return { platform, token: await logIn(platform.ready.urls.auth, 'admin', env.ADMIN_PASSWORD) };
  };
  const { platform, token } = await start();
  const keyFile = join(data, 'key');
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', keyFile]);
  const { compute } = platform.ready.urls;
  const key = await request('POST', `${compute}/compute/ssh-keys`, {
    token,
    body: { name: 'k', public_key: await readFile(`${keyFile}.pub`, 'utf8') },
  });
  const created = await request('POST', `${compute}/compute/containers`, {
    token,
    body: { name: 'one', ssh_key_ids: [key.json.id], ssh_enabled: true },
  });
  const { id } = view.parse(created.json);
  const options = [
    '-i',
    keyFile,
    '-o',
    'StrictHostKeyChecking=no',
    '-o',
    'UserKnownHostsFile=/dev/null',
    '-o',
    'BatchMode=yes',
    '-o',
    'LogLevel=ERROR',
  ];

  const setting: Setting = {
    platform,
    token,
    id,
    ssh: async (command) => {
      const [{ address } = { address: '' }] = await inDocker(id);
      return (await run('ssh', [...options, `root@${address}`, command])).stdout;
    },
    restart: async () => {
      Object.assign(setting, await start());
    },
    status: async () => {
      const { json } = await request('GET', `${setting.platform.ready.urls.compute}/compute/containers`, {
        token: setting.token,
      });
      return z.array(view).parse(json.containers)[0]?.status ?? 'none';
    },
  };
  ends.unshift(async () => {
    await deleteAll(setting.platform.ready.urls.compute, setting.token);
    assert.equal(await setting.platform.stop(), 0, setting.platform.log());
  });
  await until(async () => (await setting.status()) === 'running', { what: 'the container runs', timeoutMs: 60_000 });
  return setting;
}

const options = { skip: skipWithoutDocker(), timeout: 900_000 };

test('after SIGKILL of the platform the container runs on, and the next start finds it', options, async (t) => {
  const setting = await running(t);
  await setting.ssh('echo 1 > /root/kept.txt');
  const [before] = await inDocker(setting.id);
  await setting.platform.kill();
  assert.equal((await inDocker(setting.id))[0]?.state, 'running');

  await setting.restart();
  assert.equal(await setting.status(), 'running');
  // It stays what it was: the look that the start brings finds nothing to do.
  await until(async () =>
    /"status":"200"|status="200"/.test(await (await fetch(`${setting.platform.ready.urls.compute}/metrics`)).text()),
  );
  const [after] = await inDocker(setting.id);
  assert.deepEqual(after, before);
  assert.equal(await setting.ssh('cat /root/kept.txt'), '1\n');
});

test('a stop that was asked for before SIGKILL is finished by the next start', options, async (t) => {
  const setting = await running(t);
  const url = `${setting.platform.ready.urls.compute}/compute/containers/${setting.id}`;
  const stopped = request('POST', `${url}/stop`, { token: setting.token });
  await until(async () => (await setting.status()) === 'stopped', { what: 'the stop is accepted' });
  await setting.platform.kill();
  await stopped.catch(() => undefined);
  await setting.restart();
  assert.equal(await setting.status(), 'stopped');
  await until(async () => (await inDocker(setting.id))[0]?.state === 'exited', {
    what: 'Docker has stopped it',
    timeoutMs: 20_000,
  });
});

test(
  'a container that was removed from outside runs again with its data, and its status is right',
  options,
  async (t) => {
    const setting = await running(t);
    await setting.ssh('echo 2 > /root/kept.txt');
    const [before] = await inDocker(setting.id);
    await docker().call('DELETE', `/containers/${before?.id}?force=1`);
    // Within 10 s what the list says is what Docker says.
    await until(
      async () => {
        const status = await setting.status();
        const [now] = await inDocker(setting.id);
        return status === 'running' && now?.state === 'running' && now.id !== before?.id;
      },
      { what: 'it runs again', timeoutMs: 60_000 },
    );
    assert.equal(await setting.ssh('cat /root/kept.txt'), '2\n');
  },
);

test('a container that was stopped from outside is started again', options, async (t) => {
  const setting = await running(t);
  const [before] = await inDocker(setting.id);
  await docker().call('POST', `/containers/${before?.id}/kill`);
  await until(
    async () => (await inDocker(setting.id))[0]?.state === 'running' && (await setting.status()) === 'running',
    {
      what: 'it runs again',
      timeoutMs: 20_000,
    },
  );
});

test('a second platform on the same data folder is refused with what to do', options, async (t) => {
  const data = await tempDir(t);
  const env = { DEFAULT_IMAGE: await tinyImage() };
  const platform = await startPlatform({ data, env });
  t.after(() => platform.stop());
  await assert.rejects(startPlatform({ data, env }), /Troupe already runs on .* \(process \d+\)\. Stop it first/);
});
