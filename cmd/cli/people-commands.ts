/** The commands for people and what is theirs: `users`, `containers`, `routes`, `registry`, `domains`. */
import { Argument, type Command, Option } from 'commander';
import { actionsOf } from '../config/actions.ts';
import {
  DATA,
  DOMAIN,
  dataCommand,
  integer,
  LOG_SERVICE,
  LOG_SOURCE,
  PRINT_JSON,
  READY_JSON,
} from '../config/options.ts';
import type { RegistryServeOptions } from '../node/registry/front/serve.ts';
import type { CommandOptions } from './command.ts';
import type { LimitOptions } from './user-limits.ts';

const inUsers = actionsOf(() => import('./users.ts'));
const inRoutes = actionsOf(() => import('./routes.ts'));
const inRegistry = actionsOf(() => import('./registry.ts'));

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
  const command = (usage: string, description: string) => dataCommand(users, usage, description);

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
  ).action(inUsers((of) => of.usersAdd));
  command('list', 'list all users').action(inUsers((of) => of.usersList));
  command('passwd <name>', 'set a password, from standard input or generated').action(inUsers((of) => of.usersPasswd));
  linkOptions(
    command('password-link <name>', 'print a link by which a user sets a new password, once; it voids the one before'),
  ).action(inUsers((of) => of.usersPasswordLink));
  command(
    'forget-keys <name>',
    'delete all security keys of somebody who lost them: the password is enough again',
  ).action(inUsers((of) => of.usersForgetKeys));
  command(
    'registry-limit <name> <mb>',
    'how many MiB the images of a user may hold: a number, 0 for none, or "default" for what all may',
  ).action(inUsers((of) => of.usersRegistryLimit));
  addLimits(
    command('limits <name>', 'how much a user may have, and change it: numbers, or "default" for what all may'),
  );
  command('disable <name>', 'let a user in no more: sessions, tokens and all that is open end; containers go on')
    .option('--stop', 'stop their containers, too')
    .action(inUsers((of) => of.usersDisable));
  command('enable <name>', 'let a disabled user in again').action(inUsers((of) => of.usersEnable));
  command('remove <name>', 'remove a user with all that is theirs: containers, data, hostnames, keys, tokens')
    .option('--yes', 'do not ask')
    .option('--no-wait', 'do not wait until it is done')
    .action(inUsers((of) => of.usersRemove));
}

/** An option for each limit. */
function addLimits(command: Command): void {
  command
    .option('--containers <n>', 'containers')
    .option('--ssh-keys <n>', 'SSH keys')
    .option('--images <mb>', 'MiB of images in the registry, as registry-limit sets it')
    .option('--terminals <n>', 'terminals that are open at a time')
    .option('--commands <n>', 'commands that run over a socket at a time')
    .option('--log-sockets <n>', 'logs that are followed at a time')
    .option('--update-sockets <n>', 'streams of updates (/compute/ws) at a time')
    .option('--notification-sockets <n>', 'streams of notifications at a time')
    .action(async (name: string, options: LimitOptions) =>
      (await import('./user-limits.ts')).usersLimits(name, options),
    );
}

function addRoutes(program: Command): void {
  const routes = program.command('routes').description('static routes of the gateway (works while it runs)');
  routes
    .command('add <host> <path-prefix> <target>')
    .description('send requests for a host and the paths below a prefix to <host>:<port>')
    .option('--strip-prefix', 'take the prefix away before forwarding')
    .option('--priority <n>', 'the highest priority that fits wins', integer, 0)
    .addOption(
      new Option(
        '--cache <mode>',
        'what gateways keep of its answers: what an answer declares fresh (explicit), nothing (off), or default',
      ).choices(['default', 'explicit', 'off']),
    )
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(inRoutes((of) => of.routesAdd));
  dataCommand(routes, 'list', 'list all routes in the order of matching').action(inRoutes((of) => of.routesList));
  dataCommand(routes, 'remove <id>', 'remove a route').action(inRoutes((of) => of.routesRemove));
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
    .action(inRegistry((of) => of.registryVisibility));
  dataCommand(registry, 'repositories', 'list the repositories that were made public').action(
    inRegistry((of) => of.registryRepositories),
  );
  dataCommand(
    registry,
    'certificate',
    "print the certificate of REGISTRY_SIGNING_KEY, for the registry's rootcertbundle",
  ).action(inRegistry((of) => of.registryCertificate));
  registry
    .command('serve')
    .description(
      'run the registry front of a cluster, on DATABASE_URL: the only way to a registry beside the platform, where ' +
        'writes are counted and wait while its store is collected (docs/reference/registry.md)',
    )
    .option('--addr <address>', 'address it listens on, host:port or :port', ':5000')
    .option('--registry <address>', 'address of the registry behind it', '127.0.0.1:5001')
    .requiredOption('--certificate <file>', 'certificates of the keys of its tokens, as its rootcertbundle has them')
    .option('--store <dir>', "the registry's folder of images; without it they are in a bucket")
    .option(...DOMAIN)
    .option(...READY_JSON)
    .option(...LOG_SERVICE)
    .option(...LOG_SOURCE)
    .action(async (options: RegistryServeOptions) =>
      (await import('../node/registry/front/serve.ts')).serveRegistry(options),
    );
}
