import { z } from 'zod';
import type { Queries, Tx } from './queries.ts';
import { oneValue } from './rows.ts';

/** Those of the view `open_settings`, which hold no secret. */
const OPEN = /^(installation|ssh_address|registry_certificate:.*)$/s;

/** Where a setting stands: a service that may not read secrets is led to the view. */
const placeOf = (key: string) => (OPEN.test(key) ? 'open_settings' : 'settings');

/** The value of an installation-wide setting. */
export function getSetting(db: Queries, key: string): Promise<string | undefined> {
  return oneValue(db, z.string(), `select value from ${placeOf(key)} where key = $1`, [key]);
}

/** Keeps all others from settings until `tx` ends. */
export async function holdSettings(tx: Tx): Promise<void> {
  await tx.run('lock table settings in access exclusive mode');
}

/** Writes a setting over what was there. */
export async function setSetting(db: Queries, key: string, value: string): Promise<void> {
  await db.run(
    `insert into ${placeOf(key)} (key, value) values ($1, $2)
     on conflict (key) do update set value = excluded.value, updated_at = now()`,
    [key, value],
  );
}

/** The setting, made first when it is absent. Of several that make it at once one wins and all get its value. */
export async function getOrCreateSetting(
  db: Queries,
  key: string,
  make: () => string | Promise<string>,
): Promise<string> {
  const present = await getSetting(db, key);
  if (present !== undefined) return present;
  const made = await make();
  const won = await oneValue(
    db,
    z.string(),
    `insert into ${placeOf(key)} (key, value) values ($1, $2) on conflict (key) do nothing returning value`,
    [key, made],
  );
  return won ?? (await getSetting(db, key)) ?? made;
}
