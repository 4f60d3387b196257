/** What a server has besides the rows: roles, rights and settings, as statements for another server. */
import type pg from 'pg';
import { z } from 'zod';
import { rowsOf } from './dump.ts';

const statementRow = z.object({ statement: z.string() });

async function statementsOf(client: pg.Client, text: string): Promise<string[]> {
  return (await rowsOf(client, statementRow, text)).map(({ statement }) => statement);
}

/** Roles that somebody made, with their passwords, and who is a member of whom. For a superuser. */
export async function rolesOf(client: pg.Client): Promise<string[]> {
  // Those of initdb have smaller numbers.
  const made = 'oid >= 16384';
  const roles = await statementsOf(
    client,
    `select format('create role %I with %s connection limit %s', rolname, concat_ws(' ',
         case when rolsuper then 'superuser' end, case when not rolinherit then 'noinherit' end,
         case when rolcreaterole then 'createrole' end, case when rolcreatedb then 'createdb' end,
         case when rolcanlogin then 'login' end, case when rolreplication then 'replication' end,
         case when rolbypassrls then 'bypassrls' end), rolconnlimit)
       || coalesce(' password ' || quote_literal(rolpassword), '')
       || coalesce(' valid until ' || quote_literal(rolvaliduntil), '') as statement
     from pg_authid where ${made} order by oid`,
  );
  const members = await statementsOf(
    client,
    `select format('grant %s to %s%s', roleid::regrole, member::regrole,
         case when admin_option then ' with admin option' else '' end) as statement
     from pg_auth_members where member >= 16384 order by 1`,
  );
  const settings = await statementsOf(
    client,
    `select format('alter %s set %I to %s',
         case when setrole = 0 then format('database %I', datname)
           else format('role %s', setrole::regrole) || coalesce(' in database ' || quote_ident(datname), '') end,
         name, case when name = any('{local_preload_libraries,search_path,session_preload_libraries,temp_tablespaces}')
           then value else quote_literal(value) end) as statement
     from pg_db_role_setting left join pg_database d on d.oid = setdatabase
     cross join unnest(setconfig) as setting
     cross join lateral (select split_part(setting, '=', 1), substr(setting, strpos(setting, '=') + 1)) s (name, value)
     where setdatabase = 0 or datname = current_database() order by 1`,
  );
  return [...roles, ...members, ...settings];
}

/** Rights to what this database holds. An object without an entry has the rights that every new one has. */
export function grantsOf(client: pg.Client): Promise<string[]> {
  return statementsOf(
    client,
    `with objects (object, acl, owner, columns) as (
       select format('%s public.%I', case relkind when 'S' then 'sequence' else 'table' end, relname), relacl, relowner,
         null::text
       from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'S')
       union all
       select format('table public.%I', relname), attacl, relowner, quote_ident(attname)
       from pg_class join pg_attribute on attrelid = pg_class.oid
       where relnamespace = 'public'::regnamespace and attnum > 0 and not attisdropped
       union all
       select format('function public.%I(%s)', proname, pg_get_function_identity_arguments(oid)), proacl, proowner, null
       from pg_proc where pronamespace = 'public'::regnamespace and prokind = 'f'
       union all
       select 'schema public', nspacl, nspowner, null from pg_namespace where nspname = 'public'
       union all
       select format('database %I', datname), datacl, datdba, null from pg_database
       where datname = current_database())
     select format('revoke all on %s from public', object) as statement, 1 as turn
     from objects where acl is not null and columns is null
     union all
     select format('grant %s%s on %s to %s%s', privilege_type, ' (' || columns || ')', object,
         case grantee when 0 then 'public' else grantee::regrole::text end,
         case when is_grantable then ' with grant option' else '' end), 2
     from objects cross join aclexplode(acl) where grantee <> owner
     order by 2, 1`,
  );
}

const settingRow = z.object({ name: z.string(), setting: z.string() });
type Setting = z.output<typeof settingRow>;

/** What the files of a server's settings say, comments and repetitions aside. */
export function settingsOf(client: pg.Client): Promise<Setting[]> {
  return rowsOf(
    client,
    settingRow,
    `select distinct on (name) name, setting from pg_file_settings where error is null and setting is not null
     order by name, seqno desc`,
  );
}

/**
 * What a copy leaves behind: other databases, tables that Troupe did not make, extensions. `kept` are the relations of
 * the copy.
 */
export async function leftBehind(client: pg.Client, kept: ReadonlySet<string>): Promise<string[]> {
  const found = await statementsOf(
    client,
    `select format('database %I', datname) as statement from pg_database
     where datname not in ('postgres', 'template0', 'template1', current_database())
     union all
     select format('extension %I', extname) from pg_extension where extname <> 'plpgsql'
     union all
     select relation from (${RELATIONS}) as r
     order by 1`,
  );
  return found.filter((name) => !kept.has(name));
}

const RELATIONS = `select format('table %I.%I', nspname, relname) as relation
  from pg_class join pg_namespace n on n.oid = relnamespace
  where relkind in ('r', 'p', 'v', 'm', 'f') and nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    and nspname not like 'pg_temp%' and nspname not like 'pg_toast%'`;

/** Tables and views of a database, as `leftBehind` names them. */
export async function relationsOf(client: pg.Client): Promise<Set<string>> {
  return new Set(await statementsOf(client, `select relation as statement from (${RELATIONS}) as r`));
}
