/** The commands for the platform as a whole: `up`, `down`, `doctor`, `migrate`, `database`, `rekey`, `secrets`. */
import { Argument, type Command, InvalidArgumentError } from 'commander';
import { SERVICES, type ServiceWithRole } from '../../storage/rights.ts';
import { actionsOf } from '../config/actions.ts';
import {
  DATA,
  DOMAIN,
  dataCommand,
  LISTEN,
  LOG_SERVICE,
  LOG_SOURCE,
  PORT_OFFSET,
  PRINT_JSON,
  PROXY_PROTOCOL,
  TRUSTED_PROXIES,
} from '../config/options.ts';
import type { CommandOptions } from './command.ts';
import type { DoctorOptions } from './doctor.ts';
import type { UpOptions } from './up.ts';

const inDatabase = actionsOf(() => import('./database.ts'));
const inDump = actionsOf(() => import('./database-dump.ts'));

export function addPlatformCommands(program: Command): void {
  program
    .command('up')
    .description('run the whole platform in this process')
    .option(...DATA)
    .option(...DOMAIN)
    .option(...LISTEN)
    .option(...PORT_OFFSET)
    .option('--install', 'install Docker Engine and the image registry with apt-get when they are missing')
    .option('--json', 'print one line of JSON once everything serves')
    .option('--tls-cert <file>', 'wildcard certificate of the domain (PEM); without it the platform issues its own')
    .option('--tls-key <file>', 'private key of --tls-cert (PEM)')
    .option(...LOG_SERVICE)
    .option(...LOG_SOURCE)
    .option('--access-log', 'write a line for each request through the gateway to standard error')
    .option('--no-cache', 'keep no responses in the gateway')
    .option(...TRUSTED_PROXIES)
    .option(...PROXY_PROTOCOL)
    .action(async (options: UpOptions) => (await import('./up.ts')).up(options));

  program
    .command('down')
    .description('stop the containers of a platform, its private Docker Engine and its image registry')
    .option(...DATA)
    .action(async (options: CommandOptions) => (await import('./down.ts')).down(options));

  program
    .command('doctor')
    .description('say what is missing on this machine and how to get it, and how the platform is that runs')
    .option(...DATA)
    .option(...LISTEN)
    .option(...PORT_OFFSET)
    .option(...PRINT_JSON)
    .action(async (options: DoctorOptions) => (await import('./doctor.ts')).doctor(options));

  program
    .command('migrate')
    .description('bring the database up to date')
    .option(...DATA)
    .action(inDatabase((of) => of.migrateDatabase));

  addDatabase(program);

  dataCommand(
    program,
    'rekey',
    'seal all secrets under another encryption key, generated or NEW_ENCRYPTION_KEY (the platform must not run)',
  ).action(async (options: CommandOptions) => (await import('./rekey.ts')).rekey(options));

  addSecrets(program);
}

function addDatabase(program: Command): void {
  const database = program
    .command('database')
    .description("the platform's database for PostgreSQL's own programs (works while the platform runs, and when not)");
  database
    .command('url')
    .description('print its address, as psql takes it, while the platform runs')
    .option(...DATA)
    .action(inDatabase((of) => of.databaseUrl));
  database
    .command('shell [arguments...]')
    .description('run psql on it; what follows -- is for psql')
    .option(...DATA)
    .action(inDatabase((of) => of.databaseShell));
  database
    .command('dump [file]')
    .description('write all of it, as it is at one moment, to a file (compressed: name.gz), or to standard output')
    .option(...DATA)
    .action(inDump((of) => of.databaseDump));
  database
    .command('restore <file>')
    .description('make the database from a dump, while the platform does not run')
    .option('--replace', 'remove what the database holds before')
    .option(...DATA)
    .action(async (file: string, options: CommandOptions & { replace?: true }) =>
      (await import('./database-dump.ts')).databaseRestore(file, { ...options, replace: options.replace === true }),
    );
  database
    .command('roles')
    .addArgument(new Argument('[services...]', 'for these alone').choices(SERVICES))
    .description('print the SQL that gives each service that runs alone a role with the rights it needs, or run it')
    .option('--apply', 'run it, as the owner of the database; again after each upgrade')
    .option('--prefix <name>', 'what the names of the roles begin with', prefix, 'troupe')
    .option(...DATA)
    .action(async (services: readonly ServiceWithRole[], options: CommandOptions & { apply?: true; prefix: string }) =>
      (await import('./database.ts')).databaseRoles(services, { ...options, apply: options.apply === true }),
    );
}

/** The beginning of roles' names, which stand in SQL as they are. */
function prefix(value: string): string {
  if (/^[a-z_][a-z0-9_]{0,49}$/.test(value) && !value.startsWith('pg_')) return value;
  throw new InvalidArgumentError('must be small letters, digits and _, at most 50, and not begin with pg_.');
}

/** JWT_SECRET of the data folder gives way to another, without anybody being logged out. */
function addSecrets(program: Command): void {
  const secrets = program
    .command('secrets')
    .description(
      'rotate the secret that signs tokens, where it is kept in the data folder (docs/reference/operations.md)',
    );
  const add = (
    name: string,
    step: 'prepareRotation' | 'rotate' | 'finishRotation',
    description: string,
    next: string,
  ) =>
    dataCommand(secrets, name, description).action(async (options: CommandOptions) => {
      const { dataDirInUse } = await import('../config/data-dir.ts');
      const steps = await import('../config/shared-secrets.ts');
      steps[step](dataDirInUse(options.data));
      process.stdout.write(options.json === true ? `${JSON.stringify({ done: name, next })}\n` : `${next}\n`);
    });
  add(
    'prepare',
    'prepareRotation',
    'make the next secret, accepted from the next start on; needed where several processes use the folder',
    'Restart the processes that use this folder, one after the other, then run `troupe secrets rotate`.',
  );
  add(
    'rotate',
    'rotate',
    'make the next secret the one that signs; what the present one signed goes on being accepted',
    'Restart the processes that use this folder. Once nothing is left that the former secret signed, run `troupe ' +
      'secrets finish`.',
  );
  add(
    'finish',
    'finishRotation',
    'void everything that the previous secret signed, API tokens included',
    'Restart the processes that use this folder: what the previous secret signed is void from then on.',
  );
}
