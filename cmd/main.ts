/** The command line of Troupe. */
import { Command, InvalidArgumentError } from 'commander';
import { addAlone } from './cli/alone-cli.ts';
import type { AuditOptions } from './cli/audit.ts';
import type { CommandOptions } from './cli/command.ts';
import { addContainers } from './cli/containers-cli.ts';
import { addDatabase } from './cli/database-cli.ts';
import { addDeadLetters } from './cli/dead-letters-cli.ts';
import type { DoctorOptions } from './cli/doctor.ts';
import { addDomains } from './cli/domains-cli.ts';
import { addDrain } from './cli/drain-cli.ts';
import { groupCommands } from './cli/help-groups.ts';
import { integer } from './cli/integer.ts';
import type { SendOptions } from './cli/notify-send.ts';
import { addRegistry } from './cli/registry-cli.ts';
import { addRekey } from './cli/rekey-cli.ts';
import type { AddOptions } from './cli/routes.ts';
import { addSecrets } from './cli/secrets-cli.ts';
import type { UpOptions } from './cli/up.ts';
import { addUsers } from './cli/users-cli.ts';
import { wordsFor } from './config/cli-error.ts';
import { collector, hostName } from './config/option-values.ts';
import { defaultDataDir, version } from './config/program.ts';
import type { GatewayCommandOptions } from './node/gateway-command.ts';
import type { AloneOptions } from './node/run-alone.ts';

const logService = [
  '--log-service <address>',
  'ship logs to this collector over OTLP/gRPC, host:port',
  collector,
] as const;
const domain = [
  '--domain <name>',
  'parent domain of all host names (default: PLATFORM_DOMAIN, else troupe.localhost)',
  hostName,
] as const;
const logSource = ['--log-source <name>', 'name under which its logs are shipped'] as const;

const program = new Command('troupe')
  .description('A self-hosted container cloud: log in, run containers, open terminals in them.')
  .version(version)
  .showHelpAfterError('(troupe --help shows what there is)')
  .addHelpText('after', '\nConfiguration by environment variables is described in docs/reference/configuration.md.');

const data = ['--data <dir>', 'folder of the platform (default: TROUPE_DATA)', defaultDataDir(process.env)] as const;
program.option('--data <dir>', 'folder of the platform, before the command or after it (default: TROUPE_DATA)');
// An option that the program has too is read by the program, wherever it stands.
program.hook('preAction', (_program, action) => {
  const given = program.opts<{ data?: string }>().data;
  if (given === undefined) return;
  for (let command: Command | null = action; command !== null && command !== program; command = command.parent)
    command.setOptionValue('data', given);
});
const listen = ['--listen <address>', 'address the services listen on', '127.0.0.1'] as const;
const portOffset = [
  '--port-offset <n>',
  'added to every default port; "auto" takes any free ports',
  offset,
  0,
] as const;
const json = ['--json', 'print JSON for scripts'] as const;

program
  .command('up')
  .description('run the whole platform in this process')
  .option(...data)
  .option(...domain)
  .option(...listen)
  .option(...portOffset)
  .option('--install', 'install Docker Engine with apt-get when there is none')
  .option('--json', 'print one line of JSON once everything serves')
  .option('--tls-cert <file>', 'wildcard certificate of the domain (PEM); without it the platform issues its own')
  .option('--tls-key <file>', 'private key of --tls-cert (PEM)')
  .option(...logService)
  .option(...logSource)
  .option('--access-log', 'write a line for each request through the gateway to standard error')
  .option('--no-cache', 'keep no responses in the gateway')
  .option(
    '--trusted-proxies <list>',
    'addresses of proxies in front, whose X-Forwarded-For counts (default: TRUSTED_PROXIES)',
  )
  .option('--proxy-protocol', 'the trusted proxies speak the PROXY protocol')
  .action(async (options: UpOptions) => (await import('./cli/up.ts')).up(options));

