/** Who may enter by SSH according to the database, and that open logins end when that changes. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { GatewayControl } from '../../actors/gateway/service.ts';
import type { ComputeNews } from '../../proto/compute/events.ts';
import type { SshAuthorizer, SshConnectionInfo } from '../../proto/gateway/ssh.ts';
import { computeNews, tellCompute } from '../../storage/compute/news.ts';
import type { Db } from '../../storage/db.ts';
import { disable, enable } from '../../storage/offboarding.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { testDatabase } from '../support/database/database.ts';
import { addContainer } from '../support/gateway/containers.ts';
import { withoutGuards } from '../support/gateway/guards.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const OWN = 'aaaaaaaaaaa1';

interface Setup {
  readonly db: Db;
  readonly authorizer: SshAuthorizer;
  ask(containerId: string, fingerprint: string, port?: number): Promise<string>;
  /** A login as the transport would adopt it, and why it was ended. */
  adopt(question: Partial<SshConnectionInfo>): {
    readonly reason: () => string | undefined;
    readonly release: (() => void) | undefined;
  };
  tell(news: Exclude<ComputeNews, { kind: 'all' }>): Promise<void>;
}

async function setup(t: TestContext): Promise<Setup> {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  for (const [id, user] of [
    [OWN, 'u1'],
    ['bbbbbbbbbbb2', 'u2'],
  ] as const) {
    await addContainer(db, id, { userId: user, isSshEnabled: true });
  }
  for (const [user, slot, fingerprint] of [
    ['u1', 1, 'F-chosen'],
    ['u1', 2, 'F-other'],
    ['u2', 1, 'F-foreign'],
  ]) {
    const key = await db.one(
      z.object({ id: z.number() }),
      'insert into ssh_keys (user_id, slot, name, public_key, fingerprint) values ($1, $2, $3, $3, $3) returning id',
      [user, slot, fingerprint],
    );
    if (fingerprint === 'F-chosen') await db.run('insert into container_keys values ($1, $2)', [OWN, key?.id]);
  }
  await db.run('insert into ingress_rules (container_id, port, target_port) values ($1, 8022, 80)', [OWN]);
  const system = start({ name: 'ssh', log: silentLog });
  t.after(async () => {
    stop(system);
    await stopped(system);
  });
  const control = new GatewayControl({
    ...{
      db,
      log: silentLog,
      domain: 'x.test',
      containersDomain: 'compute.x.test',
      fileRoutes: [],
      fallback: undefined,
      gatewayToken: () => '',
      ...withoutGuards,
    },
    engine: { list: async () => [], inspect: async () => undefined },
    computeNews: computeNews(db),
    metrics: async () => '',
  });
  assert.equal(
    (await control.ssh.ask({ containerId: OWN, fingerprint: 'F-chosen', port: undefined })).kind,
    'unavailable',
  );
  await control.start(system, { ports: { http: 1, https: 2, ssh: 2222 }, listenOn: async () => {} });
  const { ssh: authorizer } = control;
  return {
    db,
    authorizer,
    ask: async (containerId, fingerprint, port) => {
      const answer = await authorizer.ask({ containerId, fingerprint, port });
      return answer.kind === 'explain' ? `${answer.isFinal ? 'final' : 'another'}: ${answer.text}` : answer.kind;
    },
    adopt: (question) => {
      let reason: string | undefined;
      const info: SshConnectionInfo = {
        ...{ containerId: OWN, fingerprint: 'F-chosen', port: undefined, userId: 'u1', address: '192.0.2.1' },
        ...question,
        end: (text) => {
          reason ??= text;
        },
      };
      const release = authorizer.adopt(info);
      t.after(() => release?.());
      return { reason: () => reason, release };
    },
    tell: (news) => db.tx((tx) => tellCompute(tx, news)),
  };
}

test('a chosen key enters; whoever owns the container is told why another does not; all others are strangers', async (t) => {
  const { db, ask } = await setup(t);
  assert.equal(await ask(OWN, 'F-chosen'), 'enter');
  assert.match(await ask(OWN, 'F-other'), /^another: This key is yours, but it was not chosen/);
  assert.equal(await ask(OWN, 'F-foreign'), 'stranger');
  assert.equal(await ask('zzzzzzzzzzz9', 'F-chosen'), 'stranger');
  assert.equal(await ask(OWN, 'F-chosen', 8022), 'enter');
  assert.equal(await ask(OWN, 'F-chosen', 8023), 'stranger');
  for (const [status, expected] of [
    ['stopped', /start it first/],
    ['pending', /wait until it runs/],
    ['failed', /is failed/],
  ] as const) {
    await db.run('update containers set status = $2 where id = $1', [OWN, status]);
    assert.match(await ask(OWN, 'F-chosen'), expected);
  }
  await db.run("update containers set status = 'running', ssh_enabled = false where id = $1", [OWN]);
  assert.match(await ask(OWN, 'F-chosen'), /^final: SSH is off/);
  await db.run("update containers set desired = 'deleted', ssh_enabled = true where id = $1", [OWN]);
  assert.equal(await ask(OWN, 'F-chosen'), 'stranger');
});

