/** Chooses the bus: NATS when NATS_URL is set, else the one in this process with its streams in the database. */
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { SharedClock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import { deadLetterSink } from '../../storage/bus/dead-letters.ts';
import { streamStore } from '../../storage/bus/store.ts';
import type { Db } from '../../storage/db.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import type { NatsAddress, NatsBus } from '../../transports/bus/nats.ts';
import { isLoopback } from '../../transports/wire/peer-address.ts';
import { CliError } from '../config/cli-error.ts';
import { type Environment, fileOf } from '../config/config.ts';

/** A bus, and what is wrong with it. */
interface OpenBus {
  readonly bus: Bus;
  /** A sentence for operators while the broker cannot be reached. */
  readonly problem: () => string | undefined;
  /** Resolves once it can be used. Rejects with CliError when the broker turns us away, or after a minute. */
  ready(onProgress: (line: string) => void, isLeaving: () => boolean): Promise<void>;
}

/** How long a start waits for the broker: it may be starting beside us. */
const PATIENCE_MS = 60_000;
const STEP_MS = 2000;

/** What it is built from. */
interface BusOptions {
  readonly environment: Environment;
  readonly db: Db;
  /** How the broker's operator sees this process. */
  readonly name: string;
  /** JWT_SECRET: what processes say to each other is sealed by it. */
  readonly secret: SharedSecret;
  /** By which messages are judged fresh: the same for all processes. */
  readonly clock: SharedClock;
  readonly log: Log;
}

/** Rejects with CliError for a file that cannot be read, and for a broker that anybody on the way could be. */
export async function openBus({ environment, db, name, secret, clock, log }: BusOptions): Promise<OpenBus> {
  const address = natsAddress(environment);
  if (address === undefined) {
    const bus = embeddedBus({ store: streamStore(db), log });
    return { bus, problem: () => undefined, ready: async () => {} };
  }
  const replicas = environment.NATS_REPLICAS;
  const deadLetters = deadLetterSink(db);
  const { natsBus } = await import('../../transports/bus/nats.ts');
  const bus = natsBus({
    address,
    name,
    secret,
    deadLetters,
    log,
    clock,
    ...(replicas === undefined ? {} : { replicas }),
  });
  return {
    bus,
    problem: () => bus.problem,
    ready: (onProgress, isLeaving) => untilConnected(bus, address.servers.join(', '), onProgress, isLeaving),
  };
}

async function untilConnected(
  bus: NatsBus,
  servers: string,
  onProgress: (line: string) => void,
  isLeaving: () => boolean,
): Promise<void> {
  const started = performance.now();
  while (!(await bus.connected(STEP_MS))) {
    if (bus.isRefused)
      throw new CliError(
        `NATS at ${servers} does not let Troupe in: check the user and password in NATS_URL, NATS_TOKEN or NATS_CREDS.`,
      );
    if (isLeaving()) throw new CliError(`Stopped while waiting for NATS at ${servers}.`);
    const problem = bus.problem;
    if (performance.now() - started > PATIENCE_MS)
      throw new CliError(`${problem ?? `NATS at ${servers} cannot be reached`}.\nStart it, or correct NATS_URL.`);
    if (problem !== undefined) onProgress(`waiting: ${problem}`);
  }
}

/** Where NATS is; undefined without NATS_URL. Throws CliError for a file that cannot be read. */
export function natsAddress(environment: Environment): NatsAddress | undefined {
  const urls = environment.NATS_URL;
  const [first] = urls ?? [];
  if (urls === undefined || first === undefined) return undefined;
  const { NATS_USER: user, NATS_PASSWORD: password, NATS_TOKEN: token } = environment;
  const { user: urlUser, password: urlPassword, token: urlToken } = first;
  const credentials = fileOf('NATS_CREDS', environment.NATS_CREDS);
  const ca = fileOf('NATS_CA', environment.NATS_CA);
  const cert = fileOf('NATS_CERT', environment.NATS_CERT);
  const key = fileOf('NATS_KEY', environment.NATS_KEY);
  const tls = urls.some((url) => url.tls) || ca !== undefined || cert !== undefined;
  const isLetIn = [user ?? urlUser, token ?? urlToken, credentials, cert].some((one) => one !== undefined);
  const open = tls || isLetIn ? undefined : urls.find(({ server }) => !isOwnMachine(server));
  if (open !== undefined && environment.NATS_INSECURE === undefined)
    throw new CliError(
      `NATS at ${open.server} would be used without credentials and without TLS: whoever reaches it could delete ` +
        'and hold up what the platform says there. ' +
        'Give it users (docs/reference/messaging.md has an example) and put them into NATS_URL, or use tls://; ' +
        'NATS_INSECURE=allow goes on regardless.',
    );
  return {
    servers: urls.map(({ server }) => server),
    ...defined('user', user ?? urlUser),
    ...defined('password', password ?? urlPassword),
    ...defined('token', token ?? urlToken),
    ...defined('credentials', credentials),
    ...(tls ? { tls: { ...defined('ca', ca), ...defined('cert', cert), ...defined('key', key) } } : {}),
  };
}

/** Whether a server is reached without leaving this machine. */
function isOwnMachine(server: string): boolean {
  const host = server
    .slice(0, server.lastIndexOf(':'))
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
  return host === 'localhost' || host.endsWith('.localhost') || isLoopback(host);
}

function defined<K extends string>(key: K, value: string | undefined): { [key in K]?: string } {
  const entry: { [key in K]?: string } = {};
  if (value !== undefined) entry[key] = value;
  return entry;
}