program
  .command('gateway')
  .description('run the gateway alone, beside a platform on the same database and Docker Engine')
  .option(...data)
  .option(...domain)
  .option('--listen <address>', 'address it listens on', '0.0.0.0')
  .option('--http-port <port>', 'HTTP listen port', integer, 18_080)
  .option('--https-port <port>', 'HTTPS listen port', integer, 8443)
  .option('--ssh-port <port>', 'SSH listen port', integer, 2222)
  .option('--net-port <port>', 'port of the networking API, on loopback', integer, 7003)
  .option('--tls-cert <file>', 'TLS certificate path; without it the local authority issues one')
  .option('--tls-key <file>', 'TLS private key path')
  .option('--fallback <address>', 'address for unmatched routes, with :port if it is not 80')
  .option('--routes-file <file>', 'more routes: a JSON array of {"host", "path", "target", "strip_prefix"}')
  .option(...logService)
  .option(...logSource)
  .option('--access-log', 'write a line for each request to standard error')
  .option('--no-cache', 'keep no responses')
  .option(
    '--trusted-proxies <list>',
    'addresses of proxies in front, whose X-Forwarded-For counts (default: TRUSTED_PROXIES)',
  )
  .option('--proxy-protocol', 'the trusted proxies speak the PROXY protocol')
  .option('--json', 'print one line of JSON once it serves')
  .action(async (options: GatewayCommandOptions) => (await import('./node/gateway-command.ts')).runGateway(options));

program
  .command('down')
  .description('stop the containers of a platform and its private Docker Engine')
  .option(...data)
  .action(async (options: CommandOptions) => (await import('./cli/down.ts')).down(options));

program
  .command('doctor')
  .description('say what is missing on this machine and how to get it, and how the platform is that runs')
  .option(...data)
  .option(...listen)
  .option(...portOffset)
  .option(...json)
  .action(async (options: DoctorOptions) => (await import('./cli/doctor.ts')).doctor(options));

program
  .command('migrate')
  .description('bring the database up to date')
  .option(...data)
  .action(async (options: CommandOptions) => (await import('./cli/database.ts')).migrateDatabase(options));

program
  .command('tree')
  .description('show the actors of the running platform under their supervisors')
  .option(...data)
  .option(...json)
  .action(async (options: CommandOptions) => (await import('./cli/tree.ts')).showTree(options));

const nodes = program
  .command('nodes')
  .description('show the nodes of the cluster: roles, shards, leases, versions (works whatever they do); or drain one')
  .option(...data)
  .option(...json)
  .action(async (options: CommandOptions) => (await import('./cli/nodes.ts')).showNodes(options));
addDrain(nodes);

addUsers(program, { data, json });

addRegistry(program, { data, json });

const notify = program
  .command('notify')
  .description('run the notification service alone, on DATABASE_URL and JWT_SECRET; or notify people')
  .option('--addr <address>', 'address it listens on, host:port or :port', ':8080')
  .option(...domain)
  .option(...logService)
  .option(...logSource)
  .option('--json', 'print one line of JSON once it serves')
  .action(async (options: AloneOptions) => {
    const { runAlone } = await import('./node/run-alone.ts');
    await runAlone((await import('./node/roles/notify.ts')).NOTIFY, options);
  });
notify
  .command('send')
  .description('notify a user, or everybody (works whether or not the platform runs)')
  .option('--user <name>', 'who is notified')
  .option('--everybody', 'notify all users')
  .requiredOption('--title <text>', 'title')
  .requiredOption('--body <text>', 'message')
  .option('--category <name>', 'category, which users can mute', '')
  .option('--scope <name>', 'scope within the category', '')
  .option('--link <path>', 'where it leads', '')
  .option(...data)
  .option(...json)
  .action(async (options: SendOptions) => {
    const { notifySend } = await import('./cli/notify-send.ts');
    // --json is an option of `notify` too, which takes it from both places.
    await notifySend({ ...options, json: notify.opts<{ json?: true }>().json === true || options.json === true });
  });

