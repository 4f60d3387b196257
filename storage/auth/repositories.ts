/** SQL of the registry's visibility: which repositories anybody may pull. All others are private. */
import { z } from 'zod';
import type { Queries } from '../db.ts';
import { columnsOf, manyValues } from '../rows.ts';

const publicRow = z.object({ name: z.string(), madePublicAt: z.date() });

/** A public repository as stored. */
type PublicRepository = z.output<typeof publicRow>;

/** Which of these repositories are public. Asks nothing for none. */
export async function publicAmong(db: Queries, names: readonly string[]): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set();
  const among = 'select name from public_repositories where name = any($1::text[])';
  return new Set(await manyValues(db, z.string(), among, [names]));
}

/** The names of the first public repositories. */
export function publicNames(db: Queries, most: number): Promise<string[]> {
  return manyValues(db, z.string(), 'select name from public_repositories order by name limit $1', [most]);
}

/** All public repositories, by name. */
export function publicRepositories(db: Queries): Promise<PublicRepository[]> {
  return db.many(publicRow, `select ${columnsOf(publicRow)} from public_repositories order by name`);
}

/** Makes a repository public. False when it was already. */
export async function makePublic(db: Queries, name: string): Promise<boolean> {
  const made = await db.run('insert into public_repositories (name) values ($1) on conflict (name) do nothing', [name]);
  return made === 1;
}

/** Makes a repository private. False when it was already. */
export async function makePrivate(db: Queries, name: string): Promise<boolean> {
  return (await db.run('delete from public_repositories where name = $1', [name])) === 1;
}
