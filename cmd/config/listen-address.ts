/** Addresses of listeners on the command line. */
import { CliError } from './cli-error.ts';

/**
 * `:port` on all addresses, `host:port`, or `[address]:port`, as `option` gives it. Throws CliError for anything else.
 */
export function addressIn(option: string, text: string): { host: string; port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]*)):([0-9]{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535)
    throw new CliError(`${option} is ${text}, but must be host:port, or :port for all addresses.`);
  return { host: bracketed ?? (plain || '0.0.0.0'), port };
}
