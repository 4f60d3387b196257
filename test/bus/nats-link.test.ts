/** How the bus finds its NATS servers and is let in. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type NatsAddress, natsBus } from '../../transports/bus/nats.ts';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';
import { BUS_SECRET, skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { silentLog } from '../support/log.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutNats();

function open(t: TestContext, address: NatsAddress) {
  const bus = natsBus({
    secret: BUS_SECRET,
    address,
    name: 'link test',
    patienceMs: 300,
    deadLetters: { add: async () => {} },
    log: silentLog,
  });
  t.after(() => bus.close());
  return bus;
}

/** Whether a message of one bus reaches another. */
async function carries(t: TestContext, address: NatsAddress): Promise<void> {
  const [one, two] = [open(t, address), open(t, address)];
  assert.ok(await one.connected(10_000), one.problem);
  assert.ok(await two.connected(10_000), two.problem);
  let heard = 0;
  one.subscribe('carry.x', () => {
    heard += 1;
  });
  await until(() => {
    two.publish('carry.x', Buffer.from('x'));
    return heard > 0;
  });
}

test('a user with a password, and a token, are let in; others are turned away at once, and let in when they are put right', {
  skip,
}, async (t) => {
  const accounts = 'authorization { users: [{ user: "troupe", password: "s3cr3t!" }] }';
  const server = await startNats(t, { configuration: accounts });
  await carries(t, { servers: [server.server], user: 'troupe', password: 's3cr3t!' });
  const wrong = open(t, { servers: [server.server], user: 'troupe', password: 'wrong-password' });
  assert.equal(await wrong.connected(30_000), false);
  assert.ok(wrong.isRefused);
  assert.match(wrong.problem ?? '', /Authorization Violation/i);
  assert.ok(!(wrong.problem ?? '').includes('wrong-password'));
  await assert.rejects(wrong.append('x', Buffer.from('')), /has not been reached/);

  const token = await startNats(t, { configuration: 'authorization { token: "t0ken" }' });
  await carries(t, { servers: [token.server], token: 't0ken' });
});

test('a credentials file is used', { skip }, async (t) => {
  const { createAccount, createOperator, createUser, fromSeed } = await import('@nats-io/transport-node').then(
    ({ nkeys }) => nkeys,
  );
  const [operator, account, user] = [createOperator(), createAccount(), createUser()];
  // JWTs as NATS has them (ADR-14): ed25519-nkey, the claims' hash as their id.
  const { createHash } = await import('node:crypto');
  const base64 = (data: string | Uint8Array) => Buffer.from(data).toString('base64url');
  const jwt = (signer: typeof operator, subject: typeof user, name: string, nats: object) => {
    const claims = {
      iat: Math.floor(Date.now() / 1000),
      iss: signer.getPublicKey(),
      name,
      sub: subject.getPublicKey(),
      nats,
    };
    const jti = createHash('sha256').update(JSON.stringify(claims)).digest('hex').slice(0, 52).toUpperCase();
    const body = `${base64(JSON.stringify({ typ: 'JWT', alg: 'ed25519-nkey' }))}.${base64(JSON.stringify({ jti, ...claims }))}`;
    return `${body}.${base64(signer.sign(Buffer.from(body)))}`;
  };
  const limits = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
  const accountJwt = jwt(operator, account, 'A', { limits, default_permissions: {}, type: 'account', version: 2 });
  const operatorJwt = jwt(operator, operator, 'O', { type: 'operator', version: 2 });
  const userJwt = jwt(account, user, 'U', {
    type: 'user',
    version: 2,
    subs: -1,
    data: -1,
    payload: -1,
    pub: {},
    sub: {},
  });
  const configuration = `operator: ${operatorJwt}\nresolver: MEMORY\nresolver_preload: { ${account.getPublicKey()}: ${accountJwt} }`;
  const server = await startNats(t, { configuration, jetStream: false });
  const seed = Buffer.from(user.getSeed()).toString();
  assert.equal(fromSeed(Buffer.from(seed)).getPublicKey(), user.getPublicKey());
  const credentials = `-----BEGIN NATS USER JWT-----\n${userJwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`;
  await carries(t, { servers: [server.server], credentials });
  const without = open(t, { servers: [server.server] });
  assert.equal(await without.connected(30_000), false);
  assert.ok(without.isRefused);
});

test('TLS: a server of the given authority is trusted, others and plain ones are not', { skip }, async (t) => {
  const folder = await tempDir(t);
  const authority = await makeAuthority('test', Date.now());
  const { cert, key } = await issueCertificate(authority, ['localhost'], Date.now());
  await writeFile(join(folder, 'cert.pem'), cert);
  await writeFile(join(folder, 'key.pem'), key);
  const configuration = `tls { cert_file: "${folder}/cert.pem", key_file: "${folder}/key.pem" }`;
  const server = await startNats(t, { configuration });
  const servers = [`localhost:${server.port}`];
  await carries(t, { servers, tls: { ca: authority.cert } });
  for (const tls of [{}, { ca: (await makeAuthority('other', Date.now())).cert }]) {
    const other = open(t, { servers, tls });
    assert.equal(await other.connected(1000), false);
    assert.match(other.problem ?? '', /certificate|self.signed|issuer/i);
  }
  const plain = await startNats(t);
  const strict = open(t, { servers: [plain.server], tls: {} });
  assert.equal(await strict.connected(1000), false);
  assert.match(strict.problem ?? '', /tls/i);
});

test('of several servers one that runs is taken, and another when it dies', { skip }, async (t) => {
  const [first, second] = await Promise.all([startNats(t, { stopped: true }), startNats(t)]);
  // More often than chance could choose the one that runs first.
  const buses = Array.from({ length: 6 }, () => open(t, { servers: [first.server, second.server] }));
  for (const one of buses) assert.ok(await one.connected(10_000));
  await first.start();
  const heard: string[] = [];
  const [listener] = buses;
  listener?.subscribe('x', ({ data }) => heard.push(Buffer.from(data).toString()));
  await second.kill();
  await until(
    () => {
      for (const [index, one] of buses.entries()) one.publish('x', Buffer.from(String(index)));
      return new Set(heard).size === buses.length;
    },
    { timeoutMs: 60_000, what: 'all are on the other server' },
  );
});

test('a server that is started later is found; what subscribed before hears then', { skip }, async (t) => {
  const server = await startNats(t, { stopped: true });
  const bus = open(t, { servers: [server.server] });
  let heard = 0;
  bus.subscribe('later.x', () => {
    heard += 1;
  });
  await assert.rejects(bus.request('later.x', Buffer.from(''), 50), /has not been reached for \d+ s/);
  assert.equal(await bus.connected(500), false);
  assert.match(bus.problem ?? '', /connection refused/);
  await server.start();
  assert.ok(await bus.connected(15_000));
  await until(() => {
    bus.publish('later.x', Buffer.from(''));
    return heard > 0;
  });
});

test('closing while it connects ends at once', { skip }, async (t) => {
  const server = await startNats(t, { stopped: true });
  const bus = open(t, { servers: [server.server] });
  const waiting = bus.connected(30_000);
  await bus.close();
  assert.equal(await waiting, false);
  assert.throws(() => bus.publish('x', Buffer.from('')), /closed/);
});
