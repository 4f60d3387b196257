/** `troupe tree`: the actors of the running platform, as they stand under their supervisors. */
import { resolve } from 'node:path';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { type ActorView, listActors } from '../../proto/auth/endpoints.ts';
import { userByName } from '../../storage/auth/users.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { openSecrets } from '../config/data-dir.ts';
import { hint } from '../config/program.ts';
import { findRunning } from '../config/running.ts';
import { withDatabase } from '../node/database.ts';
import { openLog } from '../observability/log.ts';
import type { CommandOptions } from './command.ts';

const TOKEN_SECONDS = 60;
const TIMEOUT_MS = 10_000;

/** Asks with a token made from the platform's own secret: who may read the data folder may see the tree. */
export async function showTree(options: CommandOptions): Promise<void> {
  const dataDir = resolve(options.data);
  const environment = readEnvironment(process.env);
  const { urls } = findRunning(dataDir);
  const { jwtSecret } = openSecrets(dataDir, environment);
  const issue = sessionTokens(jwtSecret, TOKEN_SECONDS, { now: Date.now });
  const username = environment.ADMIN_USERNAME;
  const log = openLog(environment.LOG_LEVEL ?? 'error');
  const admin = await withDatabase(environment, dataDir, log, (db) => userByName(db, username));
  if (admin === undefined)
    throw new CliError(`There is no user ${username}: ADMIN_USERNAME is another than the platform has.`);
  const { token } = await issue({ id: admin.id, username, isAdmin: true });
  let response: Response;
  try {
    response = await fetch(urls.auth + listActors.path, {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch (cause) {
    throw new CliError(
      `Troupe does not answer at ${urls.auth}: it may have died. Start it again with ${hint('up', dataDir)}.`,
      {
        cause,
      },
    );
  }
  if (!response.ok) throw new CliError(`Troupe answers ${response.status}: ${await response.text()}`);
  const { actors } = listActors.reply?.parse(await response.json()) ?? { actors: [] };
  process.stdout.write(options.json ? `${JSON.stringify(actors)}\n` : drawTree(actors));
}

/** One line an actor, indented by its place: name, kind, what is worth a look (messages, restarts, not idle). */
function drawTree(actors: readonly ActorView[]): string {
  return actors
    .map(({ path, kind, status, depth, oldest_ms, restarts, handler, omitted }) => {
      // `<system>://<name>/<name>`, the root without a name.
      const parts = path.split('/').filter((part) => part !== '');
      const notes = [
        status === 'idle' ? '' : status,
        handler === undefined ? '' : `${handler.message} for ${spanText(handler.ms)}`,
        depth === 0 ? '' : `${depth} waiting, oldest ${spanText(oldest_ms)}`,
        restarts === 0 ? '' : `${restarts} restarts`,
        omitted === 0 ? '' : `${omitted} more children`,
      ].filter((note) => note !== '');
      const name = decodeURIComponent(parts.at(-1) ?? '').replace(/:$/, '');
      return `${'  '.repeat(parts.length - 1)}${name}  [${kind}]${notes.length === 0 ? '' : `  ${notes.join(', ')}`}\n`;
    })
    .join('');
}

function spanText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 120_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;
}
