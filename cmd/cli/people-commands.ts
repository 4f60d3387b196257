/** The commands for people and what is theirs: `users`, `containers`, `routes`, `registry`, `domains`. */
import { Argument, type Command, Option } from 'commander';
import { DATA, integer, PRINT_JSON } from '../config/options.ts';
import type { CommandOptions } from './command.ts';
import type { AddOptions } from './routes.ts';
import type { AddUserOptions, DisableOptions, PasswordLinkOptions, RemoveOptions } from './users.ts';

export function addPeopleCommands(program: Command): void {
  addUsers(program);

  program
    .command('containers')
    .description('the containers of all users (works while the platform runs)')
    .command('list')
    .description('list all with their owners and statuses, and what each waits for or why it failed')
    .option('--status <status>', 'only those: pending, initializing, running, stopped or failed')
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (options: CommandOptions & { status?: string }) =>
      (await import('./containers.ts')).containersList(options),
    );

  addRoutes(program);
  addRegistry(program);

  program
    .command('domains')
    .description('hostnames that users have mapped (works while the platform runs)')
    .command('list')
    .description('list all with their owners, states and certificates, and what each waits for')
    .option('--limit <n>', 'at most so many', integer, 1000)
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (options: CommandOptions & { limit: number }) => (await import('./domains.ts')).domainsList(options));
}

function addUsers(program: Command): void {
  const users = program
    .command('users')
    .description('add users, list them, set passwords, disable and remove them (works while the platform runs)');
  const command = (usage: string, description: string) =>
    users
      .command(usage)
      .description(description)
      .option(...DATA)
      .option(...PRINT_JSON);
  const work = () => import('./users.ts');

  const linkOptions = (made: Command) =>
    made
      .addOption(
        new Option('--expires <time>', 'how long the link may be used').choices(['1h', '24h', '7d']).default('24h'),
      )
      .option('--url <address>', 'of the console; needed where the platform does not run on this folder');

  linkOptions(
    command('add <name>', 'add a user; the password comes from standard input, or is generated and printed').option(
      '--link',
      'print a link instead by which the user sets the password',
    ),
  ).action(async (name: string, options: AddUserOptions) => (await work()).usersAdd(name, options));
  command('list', 'list all users').action(async (options: CommandOptions) => (await work()).usersList(options));
  command('passwd <name>', 'set a password, from standard input or generated').action(
    async (name: string, options: CommandOptions) => (await work()).usersPasswd(name, options),
  );
  linkOptions(
    command('password-link <name>', 'print a link by which a user sets a new password, once; it voids the one before'),
  ).action(async (name: string, options: PasswordLinkOptions) => (await work()).usersPasswordLink(name, options));
  command(
    'forget-keys <name>',
    'delete all security keys of somebody who lost them: the password is enough again',
  ).action(async (name: string, options: CommandOptions) => (await work()).usersForgetKeys(name, options));
  command('disable <name>', 'let a user in no more: sessions, tokens and all that is open end; containers go on')
    .option('--stop', 'stop their containers, too')
    .action(async (name: string, options: DisableOptions) => (await work()).usersDisable(name, options));
  command('enable <name>', 'let a disabled user in again').action(async (name: string, options: CommandOptions) =>
    (await work()).usersEnable(name, options),
  );
  command('remove <name>', 'remove a user with all that is theirs: containers, data, hostnames, keys, tokens')
    .option('--yes', 'do not ask')
    .option('--no-wait', 'do not wait until it is done')
    .action(async (name: string, options: RemoveOptions) => (await work()).usersRemove(name, options));
}

function addRoutes(program: Command): void {
  const routes = program.command('routes').description('static routes of the gateway (works while it runs)');
  routes
    .command('add <host> <path-prefix> <target>')
    .description('send requests for a host and the paths below a prefix to <host>:<port>')
    .option('--strip-prefix', 'take the prefix away before forwarding')
    .option('--priority <n>', 'the highest priority that fits wins', integer, 0)
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (host: string, prefix: string, target: string, options: AddOptions) =>
      (await import('./routes.ts')).routesAdd(host, prefix, target, options),
    );
  routes
    .command('list')
    .description('list all routes in the order of matching')
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (options: CommandOptions) => (await import('./routes.ts')).routesList(options));
  routes
    .command('remove <id>')
    .description('remove a route')
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (id: string, options: CommandOptions) => (await import('./routes.ts')).routesRemove(id, options));
}

function addRegistry(program: Command): void {
  const registry = program
    .command('registry')
    .description('set who may pull from the image registry, and attach one (works while the platform runs)');
  registry
    .command('visibility')
    .argument('<repository>', '<username>/<name>, without the registry and without a tag')
    .addArgument(new Argument('<visibility>', 'who may pull: anybody, or the owner').choices(['public', 'private']))
    .description('make a repository public or private')
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (repository: string, visibility: 'public' | 'private', options: CommandOptions) =>
      (await import('./registry.ts')).registryVisibility(repository, visibility, options),
    );
  registry
    .command('repositories')
    .description('list the repositories that were made public')
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (options: CommandOptions) => (await import('./registry.ts')).registryRepositories(options));
  registry
    .command('certificate')
    .description("print the certificate of REGISTRY_SIGNING_KEY, for the registry's rootcertbundle")
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (options: CommandOptions) => (await import('./registry.ts')).registryCertificate(options));
}
