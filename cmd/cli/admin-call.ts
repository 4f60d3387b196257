/** Calls of commands to the platform that runs on a data folder, as its administrator. */
import { resolve } from 'node:path';
import { z } from 'zod';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { jsonOf } from '../../lib/input.ts';
import type { Endpoint } from '../../proto/endpoint.ts';
import { userByName } from '../../storage/auth/users.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { openSecrets } from '../config/data-dir.ts';
import { hint } from '../config/program.ts';
import { findRunning } from '../config/running.ts';
import { type CommandOptions, onDatabase } from './command.ts';

const TOKEN_SECONDS = 60;
const TIMEOUT_MS = 10_000;
const refusal = z.object({ error: z.string() });

type AnySchema = z.ZodType | undefined;

/** What goes with a call. */
interface AdminCall {
  /** Of undefined members nothing is sent. */
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly body?: object;
}

/**
 * Calls an endpoint of the authentication service with a token made from the platform's own secret: who may read the
 * data folder is its administrator. Throws CliError, with the sentence of a refusal.
 */
export async function callAsAdmin<R extends z.ZodType>(
  options: CommandOptions,
  endpoint: Endpoint<AnySchema, AnySchema, AnySchema, R>,
  { query = {}, body }: AdminCall,
): Promise<z.output<R>> {
  const dataDir = resolve(options.data);
  const { urls } = findRunning(dataDir);
  const token = await adminToken(dataDir);
  const url = new URL(endpoint.path, urls.auth);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value);
  const authorization = `Bearer ${token}`;
  const init =
    body === undefined
      ? { headers: { authorization } }
      : { headers: { authorization, 'content-type': 'application/json' }, body: JSON.stringify(body) };
  let response: Response;
  try {
    response = await fetch(url, { method: endpoint.method, ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch (cause) {
    throw new CliError(
      `Troupe does not answer at ${urls.auth}: it may have died. Start it again with ${hint('up', dataDir)}.`,
      { cause },
    );
  }
  const text = await response.text();
  if (!response.ok)
    throw new CliError(refusal.safeParse(jsonOf(text)).data?.error ?? `Troupe answers ${response.status}: ${text}`);
  if (endpoint.reply === undefined) throw new TypeError(`${endpoint.name} has no reply`);
  return endpoint.reply.parse(JSON.parse(text));
}

async function adminToken(dataDir: string): Promise<string> {
  const environment = readEnvironment(process.env);
  const { jwtSecret } = openSecrets(dataDir, environment);
  const issue = sessionTokens(jwtSecret, TOKEN_SECONDS, { now: Date.now });
  const username = environment.ADMIN_USERNAME;
  const admin = await onDatabase({ data: dataDir }, (db) => userByName(db, username));
  if (admin === undefined)
    throw new CliError(`There is no user ${username}: ADMIN_USERNAME is another than the platform has.`);
  return (await issue({ id: admin.id, username, isAdmin: true })).token;
}
