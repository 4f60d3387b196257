/** Options of the gateway that need reading: its fallback, a file of routes, and the proxies in front. */
import { readFileSync } from 'node:fs';
import { type NewRoute, routesFileSchema } from '../../proto/gateway/routes.ts';
import type { FrontProxies } from '../../transports/gateway/listeners.ts';
import { parseTrusted } from '../../transports/wire/peer-address.ts';
import { CliError } from './cli-error.ts';
import type { Environment } from './config.ts';

/** Options of every command that opens a gateway, as the command line gives them. */
export interface GatewayFlags {
  /** Files of the wildcard certificate for the domain; undefined: the platform's own authority issues one. */
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  /** A line for each request on standard error. */
  readonly accessLog?: boolean;
  /** Whether the gateway keeps responses. */
  readonly cache: boolean;
  /** Addresses of proxies in front of it, and whether they speak the PROXY protocol. */
  readonly trustedProxies?: string | undefined;
  readonly proxyProtocol?: boolean;
}

/** --fallback: `<address>` or `<address>:<port>`; without a port 80. Throws CliError for anything else. */
export function fallbackOf(text: string): { host: string; port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+))(?::([0-9]{1,5}))?$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  const port = digits === undefined ? 80 : Number(digits);
  if (host === undefined || port < 1 || port > 65_535)
    throw new CliError(`--fallback is ${text}, but must be an address, with :port if it is not 80.`);
  return { host, port };
}

/**
 * --routes-file: a JSON array of objects with host, path, target and, if wanted, strip_prefix and priority. Throws
 * CliError, which names what is wrong.
 */
export function readRoutesFile(path: string): NewRoute[] {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    throw new CliError(`The routes file ${path} cannot be read as JSON.`, { cause });
  }
  const parsed = routesFileSchema.safeParse(value);
  if (parsed.success) return parsed.data.map(({ path: path_prefix, ...route }) => ({ ...route, path_prefix }));
  const [issue] = parsed.error.issues;
  throw new CliError(`The routes file ${path} is not valid: ${issue?.path.join('.')} ${issue?.message}.`);
}

/**
 * HSTS: the value of Strict-Transport-Security at the platform's own names; undefined: none is sent. With the
 * platform's own authority there is none, since browsers would let nobody past its error later on; nor for names of
 * this machine, where the console is also for plain HTTP.
 */
export function strictTransportOf(
  hsts: Environment['HSTS'],
  domain: string,
  { authorityFile }: { readonly authorityFile: string | null },
): string | undefined {
  if (hsts === 'off' || authorityFile !== null || /(?:^|\.)localhost$/.test(domain)) return undefined;
  // Not for hosts below: containers and their names are none of the platform's business here.
  return hsts === 'forget' ? 'max-age=0' : 'max-age=31536000';
}

/** Of `--trusted-proxies` (else TRUSTED_PROXIES) and `--proxy-protocol`; undefined: none. Throws CliError. */
export function proxiesOf(
  options: Pick<GatewayFlags, 'trustedProxies' | 'proxyProtocol'>,
  environment: Pick<Environment, 'TRUSTED_PROXIES'>,
): FrontProxies | undefined {
  const list = options.trustedProxies ?? environment.TRUSTED_PROXIES;
  if (list === undefined) {
    if (options.proxyProtocol)
      throw new CliError('--proxy-protocol needs --trusted-proxies: the addresses that the headers may come from.');
    return undefined;
  }
  const isTrusted = parseTrusted(list);
  if (isTrusted === undefined)
    throw new CliError(
      `--trusted-proxies is ${list}, but must be addresses or networks such as 10.0.0.0/8, separated by commas.`,
    );
  return { isTrusted, sendHeader: options.proxyProtocol === true };
}
