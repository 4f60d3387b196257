/**
 * `troupe rekey`: seals all secrets in the database under another ENCRYPTION_KEY, all or none, while nothing else of
 * the platform runs. A key that lives in the data folder is replaced there: the new one lies beside it before the
 * database changes, so that a run that is killed in between is finished by the next.
 */
import { type KeyObject, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { audit } from '../../storage/audit.ts';
import { FAILED_CHANGES_SEALED } from '../../storage/compute/failed-changes.ts';
import { REVISIONS_SEALED } from '../../storage/compute/revisions.ts';
import { COMPUTE_SEALED } from '../../storage/compute/settings.ts';
import type { Db, Tx } from '../../storage/db.ts';
import { NETWORK_SEALED } from '../../storage/network/reseal.ts';
import { READS_NEWS } from '../../storage/news/catch-up.ts';
import { NOTIFY_SEALED } from '../../storage/notify/webhooks.ts';
import { resealPlaces } from '../../storage/reseal.ts';
import { openedOrNone, parseSealKey, seal } from '../../storage/seal.ts';
import { getSetting, holdSettings, setSetting } from '../../storage/settings.ts';
import { CliError } from '../config/cli-error.ts';
import { type Environment, readEnvironment } from '../config/config.ts';
import { dataDirInUse, openDataDir, openSecrets } from '../config/data-dir.ts';
import { SEALED_SETTINGS } from '../config/platform-keys.ts';
import { withDatabase } from '../node/database.ts';
import { openLog } from '../observability/log.ts';
import { type CommandOptions, print } from './command.ts';

const KEY_FILE = 'encryption-key';
const NEXT_FILE = 'encryption-key.next';

/** All sealed columns but those of settings. */
export const SEALED_PLACES = [
  ...COMPUTE_SEALED,
  ...REVISIONS_SEALED,
  ...FAILED_CHANGES_SEALED,
  ...NETWORK_SEALED,
  ...NOTIFY_SEALED,
];

/** Changes the key, and says what was done. Throws as `changeKey`. */
export async function rekey(options: CommandOptions): Promise<void> {
  const { keyFile, ...done } = await changeKey(readEnvironment(process.env), options.data);
  print(options, done, () =>
    [
      `${done.sealed} secrets are sealed under the new key.`,
      ...(done.left === 0 ? [] : [`${done.left} did not open with the old key and are as they were.`]),
      keyFile === undefined
        ? 'Start everything with the new key as ENCRYPTION_KEY from now on.'
        : `It is in ${keyFile}.`,
    ].join('\n'),
  );
}

/** What was done; `keyFile`: where the new key is, when it lives in the data folder. */
interface Rekeyed {
  readonly sealed: number;
  readonly left: number;
  readonly keyFile: string | undefined;
}

/** Changes the key. Throws CliError that says what to do. */
export async function changeKey(environment: Environment, data: string): Promise<Rekeyed> {
  const { ENCRYPTION_KEY: given, NEW_ENCRYPTION_KEY: wanted } = environment;
  if (given !== undefined && wanted === undefined)
    throw new CliError('The key comes from ENCRYPTION_KEY: give the one that replaces it as NEW_ENCRYPTION_KEY.');
  const dir = environment.DATABASE_URL === undefined ? dataDirInUse(data) : openDataDir(data);
  const log = openLog(environment.LOG_LEVEL ?? 'error');
  const { encryptionKey: from } = openSecrets(dir, environment);
  const next = join(dir, NEXT_FILE);
  if (given === undefined && !existsSync(next)) {
    const key = wanted ?? randomBytes(32).toString('base64');
    writeFileSync(next, `${key}\n`, { flag: 'wx', mode: 0o600, flush: true });
  }
  const to = parseSealKey(given === undefined ? readFileSync(next, 'utf8') : (wanted ?? ''));
  const done = await withDatabase(environment, dir, log, (db) => reseal(db, from, to));
  if (given !== undefined) return { ...done, keyFile: undefined };
  const keyFile = join(dir, KEY_FILE);
  renameSync(next, keyFile);
  return { ...done, keyFile };
}

/** Does it in one transaction; a key that opens the settings already is left in place. */
async function reseal(db: Db, from: KeyObject, to: KeyObject): Promise<{ sealed: number; left: number }> {
  return db.tx(async (tx) => {
    // Whoever starts now reads its keys after us.
    await holdSettings(tx);
    const settings = await sealedSettings(tx);
    if (settings.length === 0) throw new CliError('Nothing is sealed in this database yet.');
    if (settings.every(({ context, sealed }) => openedOrNone(to, context, sealed) !== undefined))
      return { sealed: 0, left: 0 };
    await refuseWhileUsed(tx);
    for (const { key, context, clear, sealed } of settings) {
      const text = openedOrNone(from, context, sealed);
      if (text === undefined)
        throw new CliError('ENCRYPTION_KEY is not the key this database was set up with: give the right one.');
      await setSetting(tx, key, `${clear}${seal(to, context, text).toString('base64')}`);
    }
    const rest = await resealPlaces(tx, SEALED_PLACES, (context, sealed) => {
      const text = openedOrNone(from, context, sealed);
      return text === undefined ? undefined : seal(to, context, text);
    });
    const done = { sealed: settings.length + rest.sealed, left: rest.left };
    await audit(tx, { userId: null, username: 'operator', action: 'encryption_key.change', target: '', detail: done });
    return done;
  });
}

/** A process that runs with the old key would go on sealing under it. */
async function refuseWhileUsed(tx: Tx): Promise<void> {
  const users = await tx.many(
    z.object({ name: z.string() }),
    `select distinct application_name as name from pg_stat_activity
     where datname = current_database() and application_name like 'troupe/%' and pid <> pg_backend_pid()
       and application_name <> (select application_name from pg_stat_activity where pid = pg_backend_pid())`,
  );
  if (users.length === 0) return;
  const names = users.map(({ name }) => name.replace(READS_NEWS, '')).join(', ');
  throw new CliError(`Parts of the platform run on this database (${names}): stop them first.`);
}

async function sealedSettings(tx: Tx) {
  const found = await Promise.all(SEALED_SETTINGS.map(async (key) => ({ key, value: await getSetting(tx, key) })));
  return found.flatMap(({ key, value }) => {
    if (value === undefined) return [];
    // What stands in a line before it is not secret.
    const at = value.lastIndexOf('\n') + 1;
    const sealed = Buffer.from(value.slice(at), 'base64');
    return [{ key, context: `settings/${key}`, clear: value.slice(0, at), sealed }];
  });
}
