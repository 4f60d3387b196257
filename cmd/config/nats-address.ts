/** Where NATS is and how to be let in, out of the variables that NATS's own tools know too. */
import { readFileSync } from 'node:fs';
import type { NatsAddress } from '../../transports/bus/nats.ts';
import { isLoopback } from '../../transports/wire/peer-address.ts';
import { CliError } from './cli-error.ts';
import type { Environment } from './config.ts';

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

function fileOf(name: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new CliError(`${name} is ${path}, which cannot be read.`, { cause });
  }
}
