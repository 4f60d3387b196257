/** Files of a real container over HTTP: the real command line, and a real Docker Engine. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { tar } from '../../lib/tar.ts';
import { type Box, startBox } from '../support/clients/container.ts';
import { commandOutcome, execSocket } from '../support/clients/exec.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

const refusal = z.object({ error: z.string(), code: z.string() });

describe('files of a real container', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  let data = '';
  let platform: RunningPlatform;
  let token = '';
  let box: Box;

  before(async () => {
    data = await mkdtemp(join(tmpdir(), 'troupe-test-'));
    const env = { DEFAULT_IMAGE: await tinyImage(), FILES_MAX_MB: '64' };
    platform = await startPlatform({ data, env });
    const { urls, admin } = platform.ready;
    token = await logIn(urls.auth, admin.username, admin.password ?? '');
    box = await startBox(urls.compute, token, data);
  });
  after(async () => {
    try {
      await deleteAll(platform.ready.urls.compute, token);
    } finally {
      await platform.stop();
      await rm(data, { recursive: true, force: true });
    }
  });

  const files = (method: string, path: string, init: RequestInit & { more?: string; by?: string } = {}) => {
    const { more = '', by = token, headers, ...rest } = init;
    const url = `${platform.ready.urls.compute}/compute/containers/${box.id}/files?path=${encodeURIComponent(path)}`;
    const duplex = { duplex: 'half' } as const;
    return fetch(url + more, { method, ...duplex, ...rest, headers: { authorization: `Bearer ${by}`, ...headers } });
  };
  const bytesOf = async (path: string, init?: Parameters<typeof files>[2]) => {
    const reply = await files('GET', path, init);
    assert.equal(reply.status, 200, path);
    return Buffer.from(await reply.arrayBuffer());
  };
  const refused = async (reply: Response, status: number, code: string) => {
    const body = refusal.parse(await reply.json());
    assert.deepEqual([reply.status, body.code], [status, code], body.error);
  };
  const ran = async (t: Cleanup, script: string) =>
    (await commandOutcome(await execSocket(t, `${box.ws}/exec`, token, [script]))).out;

  test('a file is written, read in whole and in parts, and removed', async (t) => {
    const content = randomBytes(5_000_001);
    assert.equal((await files('PUT', '/root/a/b c/ä.bin', { body: content, more: '&mode=750' })).status, 200);
    assert.match(await ran(t, "stat -c '%a %s' '/root/a/b c/ä.bin'"), /^750 5000001$/m);
    assert.ok((await bytesOf('/root/a/b c/ä.bin')).equals(content));
    assert.equal((await files('PUT', '/root/a/b c/ä.bin', { body: 'short' })).status, 200);
    assert.match(await ran(t, "stat -c '%a %s' '/root/a/b c/ä.bin'"), /^750 5$/m);
    for (const [range, status, text] of [
      ['bytes=1-2', 206, 'ho'],
      ['bytes=-2', 206, 'rt'],
      ['bytes=3-', 206, 'rt'],
      ['bytes=2-1', 200, 'short'],
    ] as const) {
      const reply = await files('GET', '/root/a/b c/ä.bin', { headers: { range } });
      assert.deepEqual([reply.status, await reply.text()], [status, text], range);
    }
    await refused(await files('GET', '/root/a/b c/ä.bin', { headers: { range: 'bytes=5-' } }), 416, 'bad_range');
    const stale = await files('GET', '/root/a/b c/ä.bin', { headers: { range: 'bytes=1-2', 'if-range': '"x"' } });
    assert.deepEqual([stale.status, await stale.text()], [200, 'short']);
    assert.equal((await files('PUT', '/root/empty', { body: '' })).status, 200);
    assert.equal((await bytesOf('/root/empty')).length, 0);
    assert.equal((await files('DELETE', '/root/a')).status, 200);
    await refused(await files('GET', '/root/a'), 404, 'not_found');
    await refused(await files('DELETE', '/root/a'), 404, 'not_found');
  });

  test('a folder goes out and comes in as a tar archive', async (t) => {
    const text = (path: string) => ({ kind: 'file', path, mode: 0o600, data: Buffer.from(path) }) as const;
    const sent = tar([text('one'), text('deep/two'), { kind: 'symlink', path: 'link', target: 'one' }]);
    assert.equal((await files('PUT', '/root/tree', { body: sent, more: '&archive=tar' })).status, 200);
    assert.equal(await ran(t, 'cat /root/tree/link /root/tree/deep/two'), 'onedeep/two');
    const got = await bytesOf('/root/tree', { more: '&archive=tar' });
    assert.equal((await files('PUT', '/root/copy', { body: got, more: '&archive=tar' })).status, 200);
    assert.equal(await ran(t, 'cat /root/copy/tree/one'), 'one');
    assert.equal((await bytesOf('/root/tree/link')).toString(), 'one');
    assert.equal((await files('PUT', '/root/tree/link', { body: 'through' })).status, 200);
    assert.equal(await ran(t, 'cat /root/tree/one; readlink /root/tree/link'), 'throughone\n');
  });

  test('what cannot be is refused with what is wrong', async () => {
    for (const path of ['relative', '/a/../b', '/a//b', '/a/', '', '/a\0b'])
      await refused(await files('GET', path), 400, 'invalid_request');
    await refused(await files('GET', '/root'), 409, 'is_folder');
    await refused(await files('PUT', '/root', { body: 'x' }), 409, 'is_folder');
    assert.equal((await files('PUT', '/root/plain', { body: 'x' })).status, 200);
    await refused(await files('PUT', '/root/plain/below', { body: 'x' }), 409, 'no_folder');
    await refused(await files('PUT', '/root/plain', { body: tar([]), more: '&archive=tar' }), 409, 'no_folder');
    await refused(await files('PUT', '/etc/troupe/authorized_keys', { body: 'x' }), 409, 'read_only');
    await refused(await files('DELETE', '/etc/troupe'), 409, 'read_only');
    await refused(await files('DELETE', '/'), 409, 'conflict');
    await refused(await files('PUT', '/root/big', { body: Buffer.alloc(65 * 2 ** 20) }), 413, 'body_too_large');
    const stream = ReadableStream.from([Buffer.from('no length')]);
    await refused(await files('PUT', '/root/x', { body: stream }), 400, 'invalid_request');
  });

  test('an archive with devices, compressed, cut or too large is refused', async () => {
    const put = (body: Buffer) => files('PUT', '/root/bad', { body, more: '&archive=tar' });
    const device = tar([{ kind: 'file', path: 'sda', mode: 0o600, data: Buffer.alloc(0) }]);
    device.write('4', 156);
    let sum = 0x20 * 8;
    for (const [at, byte] of device.subarray(0, 512).entries()) if (at < 148 || at >= 156) sum += byte;
    device.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
    await refused(await put(device), 400, 'invalid_request');
    await refused(await put(Buffer.from('1f8b080000000000000303000000000000000000', 'hex')), 400, 'invalid_request');
    const whole = tar([{ kind: 'file', path: 'x', mode: 0o600, data: Buffer.alloc(100_000) }]);
    await refused(await put(whole.subarray(0, 50_000)), 400, 'invalid_request');
  });

  test('a token needs update to read and to change, and changes are in the audit trail', async () => {
    const { urls } = platform.ready;
    const [, claims = ''] = token.split('.');
    const { user_id } = z
      .object({ user_id: z.string() })
      .parse(JSON.parse(Buffer.from(claims, 'base64url').toString()));
    const tokenOf = async (name: string, actions: readonly string[]) => {
      const scopes = { [`compute.${user_id}.containers.${box.id}`]: actions };
      const body = { name, scopes, expires_in: '30d' };
      return z.string().parse((await request('POST', `${urls.auth}/api/tokens`, { token, body })).json.token);
    };
    const by = await tokenOf('reader', ['read', 'create', 'delete', 'start', 'stop']);
    assert.equal((await files('PUT', '/root/seen', { body: 'x' })).status, 200);
    assert.equal((await files('GET', '/root/seen', { by: await tokenOf('writer', ['update']) })).status, 200);
    for (const more of ['', '&archive=tar'])
      await refused(await files('GET', '/root/seen', { by, more }), 403, 'missing_scope');
    await refused(await files('PUT', '/root/seen', { body: 'y', by }), 403, 'missing_scope');
    await refused(await files('DELETE', '/root/seen', { by }), 403, 'missing_scope');
    assert.equal((await files('DELETE', '/root/seen')).status, 200);
    const { stdout } = await troupe(['audit', '--json', '--data', data]);
    const entries = stdout.split('\n').filter((line) => line.includes('"/root/seen"'));
    const actions = entries.map((line) => /container\.\w+_files/.exec(line)?.[0]);
    assert.deepEqual(actions, ['container.write_files', 'container.remove_files']);
  });

  test('nobody reads what the platform keeps in a container, whichever way leads to it', async (t) => {
    const url = `${platform.ready.urls.compute}/compute/containers/${box.id}`;
    const changed = await request('PATCH', url, { token, body: { secrets: { TOP: 'hunter2-value' } } });
    assert.ok(changed.status < 300, JSON.stringify(changed.json));
    const secret = async () => (await ran(t, 'echo $TOP').catch(() => '')) === 'hunter2-value\n';
    await until(secret, { what: 'the container has its secret', timeoutMs: 60_000 });
    await ran(
      t,
      'ln -s /etc/troupe/env /root/env; ln -s /etc/troupe /root/keys; ln -s /etc /root/etc; ln -s / /root/all; ' +
        'ln -s keys /root/chain',
    );
    const ways = [
      ...['/etc/troupe/env', '/etc/troupe/authorized_keys', '/root/env', '/root/keys/env', '/root/etc/troupe/env'],
      ...['/root/all/etc/troupe/env', '/root/chain/env', '/root/all/root/keys/env'],
    ];
    for (const path of ways) {
      await refused(await files('GET', path), 403, 'forbidden');
      await refused(await files('GET', path, { headers: { range: 'bytes=0-0' } }), 403, 'forbidden');
      await refused(await files('PUT', path, { body: 'x' }), 409, 'read_only');
    }
    for (const path of [
      ...ways,
      '/etc/troupe',
      '/root/keys',
      '/root/etc/troupe',
      '/root/all/etc/troupe',
      '/root/chain',
    ])
      await refused(await files('GET', path, { more: '&archive=tar' }), 403, 'forbidden');
    for (const path of ['/', '/etc', '/root/etc', '/root/all', '/root/all/etc']) {
      const bytes = await bytesOf(path, { more: '&archive=tar' });
      assert.equal(bytes.includes('hunter2-value'), false, path);
      // As a header has it: the settings of sshd name the file, too.
      assert.equal(bytes.includes('etc/troupe/authorized_keys\0\0'), false, path);
      assert.ok(bytes.includes('passwd'), path);
    }
    assert.match((await bytesOf('/root/etc/passwd')).toString(), /^root:/);
  });

  test('files of a stopped container are read and written, and there when it starts', async (t) => {
    const url = `${platform.ready.urls.compute}/compute/containers/${box.id}`;
    assert.equal((await files('PUT', '/root/still', { body: 'here' })).status, 200);
    await request('POST', `${url}/stop`, { token });
    await until(async () => (await files('DELETE', '/root/none')).status === 404);
    assert.equal((await bytesOf('/root/still')).toString(), 'here');
    assert.equal((await files('PUT', '/root/while-away', { body: 'kept' })).status, 200);
    await request('POST', `${url}/start`, { token });
    await until(async () => (await request('GET', url, { token })).json.status === 'running', { timeoutMs: 60_000 });
    assert.equal(await ran(t, 'cat /root/while-away'), 'kept');
  });
});
