/** Options of `troupe gateway` that need reading. */
import { readFileSync } from 'node:fs';
import { type NewRoute, routesFileSchema } from '../../proto/gateway/routes.ts';
import { CliError } from './cli-error.ts';

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
