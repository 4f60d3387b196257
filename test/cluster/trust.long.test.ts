/** Real processes of services, and somebody who listens to all of NATS and publishes there: they stay who they are, and their secrets theirs. */
import assert from 'node:assert/strict';
import { request as httpsRequest } from 'node:https';
import { test } from 'node:test';
import { connect, type Msg } from '@nats-io/transport-node';
import { z } from 'zod';
import { keyIds } from '../../proto/auth/shared-secret.ts';
import { startFront } from '../support/cluster/balancing-client.ts';
import { logIn, request, troupe } from '../support/cluster/platform.ts';
import { GROUND_PASSWORD, GROUND_SECRET, layGround, skipWithoutServices } from '../support/cluster/services.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutServices();

test('calls between processes: nobody else reads passwords and tokens, makes a call up, or sends one again', {
  skip,
  timeout: 900_000,
}, async (t) => {
  const ground = await layGround(t);
  const processes = await Promise.all([ground.start('auth'), ground.start('auth')]);
  await ground.settled('auth');
  const stranger = await connect({ servers: ground.nats.server });
  ground.after(() => stranger.close());
  const heard: Msg[] = [];
  stranger.subscribe('>', { callback: (_error, message) => void heard.push(message) });
  await stranger.flush();

  // Whichever process holds the user, one of the two has to ask the other.
  const { id, token } = await ground.person('ann');
  let password = GROUND_PASSWORD;
  const secrets = [password];
  for (const [n, { url }] of processes.entries()) {
    const change = { current_password: password, new_password: `another password, number ${n}` };
    assert.equal((await request('PUT', `${url}/api/settings/password`, { token, body: change })).status, 200);
    password = change.new_password;
    secrets.push(password);
    const body = { name: `token ${n}`, scopes: { [`compute.${id}`]: ['read'] }, expires_in: 'never' };
    const made = await request('POST', `${url}/api/tokens`, { token, body });
    assert.ok(made.status < 300, JSON.stringify(made.json));
    secrets.push(z.string().parse(made.json.token));
  }
  secrets.push(token);
  const asks = () => heard.filter(({ subject, data }) => /^node\..+\.ask$/.test(subject) && data[0] === 3);
  assert.ok(asks().length >= 2, 'calls crossed');
  for (const { data, subject } of heard)
    for (const secret of secrets)
      assert.ok(!Buffer.from(data).toString().includes(secret), `${subject} shows a secret`);

  const before = await ground.db.run('select from api_tokens where user_id = $1', [id]);
  const nodesHeard = () =>
    new Set(heard.map(({ subject }) => /^node\.([^.]+)\./.exec(subject)?.[1]).filter((node) => node !== undefined));
  // Who holds the user is not asked for anything but by itself, now and then.
  await until(() => nodesHeard().size >= 2, { what: 'both nodes are heard of' });
  const nodes = nodesHeard();
  const answers: string[] = [];
  stranger.subscribe('forger.*', { callback: (_error, { data }) => void answers.push(Buffer.from(data).toString()) });
  const caller = {
    kind: 'session',
    userId: id,
    username: 'ann',
    isAdmin: true,
    tokenId: 'made-up',
    expiresAt: 4_000_000_000,
  };
  const call = {
    ...{ type: 'call', endpoint: 'createToken', address: '127.0.0.1', requestId: 'forged', caller },
    body: { name: 'forged', scopes: { [`compute.${id}`]: ['read'] }, expires_in: 'never' },
  };
  for (const node of nodes)
    for (const v of [1, 2])
      stranger.publish(
        `node.${node}.ask`,
        JSON.stringify({ v, k: 'auth/user', i: id, f: 'forger', m: call, n: 1, a: 0, t: 5000 }),
        { reply: `forger.${v}` },
      );
  for (const { subject, data, reply = '' } of asks()) stranger.publish(subject, data, { reply });
  for (const { subject, data } of asks()) stranger.publish(subject, data, { reply: 'forger.again' });
  await stranger.flush();
  // What comes after it was handled, so it was.
  for (const { url } of processes) assert.equal((await request('GET', `${url}/api/session`, { token })).status, 200);
  await until(() => processes.some(({ log }) => log.includes('refused a message on the bus')), {
    what: 'operators are told',
  });
  assert.equal(await ground.db.run('select from api_tokens where user_id = $1', [id]), before);
  assert.deepEqual(answers, []);
});