test('a key without the name of a container leads to the one it opens, and of several names the commands', async (t) => {
  const { db, authorizer } = await setup(t);
  const find = (fingerprint: string, port?: number) => authorizer.find({ fingerprint, port });
  assert.deepEqual(await find('F-chosen'), { kind: 'one', containerId: OWN });
  assert.deepEqual(await find('F-chosen', 8022), { kind: 'one', containerId: OWN });
  assert.deepEqual(await find('F-chosen', 8023), { kind: 'none' });
  for (const fingerprint of ['F-other', 'F-foreign', 'F-none']) assert.equal((await find(fingerprint)).kind, 'none');
  const second = 'ccccccccccc3';
  await addContainer(db, second, { userId: 'u1', slot: 2, isSshEnabled: true });
  await db.run("insert into container_keys select $1, id from ssh_keys where fingerprint = 'F-chosen'", [second]);
  const several = await find('F-chosen');
  assert.ok(several.kind === 'several');
  assert.match(
    several.text,
    new RegExp(`ssh -p 2222 ${OWN}@compute\\.x\\.test\\n.*ssh -p 2222 ${second}@compute\\.x\\.test$`),
  );
  for (const change of ["status = 'stopped'", 'ssh_enabled = false']) {
    await db.run(`update containers set ssh_enabled = true, status = 'running' where id = $1`, [second]);
    await db.run(`update containers set ${change} where id = $1`, [second]);
    assert.deepEqual(await find('F-chosen'), { kind: 'one', containerId: OWN }, change);
  }
});

test('news end the logins that lost their right, and no others', async (t) => {
  const { db, adopt, tell } = await setup(t);
  const kept = adopt({ containerId: OWN });
  const byPort = adopt({ port: 8022 });
  await db.run('delete from ingress_rules');
  await tell({ kind: 'ingress', containerId: OWN });
  await until(byPort.reason, { what: 'the port is closed' });
  assert.equal(kept.reason(), undefined);
  await db.run('update containers set ssh_enabled = false where id = $1', [OWN]);
  await tell({ kind: 'ssh', containerId: OWN });
  assert.match(await until(kept.reason, { what: 'SSH is off' }), /SSH is off/);
  await db.run("update containers set ssh_enabled = true, status = 'stopped' where id = $1", [OWN]);
  const late = adopt({});
  assert.match(await until(late.reason, { what: 'it was stopped before it was adopted' }), /is stopped/);
  await db.run("update containers set status = 'running' where id = $1", [OWN]);
  const byKey = adopt({});
  await db.run("delete from ssh_keys where fingerprint = 'F-chosen'");
  await tell({ kind: 'key', userId: 'u1', fingerprint: 'F-chosen' });
  assert.match(await until(byKey.reason, { what: 'the key is gone' }), /may not enter/);
});

test('what nobody told is noticed all the same', async (t) => {
  const { db, adopt } = await setup(t);
  const login = adopt({});
  await db.run("update containers set status = 'failed' where id = $1", [OWN]);
  assert.match(await until(login.reason, { what: 'the look at all', timeoutMs: 60_000 }), /is failed/);
});

test('a user has a hundred logins, and each that ends makes room', async (t) => {
  const { adopt } = await setup(t);
  const logins = Array.from({ length: 101 }, () => adopt({}));
  assert.equal(logins.at(-1)?.release, undefined);
  logins[0]?.release?.();
  assert.ok(adopt({}).release);
  assert.ok(adopt({ userId: 'u2' }).release);
});

test('without a database nobody enters, and those inside stay', async (t) => {
  const { db, ask, adopt } = await setup(t);
  const login = adopt({});
  await ask(OWN, 'F-chosen');
  await db.run('alter view ssh_entries rename to away');
  assert.equal(await ask(OWN, 'F-chosen'), 'unavailable');
  assert.equal(login.reason(), undefined);
  await db.run('alter view away rename to ssh_entries');
  assert.equal(await ask(OWN, 'F-chosen'), 'enter');
});

test('a user who is disabled enters no more, and who is inside is put out at once', async (t) => {
  const { db, ask, adopt } = await setup(t);
  await db.run(
    "insert into users (id, username, display_name, password_hash) values ('uuuuuuuuuuu1', 'ann', 'ann', '')",
  );
  await db.run("update containers set user_id = 'uuuuuuuuuuu1' where user_id = 'u1'");
  await db.run("update ssh_keys set user_id = 'uuuuuuuuuuu1' where user_id = 'u1'");
  assert.equal(await ask(OWN, 'F-chosen'), 'enter');
  const inside = adopt({ userId: 'uuuuuuuuuuu1' });
  await db.tx((tx) => disable(tx, 'uuuuuuuuuuu1', null));
  assert.match(await until(inside.reason, { what: 'the user is disabled' }), /may not enter/);
  assert.equal(await ask(OWN, 'F-chosen'), 'stranger');
  await db.tx((tx) => enable(tx, 'uuuuuuuuuuu1'));
  assert.equal(await ask(OWN, 'F-chosen'), 'enter');
});
