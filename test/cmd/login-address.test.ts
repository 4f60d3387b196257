/** Where a login goes when the profile that it renews is known at another address. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { troupe } from '../support/cluster/platform.ts';
import { tempDir } from '../support/temp.ts';

const kept = z.object({ current: z.string(), profiles: z.array(z.object({ name: z.string(), url: z.string() })) });

/** A platform that knows each token. */
async function platform(t: TestContext) {
  const server = createServer((_, reply) => {
    reply.writeHead(200, { 'content-type': 'application/json' });
    reply.end(JSON.stringify({ username: 'ann', display_name: 'Ann', user_id: 'uuuuuuuuuuu1', is_admin: false }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return `http://127.0.0.1:${address.port}`;
}

test('what is typed wins over the address of the profile, and is kept: a URL, or the folder of a platform', async (t) => {
  const folder = await tempDir(t);
  const config = join(folder, 'config');
  const data = join(folder, 'data');
  const [first, second, here] = [await platform(t), await platform(t), await platform(t)];
  await mkdir(data);
  await writeFile(join(data, 'up.json'), JSON.stringify({ urls: { https: here } }));
  const logIn = async (env: Record<string, string>, ...words: string[]) => {
    const { code, stderr } = await troupe(['login', ...words, '--profile', 'work', '--token'], {
      env: { XDG_CONFIG_HOME: config, TROUPE_URL: '', TROUPE_TOKEN: '', ...env },
      input: 'svc_x\n',
    });
    assert.equal(code, 0, stderr);
    const { current, profiles } = kept.parse(JSON.parse(await readFile(join(config, 'troupe/client.json'), 'utf8')));
    assert.deepEqual([current, profiles.length], ['work', 1]);
    return profiles[0]?.url;
  };
  assert.equal(await logIn({}, first), first);
  assert.equal(await logIn({}, second), second);
  assert.equal(await logIn({}), second);
  assert.equal(await logIn({ TROUPE_URL: first }, second), second);
  // A folder that was not typed is where the platform of this machine would be: the profile stands.
  assert.equal(await logIn({ TROUPE_DATA: data }), second);
  assert.equal(await logIn({}, '--data', data), here);
  assert.equal(await logIn({ TROUPE_URL: first }, '--data', data), here);
});
