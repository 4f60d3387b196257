/** A data folder as an installation with an older PostgreSQL left it, with rows of each kind. */
import { z } from 'zod';
import { type Db, openDb } from '../../../storage/db.ts';
import { startEmbedded } from '../../../storage/embedded/server.ts';
import { migrate, migrationsDir } from '../../../storage/migrate.ts';
import { SERVICES } from '../../../storage/rights.ts';
import { rolesSql } from '../../../storage/roles.ts';
import { silentLog } from '../log.ts';

/** Version of the databases that Troupe made before. */
export const OLD_MAJOR = 15;

/** Text that no quoting may break: the ends of rows and columns, what COPY escapes, what is not ASCII. */
const ODD = 'a tab\t, a newline\n, a return\r, \\., \\N, \', ", $$, \u00e9\u{1f600}';

/** Rows of each type of column, in tables with references, triggers, identities and computed columns. */
export async function fill(db: Db, messages: number): Promise<void> {
  await db.tx(async (tx) => {
    await tx.run(
      `insert into users (id, username, display_name, password_hash, sessions_from, registry_limit_mb, has_images)
       values ('a00000000001', 'ann', $1, 'hash', '-infinity', 0, true), ('a00000000002', 'bob', 'Bob', '', null, null,
         false)`,
      [ODD],
    );
    await tx.run(
      `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths,
         ssh_enabled, desired, status, status_since, former_settings, egress)
       values ('c00000000001', 'a00000000001', 1, $1, 'small', 512, 1, 'Always', array[$1, '', 'null'], true, 'running',
         'running', '2020-02-29 23:59:59.123456+13', '\\x00ff0a5c2e', array[]::text[])`,
      [ODD],
    );
    await tx.run(`insert into bus_streams (name, subjects, max_messages, max_bytes, max_age_ms, duplicate_window_ms, last_seq)
       values ('events', '{some.*}', 30000, 1e9, 1e9, 0, 20000)`);
    await tx.run(
      `insert into bus_messages (stream, seq, subject, data, size)
       select 'events', n, 'some.subject', decode(repeat(md5(n::text), 40), 'hex'), 640 from generate_series(1, $1::int) n`,
      [messages],
    );
    await tx.run(
      `insert into audit_log (username, action, detail) select 'ann', 'test', jsonb_build_object('text', $1::text, 'n', n,
         'none', null, 'big', 12345678901234567890.5) from generate_series(1, 50) n`,
      [ODD],
    );
    await tx.run(
      `insert into entity_timers (kind, id, name, service, key, at, due, message)
       values ('kind', 'id', 'name', 'compute', gen_random_uuid(), now(), 'infinity', '{"a": [1, 2.50, "x"]}')`,
    );
    await tx.run(
      `insert into static_routes (host, path_prefix, target) select 'h' || n, '/', 'http://127.0.0.1' from generate_series(1,
         7) n`,
    );
    await tx.run(`select nextval('bus_kv_revisions') from generate_series(1, 41)`);
  });
}

/** Makes the folder, with the roles of services. Resolves with what its database holds. */
export async function makeOldDatabase(dataDir: string): Promise<string> {
  const server = await startEmbedded({ dataDir, log: silentLog, major: OLD_MAJOR });
  const db = openDb(server.connection, { log: silentLog, name: 'test' });
  try {
    await migrate(db, migrationsDir, silentLog);
    // More than any buffer on the way holds.
    await fill(db, 20_000);
    await db.tx((tx) => tx.script(rolesSql(SERVICES, 'old')));
    await db.script("alter role old_auth login password 'secret'");
    await db.script("alter system set work_mem = '5MB'");
    return await contents(db);
  } finally {
    await db.close();
    await server.stop();
  }
}

const lineRow = z.object({ line: z.string() });

/** All rows, the next numbers of sequences, and who may do what, as text. Numbers of transactions are left out. */
export async function contents(db: Db): Promise<string> {
  const tables = await db.many(
    lineRow,
    `select relname as line from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1`,
  );
  const rows: string[] = [];
  for (const { line } of tables) {
    const found = await db.many(
      lineRow,
      `select md5(string_agg(t.line, E'\\n' order by t.line)) as line from
         (select (to_jsonb(r) - 'changed')::text as line from ${line} r) t having count(*) > 0`,
    );
    rows.push(...found.map((row) => `${line} ${row.line}`));
  }
  const others = await db.many(
    lineRow,
    `select format('%s %s', sequencename, last_value) as line from pg_sequences
     union all select format('%s %s %s %s', table_name, column_name, grantee, privilege_type)
       from information_schema.column_privileges where grantee like 'old_%'
     union all select format('%s %s %s', object_name, grantee, privilege_type)
       from information_schema.usage_privileges where grantee like 'old_%'
     union all select format('%s %s %s', routine_name, grantee, privilege_type)
       from information_schema.routine_privileges where grantee like 'old_%' or grantee = 'PUBLIC'
         and routine_schema = 'public'
     union all select format('%s %s %s', rolname, rolcanlogin, rolpassword) from pg_authid where rolname like 'old_%'
     union all select format('%s %s', name, setting) from pg_file_settings where name = 'work_mem'
     union all select format('create on public: %s', has_schema_privilege('old_auth', 'public', 'create'))
       where exists (select from pg_roles where rolname = 'old_auth')
     order by 1`,
  );
  return [...rows, ...others.map(({ line }) => line)].join('\n');
}
