/** What `troupe doctor` finds of the database: whether there is one, and whether its schema is this version's. */
import { resolve } from 'node:path';
import { errorText } from '../../lib/errors.ts';
import { type DbConnection, openDb } from '../../storage/db.ts';
import { findBinaries } from '../../storage/embedded/binaries.ts';
import { findEmbedded } from '../../storage/embedded/find.ts';
import { EmbeddedError } from '../../storage/embedded/server.ts';
import { schemaVersion } from '../../storage/migrate.ts';
import type { Environment } from '../config/config.ts';
import { hint } from '../config/hints.ts';
import { givenDatabase } from '../node/database.ts';
import { openLog } from '../observability/log.ts';
import type { Finding } from './finding.ts';

/** Looks at the server of DATABASE_URL, or at the one under the data folder. Starts and changes nothing. */
export async function doctorDatabase(dataDir: string, environment: Environment): Promise<Finding[]> {
  const name = 'PostgreSQL';
  const given = givenDatabase(environment);
  if (given !== undefined) {
    const found = await schemaOf(given, dataDir);
    if ('problem' in found)
      return [{ name, ok: false, what: found.problem, how: 'start that server, or correct DATABASE_URL' }];
    return [{ name, ok: true, what: 'the server of DATABASE_URL answers' }, found];
  }
  try {
    const here = await findEmbedded(dataDir);
    const { major } = await findBinaries({ home: resolve(dataDir), user: undefined, major: here?.major });
    const server = { name, ok: true, what: `version ${major}, run by Troupe under ${resolve(dataDir)}` };
    if (here?.connection === undefined) return [server];
    const found = await schemaOf(here.connection, dataDir);
    return 'problem' in found ? [{ name, ok: false, what: found.problem }] : [server, found];
  } catch (error) {
    if (!(error instanceof EmbeddedError)) throw error;
    return [{ name, ok: false, what: error.message, how: 'apt-get install postgresql, or give DATABASE_URL' }];
  }
}

async function schemaOf(connection: DbConnection, dataDir: string): Promise<Finding | { readonly problem: string }> {
  const db = openDb(connection, { log: openLog('silent'), name: 'doctor', max: 1 });
  try {
    return schemaFinding(await schemaVersion(db), dataDir);
  } catch (error) {
    return { problem: errorText(error, 'it does not answer') };
  } finally {
    await db.close();
  }
}

/** What a schema's version means for this version of Troupe. */
export function schemaFinding({ has, knows }: { has: number; knows: number }, dataDir: string): Finding {
  const name = 'Schema';
  if (has === knows) return { name, ok: true, what: `version ${has}, which is this Troupe's` };
  if (has > knows)
    return {
      name,
      ok: false,
      what: `version ${has}; this Troupe knows ${knows}`,
      how: 'run a newer version of Troupe',
    };
  const what = has === 0 ? 'none yet' : `version ${has} of ${knows}`;
  return { name, ok: true, what: `${what}: the next start, or ${hint('migrate', dataDir)}, brings it up to date` };
}
