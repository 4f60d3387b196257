import { z } from 'zod';
import type { Queries } from './queries.ts';

const valueRow = z.object({ value: z.string() });

/** The value of an installation-wide setting. */
export async function getSetting(db: Queries, key: string): Promise<string | undefined> {
  return (await db.one(valueRow, 'select value from settings where key = $1', [key]))?.value;
}

/** Writes a setting over what was there. */
export async function setSetting(db: Queries, key: string, value: string): Promise<void> {
  await db.run(
    `insert into settings (key, value) values ($1, $2)
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
  const won = await db.one(
    valueRow,
    'insert into settings (key, value) values ($1, $2) on conflict (key) do nothing returning value',
    [key, made],
  );
  return won?.value ?? (await getSetting(db, key)) ?? made;
}
