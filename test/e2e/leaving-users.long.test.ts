/** `troupe users disable`, `enable` and `remove` beside a running platform: what its user has open ends, and what is theirs goes. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { z } from 'zod';
import { startBox } from '../support/clients/container.ts';
import { websocket } from '../support/clients/websocket.ts';
import { logIn, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { inDocker, leftInDocker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the password of ann';

test('a user is disabled with all that is open, enabled, stopped, and removed with all that was theirs', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const data = await tempDir(t);
  const env = { DEFAULT_IMAGE: await tinyImage() };
  const platform = await startPlatform({ data, env });
  t.after(() => platform.stop());
  const { urls, ssh } = platform.ready;
  const cli = async (...args: string[]) => {
    const done = await troupe(['users', ...args, '--data', data], { env, input: '' });
    return { ...done, shown: done.stdout + done.stderr };
  };
  const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: PASSWORD });
  assert.equal(added.code, 0, added.stderr);
  const token = await logIn(urls.auth, 'ann', PASSWORD);
  const { id, ws, keyFile } = await startBox(urls.compute, token, data);
  const statusWith = async (text: string) =>
    (await request('GET', `${urls.compute}/compute/containers`, { token: text })).status;
  const me = z
    .object({ user_id: z.string() })
    .parse((await request('GET', `${urls.auth}/api/session`, { token })).json);
  const body = { name: 'ci', scopes: { [`compute.${me.user_id}`]: ['read'] } };
  const apiToken = z.string().parse((await request('POST', `${urls.auth}/api/tokens`, { token, body })).json.token);
  assert.equal(await statusWith(apiToken), 200);

  const authorized = { headers: { authorization: `Bearer ${token}` } };
  const terminal = await websocket(t, `${ws}/terminal`, authorized);
  const updates = await websocket(t, `${urls.compute.replace('http', 'ws')}/compute/ws`, authorized);
  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes', 'LogLevel=ERROR'];
  const sshArgs = [
    ...options.flatMap((option) => ['-o', option]),
    ...['-i', keyFile, '-p', String(ssh.port), `${id}@${ssh.host}`],
  ];
  const login = spawn('ssh', [...sshArgs, 'echo inside; cat'], { stdio: ['pipe', 'pipe', 'pipe'] });
  t.after(() => login.kill('SIGKILL'));
  const left = once(login, 'close');
  const [said] = await once(login.stdout, 'data');
  assert.equal(String(said), 'inside\n');

  const disabled = await cli('disable', 'ann');
  assert.match(disabled.shown, /^ann is disabled: .*\nTheir container goes on running: add --stop to stop it\.\n$/);
  assert.deepEqual(await terminal.closed, { code: 1008, reason: 'token revoked' });
  assert.deepEqual(await updates.closed, { code: 1008, reason: 'token revoked' });
  assert.notEqual((await left)[0], 0);
  for (const text of [token, apiToken]) assert.equal(await statusWith(text), 401);
  const refused = await request('POST', `${urls.auth}/api/login`, { body: { username: 'ann', password: PASSWORD } });
  assert.equal(refused.status, 403);
  await assert.rejects(
    new Promise((yes, no) => execFile('ssh', [...sshArgs, 'true'], (error) => (error ? no(error) : yes(0)))),
  );
  assert.deepEqual(
    (await inDocker(id)).map(({ state }) => state),
    ['running'],
  );
  assert.match((await cli('list')).stdout, /^ann +\S+ +\S+ {2}disabled +default +default +default$/m);

  assert.match((await cli('enable', 'ann')).shown, /^ann may log in again\./);
  assert.equal((await cli('enable', 'ann')).shown, 'ann was not disabled.\n');
  assert.equal(await statusWith(token), 401);
  assert.equal(await statusWith(apiToken), 200);
  assert.equal(await statusWith(await logIn(urls.auth, 'ann', PASSWORD)), 200);

  assert.match((await cli('disable', 'ann', '--stop')).shown, /is stopped by the platform/);
  await until(async () => (await inDocker(id))[0]?.state !== 'running', { what: 'it is stopped', timeoutMs: 60_000 });

  const unsure = await cli('remove', 'ann');
  assert.equal(unsure.code, 1);
  assert.match(unsure.stderr, /Nothing was done\..*--yes/);
  assert.match((await cli('remove', platform.ready.admin.username, '--yes')).stderr, /is the administrator/);
  const removed = await cli('remove', 'ann', '--yes', '--json');
  assert.equal(removed.code, 0, removed.stderr);
  assert.deepEqual(JSON.parse(removed.stdout), { id: me.user_id, username: 'ann', state: 'removed' });
  assert.equal(await leftInDocker(id), 0);
  assert.equal((await cli('remove', 'ann', '--yes')).shown, 'ann is removed, with all that was theirs.\n');
  assert.match((await cli('remove', 'bob', '--yes')).stderr, /There is no user bob/);
  assert.doesNotMatch((await cli('list')).stdout, /^ann/m);
});
