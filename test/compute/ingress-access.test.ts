/** Ingress rules that do not let everybody through: what is taken, kept and shown of them, and entries of the owner. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verify } from '@node-rs/argon2';
import { z } from 'zod';
import { addIngress, deleteIngress, enterIngress, listIngress } from '../../proto/compute/settings.ts';
import { AccessProofs, ENTRY_PATH, type PortGuard } from '../../proto/gateway/port-guard.ts';
import { readAudit } from '../../storage/audit.ts';
import { OWNED } from '../../storage/ownership.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import { SECRET } from '../support/service/node.ts';

failOnLeaks();

const PASSWORD = 'canary of the password';
const ann = someone();
const bob = someone('bob');
const hashRow = z.object({ access: z.string(), access_hash: z.string().nullable() });
const textRow = z.object({ text: z.string() });

const add = (compute: ComputeUnderTest, id: string, body: object, who = ann) =>
  compute.call(addIngress, who, { params: { id }, body: { port: 443, target_port: 8080, tls: 'platform', ...body } });

const enter = (compute: ComputeUnderTest, id: string, body: object, who = ann, port = '443') =>
  compute.call(enterIngress, who, { params: { id, port }, body });

test('an access that does not fit is refused with what to do, and changes nothing', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann);
  for (const [body, path, message] of [
    [{ access: 'mine', tls: 'container' }, 'access', /needs "tls": "platform"/],
    [{ access: 'password', password: PASSWORD, tls: 'container' }, 'access', /needs "tls": "platform"/],
    [{ access: 'password' }, 'password', /access "password" needs one of 8 to 128 characters/],
    [{ access: 'password', password: '1234567' }, 'password', /8 characters at least/],
    [{ access: 'password', password: 'x'.repeat(129) }, 'password', /128 characters at most/],
    [{ access: 'password', password: 'with a\nline break' }, 'password', /no control characters/],
    [{ access: 'mine', password: PASSWORD }, 'password', /only for "access": "password"/],
    [{ password: PASSWORD }, 'password', /only for "access": "password"/],
    [{ access: 'all' }, 'access', /./],
  ] as const) {
    const work = async () => add(compute, id, body);
    const { fields } = await refused('invalid_request', work());
    const found = fields?.find((field) => field.path === path);
    assert.match(found?.message ?? JSON.stringify(fields), message, JSON.stringify(body));
  }
  assert.deepEqual((await compute.on(listIngress, ann, id)).rules, []);
});

test('views say who gets through where that is not everybody; a public rule is as before', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann);
  const plain = await add(compute, id, { port: 8001, access: 'public' });
  assert.deepEqual(Object.keys(plain).sort(), ['created_at', 'id', 'port', 'target_port', 'tls']);
  const guarded = await add(compute, id, { access: 'password', password: PASSWORD });
  assert.deepEqual(Object.keys(guarded).sort(), ['access', 'created_at', 'id', 'port', 'target_port', 'tls']);
  await add(compute, id, { port: 8002, access: 'mine' });
  const shown = [
    { port: 443, target_port: 8080, tls: 'platform', access: 'password' },
    { port: 8001, target_port: 8080, tls: 'platform' },
    { port: 8002, target_port: 8080, tls: 'platform', access: 'mine' },
  ];
  assert.deepEqual((await compute.view(ann, id)).ports, shown);
  const { rules } = await compute.on(listIngress, ann, id);
  assert.deepEqual(
    rules.map(({ id: _, created_at: __, ...rule }) => rule),
    shown,
  );
  // It is the row's, not this actor's memory.
  await compute.stop();
  await compute.start();
  assert.deepEqual((await compute.view(ann, id)).ports, shown);
});

test('of the password there is a slow hash in its row, and nothing anywhere else', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann);
  await add(compute, id, { access: 'password', password: PASSWORD });
  const row = await compute.db.one(hashRow, 'select access, access_hash from ingress_rules');
  assert.match(row?.access_hash ?? '', /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  assert.ok(await verify(row?.access_hash ?? '', PASSWORD));
  const [entry] = await readAudit(compute.db, { limit: 1 });
  assert.deepEqual(entry?.detail, { port: 443, target_port: 8080, tls: 'platform', access: 'password' });
  const hex = Buffer.from(PASSWORD).toString('hex');
  for (const table of Object.values(OWNED).flat()) {
    const rows = await compute.db.many(textRow, `select ${table}::text as text from ${table}`);
    for (const { text } of rows) {
      assert.ok(!text.includes(PASSWORD) && !text.includes(hex), table);
      if (table !== 'ingress_rules') assert.ok(!text.includes('$argon2id'), table);
    }
  }
  assert.ok(!JSON.stringify(compute.log.lines).includes(PASSWORD));
  // Nor is it in what a gateway of the version before reads, which would let everybody through.
  assert.equal(await compute.db.run('select from open_ports'), 0);
  assert.equal(await compute.db.run('select from guarded_ports'), 1);
});

test('the database takes no rule that is guarded in name only', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann);
  const insert = (tls: string, access: string, hash: string | null) =>
    compute.db.run(
      `insert into ingress_rules (container_id, port, target_port, tls, access, access_hash)
       values ($1, 443, 80, $2, $3, $4)`,
      [id, tls, access, hash],
    );
  for (const [tls, access, hash] of [
    ['container', 'mine', null],
    ['container', 'password', 'x'],
    ['platform', 'password', null],
    ['platform', 'mine', 'x'],
    ['platform', 'public', 'x'],
  ] as const)
    await assert.rejects(insert(tls, access, hash), `${tls} ${access} ${hash}`);
});

test('an entry is for the owner, at the container’s hostname and those of the owner that lead there', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann);
  const { hostname: own } = await compute.view(ann, id);
  const rule = await add(compute, id, { access: 'mine' });
  const map = (name: string, domain: string, container: string, port: number, isVerified = true) =>
    compute.db.run(
      `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token,
         pending_since, verified_at, next_check_at)
       values ($1, $2, $3, $4, $5, case when $6 then 'verified' else 'pending' end, 'x', now(),
         case when $6 then now() end, now())`,
      [name.padEnd(12, '0'), ann.userId, domain, container, port, isVerified],
    );
  await map('a', 'www.example.org', id, 443);
  await map('b', 'pending.example.org', id, 443, false);
  await map('c', 'elsewhere.example.org', 'zzzzzzzzzzzz', 443);
  await map('d', 'plain.example.org', id, 80);
  await map('e', 'inside.example.org', id, 8080);
  const proofs = new AccessProofs(SECRET);
  const guard: PortGuard = { containerId: id, port: 443, rule: rule.id, hash: null };
  const read = (url: string, host: string) => {
    const { origin, pathname, searchParams } = new URL(url);
    assert.deepEqual([origin, pathname], [`https://${host}`, ENTRY_PATH]);
    return proofs.readEntry(searchParams.get('token') ?? '', guard, host, Date.now())?.path;
  };
  const { url, expires_at } = await enter(compute, id, {});
  assert.equal(read(url, own), '/');
  assert.ok(Date.parse(expires_at) - Date.now() <= 61_000);
  for (const host of [own, 'www.example.org', 'WWW.example.org', 'inside.example.org'])
    assert.equal(read((await enter(compute, id, { host, path: '/a?b' })).url, host.toLowerCase()), '/a?b', host);
  for (const host of [
    'pending.example.org',
    'elsewhere.example.org',
    'plain.example.org',
    'evil.test',
    `${own}:1`,
    '',
  ]) {
    const { message } = await refused('invalid_request', enter(compute, id, { host }));
    assert.match(message, /must be the hostname of the container, or a verified one of yours/, host);
  }
  for (const path of ['//evil.test', '/\\evil.test', 'https://evil.test', 'a', '/a\nb', `/${'a'.repeat(2000)}`]) {
    const work = async () => enter(compute, id, { path });
    await refused('invalid_request', work());
  }
  // The port inside is one of another rule from here on, which asks at that hostname, or not.
  await add(compute, id, { port: 8080, target_port: 9000, access: 'public' });
  await refused('invalid_request', enter(compute, id, { host: 'inside.example.org' }));
  await refused('not_found', enter(compute, id, {}, bob));
  await refused('not_found', enter(compute, id, {}, ann, '8000'));
  await compute.call(deleteIngress, ann, { params: { id, port: '443' } });
  await refused('not_found', enter(compute, id, {}));
  await add(compute, id, { access: 'password', password: PASSWORD });
  await refused('conflict', enter(compute, id, {}));
  await add(compute, id, { port: 8100, access: 'mine' });
  assert.equal(new URL((await enter(compute, id, {}, ann, '8100')).url).port, '8100');
});

test('an entry is no more than whoever may open the port has, and no SSH key gets one', () => {
  const { scope, notByKey, access } = enterIngress;
  const key = scope?.key('u', { id: 'c' });
  assert.deepEqual([access, key, scope?.action, notByKey], ['token', 'compute.u.containers.c', 'update', true]);
});