program
  .command('monitor')
  .description('run the cluster monitor alone, on DATABASE_URL and JWT_SECRET')
  .option('--addr <address>', 'address it listens on, host:port or :port', ':8080')
  .option('--refresh <time>', 'time between two measurements, such as 5s or 500ms', '5s')
  .option(
    '--api-server <address>',
    'the container engine, as in DOCKER_HOST (default: DOCKER_HOST, else the usual sockets)',
  )
  .option('--nats <url>', 'message broker (default: NATS_URL, else the streams in the database)')
  .option(...logService)
  .option(...logSource)
  .option('--json', 'print one line of JSON once it serves')
  .action(async (options: AloneOptions & { refresh: string; apiServer?: string; nats?: string }) => {
    const { runAlone } = await import('./node/run-alone.ts');
    const { monitorRole, parseRefresh } = await import('./node/roles/monitor.ts');
    const { apiServer, nats } = options;
    const given = { ...(nats && { NATS_URL: nats }), ...(apiServer && { DOCKER_HOST: apiServer }) };
    await runAlone(monitorRole(parseRefresh(options.refresh)), options, { ...process.env, ...given });
  });

const routes = program.command('routes').description('static routes of the gateway (works while it runs)');
routes
  .command('add <host> <path-prefix> <target>')
  .description('send requests for a host and the paths below a prefix to <host>:<port>')
  .option('--strip-prefix', 'take the prefix away before forwarding')
  .option('--priority <n>', 'the highest priority that fits wins', integer, 0)
  .option(...data)
  .option(...json)
  .action(async (host: string, prefix: string, target: string, options: AddOptions) =>
    (await import('./cli/routes.ts')).routesAdd(host, prefix, target, options),
  );
routes
  .command('list')
  .description('list all routes in the order of matching')
  .option(...data)
  .option(...json)
  .action(async (options: CommandOptions) => (await import('./cli/routes.ts')).routesList(options));
routes
  .command('remove <id>')
  .description('remove a route')
  .option(...data)
  .option(...json)
  .action(async (id: string, options: CommandOptions) => (await import('./cli/routes.ts')).routesRemove(id, options));

addAlone(program, { domain, logService, logSource });

addContainers(program, { data, json });
addDatabase(program, { data });
addDeadLetters(program, { data, json });
addDomains(program, { data, json });
addRekey(program, { data, json });
addSecrets(program, { data, json });

program
  .command('audit')
  .description('show who did what from where, oldest first (works while the platform runs)')
  .option(...data)
  .option('--user <name>', 'only what this user did; "operator" is the command line')
  .option('--action <noun[.verb]>', 'only this: "token.create", or "token" for all about tokens')
  .option('--since <time>', 'only what is not older: 30m, 24h, 7d, or a date such as 2026-01-31T12:00Z')
  .option('--limit <n>', 'the newest n entries', '50')
  .option('--follow', 'go on with what happens from now on, until interrupted')
  .option('--json', 'print each entry as one line of JSON')
  .action(async (options: AuditOptions) => (await import('./cli/audit.ts')).showAudit(options));

groupCommands(program);

/** The offset of all ports; -1 stands for "auto". */
function offset(value: string): number {
  if (value === 'auto') return -1;
  if (!/^[0-9]{1,5}$/.test(value)) throw new InvalidArgumentError('must be a whole number, or "auto".');
  return Number(value);
}

/** `-http-port` is `--http-port`: flags of one dash are promised, too. What follows `--` is another program's. */
function twoDashes(argument: string, at: number, all: readonly string[]): string {
  return /^-[a-z][a-z-]+(=|$)/.test(argument) && !all.slice(0, at).includes('--') ? `-${argument}` : argument;
}

try {
  await program.parseAsync([...process.argv.slice(0, 2), ...process.argv.slice(2).map(twoDashes)]);
} catch (error) {
  process.stderr.write(`troupe: ${wordsFor(error)}\n`);
  process.exitCode = 1;
}
