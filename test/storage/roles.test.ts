/** Roles of services: each has the rights of the table in storage/rights.ts, on all that there is, and no others. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { openDb, StorageError } from '../../storage/db.ts';
import { FUNCTIONS, RELATIONS, SEQUENCES } from '../../storage/ownership.ts';
import { rightsOf, SERVICES, type ServiceWithRole } from '../../storage/rights.ts';
import { missingRight, roleOf, rolesSql, rolesThatLogIn } from '../../storage/roles.ts';
import { getSetting } from '../../storage/settings.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';

const nameRow = z.object({ name: z.string() });

/** A database with a role for each service. */
async function bench(t: TestContext) {
  const database = await testDatabase();
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
    await database.close();
  });
  const roles = await database.serviceRoles();
  const names = async (text: string, values: readonly unknown[] = []) =>
    (await database.db.many(nameRow, text, values)).map(({ name }) => name);
  const as = (service: ServiceWithRole) => {
    const db = openDb(roles.connectionOf(service), { log: silentLog, name: service, max: 1 });
    ends.unshift(() => db.close());
    return db;
  };
  return { db: database.db, roles, names, as };
}

test('every table and view has one owner, and whatever else statements name is known', async (t) => {
  const { names } = await bench(t);
  const relations = await names(
    `select relname::text as name from pg_class
     where relkind in ('r', 'p', 'v', 'm', 'f') and relnamespace = 'public'::regnamespace order by 1`,
  );
  assert.deepEqual([...RELATIONS].sort(), relations);
  assert.equal(RELATIONS.length, new Set(RELATIONS).size);
  const functions = await names(
    `select proname::text as name from pg_proc
     where pronamespace = 'public'::regnamespace and prorettype <> 'trigger'::regtype order by 1`,
  );
  assert.deepEqual([...FUNCTIONS].sort(), functions);
  // Those of columns are used by whoever may insert; serial ones only by the owner of the schema.
  const alone = await names(
    `select relname::text as name from pg_class where relkind = 'S' and relnamespace = 'public'::regnamespace
       and not exists (select from pg_depend where objid = pg_class.oid and deptype in ('a', 'i')) order by 1`,
  );
  assert.deepEqual(
    alone.filter((name) => !SEQUENCES.some((known) => known === name)),
    [],
  );
});

/** What a role was given in this database, as `right (column) on name`. */
const GIVEN = `
  select concat_ws(' ', right_name, column_name, 'on', name) as name from (
    select lower(privilege_type) as right_name, null::text as column_name, relname::text as name
    from pg_class cross join lateral aclexplode(relacl) where grantee = $1::regrole
    union all
    select lower(privilege_type), format('(%s)', attname), attrelid::regclass::text
    from pg_attribute cross join lateral aclexplode(attacl) where grantee = $1::regrole
    union all
    select lower(privilege_type), null, proname::text
    from pg_proc cross join lateral aclexplode(proacl) where grantee = $1::regrole
  ) as given order by 1`;

test('each role has the rights of its service and no others, also after some were added or taken by hand', async (t) => {
  const { db, roles, names } = await bench(t);
  const check = async () => {
    for (const service of SERVICES) {
      const wanted = rightsOf(service).map(({ on, right, column }) =>
        [right, ...(column === '' ? [] : [`(${column})`]), 'on', on].join(' '),
      );
      const given = await names(GIVEN, [roleOf(service, roles.prefix)]);
      assert.deepEqual(given.sort(), wanted.sort(), service);
    }
  };
  await check();
  const [notify, monitor] = [roleOf('notify', roles.prefix), roleOf('monitor', roles.prefix)];
  await db.script(`grant select on users, settings to ${notify}; grant delete on outbox to ${monitor};
    grant update (password_hash) on users to ${monitor}; revoke all on notifications from ${notify};`);
  await roles.apply();
  await check();
  const creates = await names(
    `select rolname::text as name from pg_roles where rolname = any($1) and has_schema_privilege(oid, 'public',
       'create') or (rolsuper or rolcreaterole or rolcreatedb or rolbypassrls) and rolname = any($1)`,
    [SERVICES.map((service) => roleOf(service, roles.prefix))],
  );
  assert.deepEqual(creates, []);
});

test('roles that are made cannot log in until they are allowed to', async (t) => {
  const { db, roles } = await bench(t);
  const prefix = `${roles.prefix}x`;
  const made = roleOf('notify', prefix);
  await db.tx((tx) => tx.script(rolesSql(['notify'], prefix)));
  try {
    assert.deepEqual(await rolesThatLogIn(db, [made, roleOf('auth', roles.prefix)]), [roleOf('auth', roles.prefix)]);
  } finally {
    await db.script(`drop owned by ${made}; drop role ${made};`);
  }
});

/** What opens accounts, sessions, containers, sites or zones. */
const SECRETS = [
  'users.password_hash',
  'login_sessions.token_id',
  'password_links.token_hash',
  'security_keys.public_key',
  'spent_tokens.id',
  'settings.value',
  'certificates.key_sealed',
  'certificates.order_key_sealed',
  'acme_accounts.key_sealed',
  'acme_challenges.key_sealed',
  'owned_domains.token',
  'domain_mappings.verify_token',
  'ssh_keys.public_key',
  'audit_log.detail',
];
/** Of these, what a service is there for. */
const OPENED: Readonly<Record<ServiceWithRole, RegExp>> = {
  // It shows the administrator the audit trail.
  auth: /^(users|login_sessions|password_links|security_keys|spent_tokens|audit_log)\./,
  compute: /^(settings|ssh_keys)\./,
  gateway: /^(settings|certificates|acme_\w+|owned_domains|domain_mappings)\./,
  monitor: /^$/,
  notify: /^$/,
  registry: /^$/,
};

for (const service of SERVICES)
  test(`${service} reads the secrets it works with, and PostgreSQL refuses it all others`, async (t) => {
    const db = (await bench(t)).as(service);
    for (const secret of SECRETS) {
      const [table = '', column = ''] = secret.split('.');
      const read = db.many(z.unknown(), `select ${column} from ${table}`);
      if (OPENED[service].test(secret)) await read;
      else await assert.rejects(read, isForbidden, secret);
    }
    await assert.rejects(db.script('create table own (id int)'), isForbidden);
    await assert.rejects(db.script('alter table notifications add column own int'), isForbidden);
  });

function isForbidden(error: unknown): boolean {
  return error instanceof StorageError && error.sqlState === '42501';
}

test('a setting without a secret is read where the others may not be', async (t) => {
  const { db, as } = await bench(t);
  await db.script(`insert into settings values ('installation', 'abc'), ('platform_ssh_key', 'sealed')`);
  const monitor = as('monitor');
  assert.equal(await getSetting(monitor, 'installation'), 'abc');
  await assert.rejects(getSetting(monitor, 'platform_ssh_key'), isForbidden);
});

test('what a role lacks is named, and its owner lacks nothing', async (t) => {
  const { db, roles, as } = await bench(t);
  for (const service of SERVICES) {
    assert.equal(await missingRight(db, service), undefined);
    assert.equal(await missingRight(as(service), service), undefined);
  }
  const role = roleOf('notify', roles.prefix);
  assert.deepEqual(await missingRight(as('notify'), 'monitor'), { role, missing: 'select on static_routes' });
  await db.script(`revoke execute on function store_notifications from ${role}`);
  assert.deepEqual(await missingRight(as('notify'), 'notify'), { role, missing: 'execute on store_notifications' });
});