test('behind a gateway of its own process clients are themselves: a stranger locks nobody out, and the audit trail knows who', {
  skip,
  timeout: 900_000,
}, async (t) => {
  const ground = await layGround(t);
  const [auth, gateway] = await Promise.all([ground.start('auth'), ground.start('gateway')]);
  const bob = await ground.person('bob');
  const host = `auth.${ground.domain}`;
  const added = await troupe(['routes', 'add', host, '/', new URL(auth.url).host], {
    env: { DATABASE_URL: ground.databaseUrl },
  });
  assert.equal(added.code, 0, added.stderr);
  const attempt = (localAddress: string, password: string) =>
    new Promise<number>((resolve, reject) => {
      const outgoing = httpsRequest(
        `${gateway.https.url}/api/login`,
        {
          ...{ method: 'POST', localAddress, rejectUnauthorized: false, servername: host, agent: false },
          headers: { host, 'content-type': 'application/json' },
        },
        (response) => {
          response.resume();
          response.once('end', () => resolve(response.statusCode ?? 0));
        },
      );
      outgoing.once('error', reject);
      outgoing.end(JSON.stringify({ username: 'bob', password }));
    });
  // Until the gateway hears of the route, it refuses the name.
  const isIn = async () => (await attempt('127.0.0.1', GROUND_PASSWORD).catch(() => 0)) === 200;
  await until(isIn, { what: 'bob logs in', everyMs: 250 });
  const statuses = [];
  for (let n = 0; n < 6; n++) statuses.push(await attempt('127.0.0.66', `wrong ${n}`));
  assert.deepEqual(statuses, [401, 401, 401, 401, 401, 429]);
  assert.equal(await attempt('127.0.0.1', GROUND_PASSWORD), 200);

  const row = z.object({ action: z.string(), address: z.string() });
  const trail = await ground.db.many(
    row,
    `select distinct action, host(address::inet) as address from audit_log where action like 'login%' and target = $1`,
    [bob.id],
  );
  const of = (action: string) => trail.filter((one) => one.action === action).map(({ address }) => address);
  assert.deepEqual([of('login'), of('login.refused')], [['127.0.0.1'], ['127.0.0.66']]);
});

test('JWT_SECRET is rotated, process by process, while people use the platform: no request fails', {
  skip,
  timeout: 900_000,
}, async (t) => {
  const NEW = 'the secret that comes after it, over 32 bytes';
  const ground = await layGround(t);
  const processes = await Promise.all([ground.start('auth'), ground.start('auth')]);
  await ground.settled('auth');
  await ground.person('ann');
  const front = startFront(ground, processes);
  const tokens = [await logIn(processes[0].url, 'ann', GROUND_PASSWORD)];
  const failures: string[] = [];
  let asked = 0;
  let isOver = false;
  const using = (async () => {
    while (!isOver) {
      for (const token of tokens) {
        const { status, json } = await front.request('GET', '/api/session', { token });
        asked += 1;
        if (status !== 200) failures.push(`${status} ${JSON.stringify(json)}`);
      }
    }
  })();
  const restart = async (more: Record<string, string>) => {
    for (const process of processes) {
      process.configure(more);
      await process.stop();
      await process.start();
      tokens.push(await logIn(process.url, 'ann', GROUND_PASSWORD));
    }
  };
  await restart({ JWT_SECRET_NEXT: NEW });
  await restart({ JWT_SECRET: NEW, JWT_SECRET_NEXT: '', JWT_SECRET_PREVIOUS: GROUND_SECRET });
  isOver = true;
  await using;
  assert.deepEqual(failures, []);
  assert.ok(asked > 20);
  const kidOf = (token = '') =>
    z.object({ kid: z.string() }).parse(JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString())).kid;
  assert.deepEqual([kidOf(tokens[0]), kidOf(tokens.at(-1))], [keyIds(GROUND_SECRET)[0], keyIds(NEW)[0]]);

  // One that could not read what the others say does not join.
  const odd = await ground.start('auth').catch((error: unknown) => String(error));
  assert.match(String(odd), /another JWT_SECRET/);

  // Once the former is removed, what it signed is void.
  await Promise.all(processes.map((process) => process.stop()));
  for (const process of processes) process.configure({ JWT_SECRET_PREVIOUS: '' });
  await Promise.all(processes.map((process) => process.start()));
  const [first] = processes;
  const ask = async (token?: string) =>
    (await request('GET', `${first.url}/api/session`, { token: token ?? '' })).status;
  assert.deepEqual([await ask(tokens[0]), await ask(tokens.at(-1))], [401, 200]);
});
