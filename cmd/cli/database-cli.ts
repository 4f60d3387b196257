/** `troupe database` on the command line; database-command.ts and database-roles.ts do the work. */
import { Argument, type Command, InvalidArgumentError } from 'commander';
import { SERVICES, type ServiceWithRole } from '../../storage/rights.ts';
import type { Flag } from '../config/option-values.ts';
import type { CommandOptions } from './command.ts';

/** Adds the commands; `data` is the option that most commands have. */
export function addDatabase(program: Command, { data }: { data: Flag }): void {
  const database = program
    .command('database')
    .description("the platform's database for PostgreSQL's own programs (works while the platform runs, and when not)");
  database
    .command('url')
    .description('print its address, as psql and pg_dump take it, while the platform runs')
    .option(...data)
    .action(async (options: CommandOptions) => (await import('./database.ts')).databaseUrl(options));
  database
    .command('shell [arguments...]')
    .description('run psql on it; what follows -- is for psql')
    .option(...data)
    .action(async (args: string[], options: CommandOptions) =>
      (await import('./database.ts')).databaseShell(args, options),
    );
  database
    .command('dump [file]')
    .description('write all of it, as it is at one moment, to a file for pg_restore, or to standard output')
    .option(...data)
    .action(async (file: string | undefined, options: CommandOptions) =>
      (await import('./database.ts')).databaseDump(file, options),
    );
  database
    .command('roles')
    .addArgument(new Argument('[services...]', 'for these alone').choices(SERVICES))
    .description('print the SQL that gives each service that runs alone a role with the rights it needs, or run it')
    .option('--apply', 'run it, as the owner of the database; again after each upgrade')
    .option('--prefix <name>', 'what the names of the roles begin with', prefix, 'troupe')
    .option(...data)
    .action(async (services: readonly ServiceWithRole[], options: CommandOptions & { apply?: true; prefix: string }) =>
      (await import('./database.ts')).databaseRoles(services, { ...options, apply: options.apply === true }),
    );
}

/** The beginning of roles' names, which stand in SQL as they are. */
function prefix(value: string): string {
  if (/^[a-z_][a-z0-9_]{0,49}$/.test(value) && !value.startsWith('pg_')) return value;
  throw new InvalidArgumentError('must be small letters, digits and _, at most 50, and not begin with pg_.');
}
