/** Changing ENCRYPTION_KEY: all secrets or none, also when it is broken off halfway. */

import assert from 'node:assert/strict';
import type { KeyObject } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openToken, sealToken } from '../../actors/network/tokens.ts';
import { changeKey, SEALED_PLACES } from '../../cmd/cli/rekey.ts';
import { readEnvironment } from '../../cmd/config/config.ts';
import { platformKeys, sshHostKeys } from '../../cmd/config/platform-keys.ts';
import { newId } from '../../proto/ids.ts';
import { NO_SETTINGS, putSettings, settingsOf } from '../../storage/compute/settings.ts';
import { type Db, openDb } from '../../storage/db.ts';
import { acmeAccount, addAcmeAccount, pendingChallenges, putChallenge } from '../../storage/network/acme.ts';
import { noteOrder, startOrder } from '../../storage/network/certificate-orders.ts';
import { servedCertificate, storeCertificate } from '../../storage/network/certificates.ts';
import { insertOwned, ownedDomains } from '../../storage/network/zones.ts';
import { insertWebhook, replaceSecret, secretContext, webhooksOf } from '../../storage/notify/webhooks.ts';
import { open, parseSealKey, seal } from '../../storage/seal.ts';
import { troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { addContainer } from '../support/gateway/containers.ts';
import { silentLog } from '../support/log.ts';
import { CONTAINER, mapHostname } from '../support/network/mapped-hosts.ts';
import { projectRoot } from '../support/project.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';

const OLD = '44'.repeat(32);
const NEW = '55'.repeat(32);
const [oldKey, newKey] = [parseSealKey(OLD), parseSealKey(NEW)];
const DIRECTORY = 'https://ca.test/dir';
const pem = { cert: 'a chain', key: 'a key', notBefore: new Date(0), notAfter: new Date(8.64e14) };

/** A platform's database with a secret in every place. */
async function setting(t: Cleanup) {
  const database = await testDatabase();
  t.after(() => database.close());
  // Named as the command itself, which would take it for a part of the platform.
  const db = openDb(database.connection, { log: silentLog, name: 'cli', max: 2 });
  t.after(() => db.close());
  await platformKeys(db, oldKey);
  await sshHostKeys(db, oldKey);
  await addContainer(db, CONTAINER);
  const secrets = { KEY: 'the secret of a container' };
  await db.tx((tx) => putSettings(tx, CONTAINER, { ...NO_SETTINGS, secrets }, oldKey));
  const owned = { id: newId(), userId: 'uuuuuuuuuuu1', zones: [] };
  const token = sealToken(oldKey, owned.id, 'the provider token');
  await db.tx((tx) => insertOwned(tx, { ...owned, token }, new Date(), 10));
  await addAcmeAccount(db, DIRECTORY, oldKey, 'the account key');
  const hook = newId();
  const sealed = (secret: string) => seal(oldKey, secretContext(hook), Buffer.from(secret));
  await db.tx(async (tx) => {
    const webhook = { id: hook, userId: owned.userId, url: 'https://hooks.example.com/', categories: [] };
    await insertWebhook(tx, { ...webhook, secret: sealed('the former secret') }, 5);
    await replaceSecret(tx, owned.userId, hook, sealed('the secret'), new Date(8.64e14));
  });
  for (const hostname of ['a.example.com', 'b.example.com']) {
    await mapHostname(db, hostname);
    const order = await startOrder(db, hostname, { directoryUrl: DIRECTORY, leaseMs: 60_000, sealKey: oldKey });
    assert.ok(typeof order === 'object');
    await noteOrder(db, order, oldKey, { url: 'https://ca.test/order', key: 'the key of an order' });
    if (hostname === 'a.example.com')
      await storeCertificate(db, order, pem, { sealKey: oldKey, renewAt: () => new Date(8.64e14) });
    else await putChallenge(db, hostname, { cert: 'a challenge', key: 'its key' }, oldKey);
  }
  await db.run('update certificates set lease_until = null');
  return { db, env: { DATABASE_URL: database.url }, data: await tempDir(t) };
}

/** All secrets, as a platform with `key` reads them. Rejects when one of the platform's own does not open. */
async function secrets(db: Db, key: KeyObject) {
  const { keys } = await platformKeys(db, key);
  const [domain] = await ownedDomains(db, 'uuuuuuuuuuu1');
  assert.ok(domain !== undefined);
  const [hook] = await webhooksOf(db, 'uuuuuuuuuuu1');
  assert.ok(hook !== undefined);
  const order = await startOrder(db, 'b.example.com', { directoryUrl: DIRECTORY, leaseMs: 1, sealKey: key });
  assert.ok(typeof order === 'object');
  return {
    platform: keys.privateKey.length > 0,
    hostKeys: (await sshHostKeys(db, key)).length,
    token: openToken(key, domain.id, domain.token),
    account: (await acmeAccount(db, DIRECTORY, key))?.key,
    certificate: (await servedCertificate(db, 'a.example.com', key))?.key,
    challenge: (await pendingChallenges(db, ['b.example.com'], key)).get('b.example.com')?.key,
    order: order.key,
    settings: (await settingsOf(db, CONTAINER, key))?.secrets.KEY,
    webhook: open(key, secretContext(hook.id), hook.secret).toString(),
  };
}

const WHOLE = {
  ...{ platform: true, hostKeys: 2, token: 'the provider token', account: 'the account key', certificate: 'a key' },
  ...{ challenge: 'its key', order: 'the key of an order', webhook: 'the secret' },
  settings: 'the secret of a container',
};

test('every column that holds something sealed is known to it', async () => {
  const schema = await readFile(join(projectRoot, 'storage/schema.sql'), 'utf8');
  const found = [...schema.matchAll(/create table (\w+) \(([\s\S]*?)\n\);/gi)].flatMap(([, table = '', body = '']) =>
    [...body.matchAll(/^ {2}(\w+) bytea/gm)].map(([, column]) => `${table.replace(/^public\./, '')}.${column}`),
  );
  // Bytes that are no secrets, or that are sealed under JWT_SECRET and gone after a day.
  const plain = [
    'bus_dead_letters.data',
    'bus_kv.value',
    'bus_messages.data',
    'idempotency_keys.answer',
    'idempotency_keys.fingerprint',
    'idempotency_keys.key_hash',
    'idempotency_keys.sealed_key',
    'outbox.data',
    'security_keys.public_key',
  ];
  const sealed = SEALED_PLACES.map(({ table, column }) => `${table}.${column}`);
  assert.deepEqual(found.filter((column) => !plain.includes(column)).sort(), sealed.sort());
});

test('all secrets open with the new key, and none with the old', async (t) => {
  const { db, env, data } = await setting(t);
  assert.deepEqual(await secrets(db, oldKey), WHOLE);
  const run = (key: string, next: string) =>
    changeKey(readEnvironment({ ...env, ENCRYPTION_KEY: key, NEW_ENCRYPTION_KEY: next }), data);
  const done = await troupe(['rekey', '--data', data], {
    env: { ...env, ENCRYPTION_KEY: OLD, NEW_ENCRYPTION_KEY: NEW },
  });
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stdout, /^11 secrets are sealed under the new key\.\nStart everything with the new key/);
  assert.deepEqual(await secrets(db, newKey), WHOLE);
  await assert.rejects(secrets(db, oldKey), /ENCRYPTION_KEY is not the key this database was set up with/);
  // A second run changes nothing; a wrong key neither.
  assert.deepEqual(await run(OLD, NEW), { sealed: 0, left: 0, keyFile: undefined });
  await assert.rejects(run(OLD, '66'.repeat(32)), /not the key this database was set up with/);
  assert.deepEqual(await secrets(db, newKey), WHOLE);
  // One that was damaged before is left; nothing else waits for it.
  await db.run('update owned_domains set token = set_byte(token, 40, get_byte(token, 40) # 1)');
  assert.deepEqual(await run(NEW, OLD), { sealed: 10, left: 1, keyFile: undefined });
  assert.deepEqual(await secrets(db, oldKey), { ...WHOLE, token: undefined });
});

