/** The commands that run one service alone: `auth`, `compute`, `gateway`, `monitor`, `notify`. */
import type { Command } from 'commander';
import {
  DATA,
  DOMAIN,
  integer,
  LOG_SERVICE,
  LOG_SOURCE,
  PRINT_JSON,
  PROXY_PROTOCOL,
  READY_JSON,
  TRUSTED_PROXIES,
} from '../config/options.ts';
import type { GatewayCommandOptions } from '../node/gateway-command.ts';
import type { Role } from '../node/roles/role.ts';
import type { AloneOptions } from '../node/run-alone.ts';
import type { SendOptions } from './notify-send.ts';

export function addAloneCommands(program: Command): void {
  const add = (name: string, what: string, port: number, role: () => Promise<Role>) =>
    program
      .command(name)
      .description(
        `run the ${what} service alone, on DATABASE_URL, NATS_URL and the platform's secrets ` +
          '(docs/reference/operations.md)',
      )
      .option('--addr <address>', 'address it listens on, host:port or :port', `:${port}`)
      .option(...DOMAIN)
      .option(...READY_JSON)
      .option(...LOG_SERVICE)
      .option(...LOG_SOURCE)
      .action(async (options: AloneOptions) => {
        const { runAlone } = await import('../node/run-alone.ts');
        await runAlone(await role(), options);
      });
  add('auth', 'authentication', 7001, async () => (await import('../node/roles/auth.ts')).AUTH);
  add('compute', 'compute', 7002, async () => (await import('../node/roles/compute.ts')).COMPUTE);
  addGateway(program);
  addMonitor(program);
  addNotify(program);
}

function addGateway(program: Command): void {
  program
    .command('gateway')
    .description('run the gateway alone, beside a platform on the same database and Docker Engine')
    .option(...DATA)
    .option(...DOMAIN)
    .option('--listen <address>', 'address it listens on', '0.0.0.0')
    .option('--http-port <port>', 'HTTP listen port', integer, 18_080)
    .option('--https-port <port>', 'HTTPS listen port', integer, 8443)
    .option('--ssh-port <port>', 'SSH listen port', integer, 2222)
    .option('--net-port <port>', 'port of the networking API, on loopback', integer, 7003)
    .option('--tls-cert <file>', 'TLS certificate path; without it the local authority issues one')
    .option('--tls-key <file>', 'TLS private key path')
    .option('--fallback <address>', 'address for unmatched routes, with :port if it is not 80')
    .option('--routes-file <file>', 'more routes: a JSON array of {"host", "path", "target", "strip_prefix"}')
    .option(...LOG_SERVICE)
    .option(...LOG_SOURCE)
    .option('--access-log', 'write a line for each request to standard error')
    .option('--no-cache', 'keep no responses')
    .option(...TRUSTED_PROXIES)
    .option(...PROXY_PROTOCOL)
    .option(...READY_JSON)
    .action(async (options: GatewayCommandOptions) => (await import('../node/gateway-command.ts')).runGateway(options));
}

function addMonitor(program: Command): void {
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
    .option(...LOG_SERVICE)
    .option(...LOG_SOURCE)
    .option(...READY_JSON)
    .action(async (options: AloneOptions & { refresh: string; apiServer?: string; nats?: string }) => {
      const { runAlone } = await import('../node/run-alone.ts');
      const { monitorRole, parseRefresh } = await import('../node/roles/monitor.ts');
      const { apiServer, nats } = options;
      const given = { ...(nats && { NATS_URL: nats }), ...(apiServer && { DOCKER_HOST: apiServer }) };
      await runAlone(monitorRole(parseRefresh(options.refresh)), options, { ...process.env, ...given });
    });
}

function addNotify(program: Command): void {
  const notify = program
    .command('notify')
    .description('run the notification service alone, on DATABASE_URL and JWT_SECRET; or notify people')
    .option('--addr <address>', 'address it listens on, host:port or :port', ':8080')
    .option(...DOMAIN)
    .option(...LOG_SERVICE)
    .option(...LOG_SOURCE)
    .option(...READY_JSON)
    .action(async (options: AloneOptions) => {
      const { runAlone } = await import('../node/run-alone.ts');
      await runAlone((await import('../node/roles/notify.ts')).NOTIFY, options);
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
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (options: SendOptions) => {
      const { notifySend } = await import('./notify-send.ts');
      // --json is an option of `notify` too, which takes it from both places.
      await notifySend({ ...options, json: notify.opts<{ json?: true }>().json === true || options.json === true });
    });
}
