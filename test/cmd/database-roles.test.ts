/** `troupe database roles`, and services that start with a role of their own: what they say when it does not suffice. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { bringUpToDate } from '../../cmd/node/database.ts';
import { openDb } from '../../storage/db.ts';
import { schemaVersion } from '../../storage/migrate.ts';
import { SERVICES } from '../../storage/rights.ts';
import { missingRight, roleOf } from '../../storage/roles.ts';
import { troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { tempDir } from '../support/temp.ts';

const SECRETS = {
  JWT_SECRET: 'not a secret, but long enough for one',
  ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
  NATS_URL: 'nats://127.0.0.1:1',
  NATS_INSECURE: 'allow',
};

async function bench(t: TestContext) {
  const database = await testDatabase();
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
    await database.close();
  });
  const after = (end: () => unknown) => void ends.unshift(end);
  return { db: database.db, url: database.url, roles: await database.serviceRoles(), after };
}

/** The command lines of services that run alone. */
const commands = async (t: TestContext) =>
  // The registry's begins without the database: pulls need none.
  SERVICES.filter((service) => service !== 'registry').map((service) => ({
    service,
    args:
      service === 'gateway' ? async () => [service, '--data', await tempDir(t)] : async () => [service, '-addr', ':0'],
  }));

test('a service with its own role starts on the schema of its version, and on an older one says who brings it up to date', async (t) => {
  const { db, roles, after } = await bench(t);
  const { knows } = await schemaVersion(db);
  const notify = openDb(roles.connectionOf('notify'), { log: silentLog, name: 'notify', max: 1 });
  after(() => notify.close());
  assert.deepEqual(await bringUpToDate(notify, silentLog), []);

  await db.run('delete from migrations where id = $1', [knows]);
  for (const { service, args } of await commands(t)) {
    const { code, stderr } = await troupe(await args(), { env: { ...SECRETS, DATABASE_URL: roles.urlOf(service) } });
    assert.equal(code, 1, stderr);
    const expected = `troupe: The database has ${knows - 1} of ${knows} migrations, and the role of DATABASE_URL may not`;
    assert.ok(stderr.includes(expected) && stderr.includes('`troupe migrate`'), stderr);
    assert.equal((await schemaVersion(db)).has, knows - 1, service);
  }
});

test('a service whose role lacks a right does not start, and names what gives it', async (t) => {
  const { db, roles } = await bench(t);
  for (const { service, args } of await commands(t)) {
    const role = roleOf(service, roles.prefix);
    await db.script(
      `revoke update (last_used_at) on api_tokens from ${role}; revoke update on api_tokens from ${role}`,
    );
    const { code, stderr } = await troupe(await args(), { env: { ...SECRETS, DATABASE_URL: roles.urlOf(service) } });
    assert.equal(code, 1, stderr);
    assert.match(stderr, new RegExp(`role ${role} lacks rights .+ on api_tokens.+\`troupe database roles --apply\``));
  }
});

test('troupe database roles makes them and says which may not log in yet; again it changes nothing', async (t) => {
  const { db, url, after } = await bench(t);
  const prefix = `r${randomUUID().replaceAll('-', '').slice(0, 16)}`;
  const all = SERVICES.map((service) => roleOf(service, prefix));
  const [first = '', ...others] = all;
  after(() => db.script(all.map((role) => `drop owned by ${role}; drop role ${role};`).join('\n')));
  const run = async (...args: string[]) => {
    const env = { DATABASE_URL: url };
    const { code, stdout, stderr } = await troupe(['database', 'roles', '--prefix', prefix, ...args], { env });
    assert.equal(code, 0, stderr);
    return stdout;
  };
  await db.script(await run('auth'));
  assert.match(await run('--apply'), new RegExp(`No login yet: ${all.join(', ')}\\..+alter role ${first} login;`, 's'));
  await db.script(all.map((role) => `alter role ${role} login;`).join('\n'));
  assert.doesNotMatch(await run('--apply'), /No login yet/);
  const compute = openDb(
    { connectionString: url.replace('//troupe@', `//${others[0]}@`) },
    { log: silentLog, name: 'compute' },
  );
  after(() => compute.close());
  assert.equal(await missingRight(compute, 'compute'), undefined);
  // Who owns nothing can give nothing.
  const { code, stderr } = await troupe(['database', 'roles', '--prefix', prefix, '--apply'], {
    env: { DATABASE_URL: url.replace('//troupe@', `//${first}@`) },
  });
  assert.equal(code, 1);
  assert.match(stderr, /permission denied.+nothing was changed\. Have a superuser/);
  assert.equal((await troupe(['database', 'roles', '--prefix', 'a"b'])).code, 1);
});