test('a key in the data folder is replaced there, and a run that was killed halfway is finished by the next', async (t) => {
  const { db, env, data } = await setting(t);
  const file = join(data, 'encryption-key');
  const key = () => readFile(file, 'utf8');
  const run = () => changeKey(readEnvironment(env), data);
  await writeFile(file, OLD, { mode: 0o600 });
  assert.deepEqual(await run(), { sealed: 11, left: 0, keyFile: file });
  const first = await key();
  assert.deepEqual(await secrets(db, parseSealKey(first)), WHOLE);
  // As a kill after the commit leaves it: the database has the new key, the file the old one.
  await run();
  const second = await key();
  await writeFile(`${file}.next`, second);
  await writeFile(file, first);
  await assert.rejects(secrets(db, parseSealKey(first)), /run `troupe rekey` again if it was interrupted/);
  assert.deepEqual(await run(), { sealed: 0, left: 0, keyFile: file });
  assert.equal(await key(), second);
  assert.deepEqual(await secrets(db, parseSealKey(second)), WHOLE);
  // As a kill before the commit leaves it: the next run goes on with the key that lies there.
  await writeFile(`${file}.next`, NEW);
  assert.equal((await run()).sealed, 11);
  assert.equal(await key(), NEW);
  assert.deepEqual(await secrets(db, newKey), WHOLE);
});

test('it refuses while a part of the platform is connected, and without a new key', async (t) => {
  const { db, env, data } = await setting(t);
  const gateway = openDb({ connectionString: env.DATABASE_URL }, { log: silentLog, name: 'gateway', max: 1 });
  t.after(() => gateway.close());
  await gateway.ping();
  const keys = { ...env, ENCRYPTION_KEY: OLD };
  await assert.rejects(
    changeKey(readEnvironment({ ...keys, NEW_ENCRYPTION_KEY: NEW }), data),
    /Parts of the platform run on this database \(troupe\/gateway\): stop them first\./,
  );
  assert.deepEqual(await secrets(db, oldKey), WHOLE);
  await assert.rejects(changeKey(readEnvironment(keys), data), /give the one that replaces it as NEW_ENCRYPTION_KEY/);
});
