/** `troupe database roles`: a role of the database for each service that runs alone, with the rights that it needs. */
import { type Db, StorageError } from '../../storage/db.ts';
import { SERVICES, type ServiceWithRole } from '../../storage/rights.ts';
import { roleOf, rolesSql, rolesThatLogIn } from '../../storage/roles.ts';
import { CliError } from '../config/cli-error.ts';
import { hint } from '../config/hints.ts';
import { bringUpToDate } from '../node/schema.ts';
import { onDatabase } from './command.ts';

/** Options as the command line gives them. */
interface RolesOptions {
  readonly data: string;
  readonly apply: boolean;
  readonly prefix: string;
}

/** insufficient_privilege */
const FORBIDDEN = '42501';

/**
 * Prints the SQL for `services` (none: all), or runs it in one transaction and says who may not log in yet. Throws
 * CliError when the user of the database may make no roles.
 */
export async function databaseRoles(
  services: readonly ServiceWithRole[],
  { data, apply, prefix }: RolesOptions,
): Promise<void> {
  const chosen = services.length === 0 ? SERVICES : SERVICES.filter((service) => services.includes(service));
  const sql = rolesSql(chosen, prefix);
  if (!apply) {
    process.stdout.write(`begin;\n${sql}\ncommit;\n`);
    return;
  }
  const roles = chosen.map((service) => roleOf(service, prefix));
  const make = async (db: Db) => {
    try {
      await db.tx((tx) => tx.script(sql));
    } catch (cause) {
      if (!(cause instanceof StorageError) || cause.sqlState !== FORBIDDEN) throw cause;
      throw new CliError(
        `${cause.message}: nothing was changed. Have a superuser of the server run what ` +
          `${hint('database roles', data)} prints, or make the roles before (${roles.join(', ')}).`,
        { cause },
      );
    }
    return rolesThatLogIn(db, roles);
  };
  // The rights are of this version's schema.
  const ready = await onDatabase({ data }, make, bringUpToDate);
  const waiting = roles.filter((role) => !ready.includes(role));
  const lines = [`${roles.join(', ')}: each has the rights of its service, and no others.`];
  const [first] = waiting;
  if (first !== undefined)
    lines.push(
      `No login yet: ${waiting.join(', ')}. Give each a password in ${hint('database shell', data)}:`,
      `  alter role ${first} login;`,
      `  \\password ${first}`,
    );
  process.stdout.write(`${lines.join('\n')}\n`);
}
