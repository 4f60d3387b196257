/** What the commands that run one service alone read in the same way: where they listen, and what they share with the platform. */
import { CliError } from './cli-error.ts';
import type { Environment } from './config.ts';

/** DATABASE_URL and JWT_SECRET, which `service` (as in "The cluster monitor") shares with the platform. Throws CliError that names what is missing. */
export function sharedWithPlatform(
  service: string,
  { DATABASE_URL, JWT_SECRET }: Pick<Environment, 'DATABASE_URL' | 'JWT_SECRET'>,
): { connectionString: string; secret: string } {
  const missing = Object.entries({ DATABASE_URL, JWT_SECRET }).flatMap(([name, value]) =>
    value === undefined ? [name] : [],
  );
  if (DATABASE_URL === undefined || JWT_SECRET === undefined)
    throw new CliError(`${service} needs ${missing.join(' and ')}, the same as the platform has.`);
  return { connectionString: DATABASE_URL, secret: JWT_SECRET };
}

/** `:port` on all addresses, `host:port`, or `[address]:port`. Throws CliError for anything else. */
export function listenAddress(text: string): { host: string; port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]*)):([0-9]{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535)
    throw new CliError(`--addr is ${text}, but must be host:port, or :port for all addresses.`);
  return { host: bracketed ?? (plain || '0.0.0.0'), port };
}
