/** A gateway that nobody gave ENCRYPTION_KEY: it runs, and does without what needs the key. */
import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { platformKeys, sshHostKeys } from '../../cmd/config/platform-keys.ts';
import { newId } from '../../proto/ids.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { spawnTroupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { tempDir } from '../support/temp.ts';

failOnLeaks();

const SECRET = 'a secret of the tests, 32 bytes or more';

test('without ENCRYPTION_KEY it serves, says in a line what is off, and makes no key of its own', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  const roles = await database.serviceRoles();
  // The platform was set up elsewhere, with a key.
  const key = createSecretKey(Buffer.alloc(32, 7));
  await platformKeys(db, key);
  await sshHostKeys(db, key);
  const user = { id: newId(), username: 'ann', isAdmin: false };
  assert.ok(await insertUser(db, { ...user, passwordHash: 'none' }));
  const { token } = await sessionTokens(SECRET, 3600, { now: Date.now })(user);

  const data = join(await tempDir(t), 'gateway');
  const ports = ['http', 'https', 'ssh', 'net'].flatMap((name) => [`--${name}-port`, '0']);
  const child = spawnTroupe(['gateway', '--listen', '127.0.0.1', '--domain', 'cloud.test', '--data', data, ...ports], {
    ...{ DATABASE_URL: roles.urlOf('gateway'), JWT_SECRET: SECRET, LOG_LEVEL: 'error' },
  });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk));
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => `${(await Promise.race([lines.next(), ended.then(() => ({ value: log }))])).value}`;
  const [first, second] = [await next(), await next()];
  const [, https] = /^The gateway of cloud\.test listens on 127\.0\.0\.1, HTTP \d+, HTTPS (\d+)\.$/.exec(first) ?? [];
  assert.ok(https !== undefined, `${first}\n${log}`);
  assert.equal(
    second,
    'Without ENCRYPTION_KEY these are off here: SSH login to containers, the DNS provider, certificates of mapped hostnames.',
  );
  assert.equal(existsSync(join(data, 'encryption-key')), false);

  const ask = async (path: string): Promise<{ status: number; text: string }> => {
    const headers = { host: 'net.cloud.test', authorization: `Bearer ${token}` };
    const to = { host: '127.0.0.1', port: Number(https), servername: 'net.cloud.test' };
    // Its own authority's; who answers does not matter here.
    const outgoing = request({ ...to, path, headers, agent: false, rejectUnauthorized: false }).end();
    const [response] = await once(outgoing, 'response');
    let text = '';
    for await (const chunk of response) text += chunk;
    return { status: response.statusCode, text };
  };
  assert.deepEqual(await ask('/api/domains'), { status: 503, text: 'dns-provider integration not configured' });
  assert.deepEqual(await ask('/api/domain-mappings'), { status: 200, text: '{"domains":[]}' });
  child.kill('SIGTERM');
  assert.deepEqual((await ended)[0], 0, log);
});
