/** Roles of the database, one for each service that runs alone: the SQL that makes them, and what is missing. */
import { z } from 'zod';
import type { Queries } from './db.ts';
import { FUNCTIONS, RELATIONS, SEQUENCES } from './ownership.ts';
import { rightsOf, type ServiceWithRole } from './rights.ts';
import { fieldsOf, manyValues } from './rows.ts';

/** The name of a service's role. */
export const roleOf = (service: ServiceWithRole, prefix: string) => `${prefix}_${service}`;

/**
 * SQL that makes the roles of `services` where they are missing, which may not log in then, and gives them exactly the
 * rights that they need on this version's schema. Run again it changes nothing. Without `begin` and `commit`.
 */
export function rolesSql(services: readonly ServiceWithRole[], prefix: string): string {
  const roles = services.map((service) => roleOf(service, prefix));
  const all = roles.join(', ');
  return [
    ...roles.map(
      (role) =>
        `do $$ begin\n  if not exists (select from pg_roles where rolname = '${role}') then\n    create role ${role} ` +
        'nologin;\n  end if;\nend $$;',
    ),
    `do $$ begin\n  execute format('grant connect on database %I to ${all}', current_database());\nend $$;`,
    'revoke create on schema public from public;',
    `grant usage on schema public to ${all};`,
    `revoke all on table ${RELATIONS.join(', ')} from ${all};`,
    `revoke all on sequence ${SEQUENCES.join(', ')} from ${all};`,
    `revoke all on function ${FUNCTIONS.join(', ')} from public, ${all};`,
    ...services.flatMap((service) => ['', `-- ${service}`, ...grantsOf(service, roleOf(service, prefix))]),
  ].join('\n');
}

function grantsOf(service: ServiceWithRole, role: string): string[] {
  const rights = rightsOf(service);
  return [...new Set(rights.map(({ on }) => on))].map((on) => {
    const here = rights.filter((right) => right.on === on);
    const lists = [...new Set(here.map(({ right }) => right))].map((right) => {
      const columns = here.filter((one) => one.right === right).map(({ column }) => column);
      return columns.includes('') ? right : `${right} (${columns.join(', ')})`;
    });
    const kind = lists[0] === 'usage' ? 'sequence ' : lists[0] === 'execute' ? 'function ' : '';
    return `grant ${lists.join(', ')} on ${kind}${on} to ${role};`;
  });
}

const missingRow = z.object({ role: z.string(), missing: z.string() });

/** The first right of a service that whoever is logged in lacks, and who that is; undefined when there is none. */
export function missingRight(
  db: Queries,
  service: ServiceWithRole,
): Promise<{ readonly role: string; readonly missing: string } | undefined> {
  const rights = rightsOf(service);
  return db.one(
    missingRow,
    `select current_user::text as role, concat_ws(' ', right_name, nullif('(' || col || ')', '()'), 'on', relation)
       as missing
     from unnest($1::text[], $2::text[], $3::text[]) with ordinality as w (relation, right_name, col, place)
     where not case
       when right_name = 'usage' then has_sequence_privilege(relation, right_name)
       when right_name = 'execute' then
         (select has_function_privilege(oid, right_name) from pg_proc where oid = relation::regproc)
       when col = '' then has_table_privilege(relation, right_name)
       else has_column_privilege(relation, col, right_name) end
     order by place limit 1`,
    fieldsOf(rights, 'on', 'right', 'column'),
  );
}

/** Which of the roles may log in. */
export function rolesThatLogIn(db: Queries, roles: readonly string[]): Promise<string[]> {
  const those = 'select rolname::text from pg_roles where rolcanlogin and rolname = any($1::text[])';
  return manyValues(db, z.string(), those, [roles]);
}
