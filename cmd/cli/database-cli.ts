/** `troupe database` on the command line; database-command.ts does the work. */
import type { Command } from 'commander';

/** Adds the commands; `data` is the option that most commands have. */
export function addDatabase(program: Command, { data }: { data: readonly [string, string, string?] }): void {
  const database = program
    .command('database')
    .description("the platform's database for PostgreSQL's own programs (works while the platform runs, and when not)");
  database
    .command('url')
    .description('print its address, as psql and pg_dump take it, while the platform runs')
    .option(...data)
    .action(async (options: { data: string }) => {
      const { databaseUrl } = await import('./database-command.ts');
      await databaseUrl(options);
    });
  database
    .command('shell [arguments...]')
    .description('run psql on it; what follows -- is for psql')
    .option(...data)
    .action(async (args: string[], options: { data: string }) => {
      const { databaseShell } = await import('./database-command.ts');
      await databaseShell(args, options);
    });
  database
    .command('dump [file]')
    .description('write all of it, as it is at one moment, to a file for pg_restore, or to standard output')
    .option(...data)
    .action(async (file: string | undefined, options: { data: string }) => {
      const { databaseDump } = await import('./database-command.ts');
      await databaseDump(file, options);
    });
}
