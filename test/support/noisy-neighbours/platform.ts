/** A running platform with a tenant who is up to no good, a third user, and a container of each. */
import { z } from 'zod';
import { startBox } from '../clients/container.ts';
import { deleteAll, logIn, startPlatform, troupe } from '../cluster/platform.ts';
import { testDatabase } from '../database/database.ts';
import { tinyImage } from '../engine/docker-client.ts';
import type { Cleanup } from '../temp.ts';
import type { Attack, Third } from './neighbours.ts';

const PASSWORD = 'of the two neighbours';
/** More than two addresses could have of one origin's places, and nearly all that an address may have of connections. */
const EACH = { upgrades: 520, logs: 300, bodies: 520, halves: 300 };

/** Starts it with its data in `folder`; with `program` another version of it. It ends with `t`. `pid`: its process. */
export async function neighbourhood(
  t: Cleanup,
  folder: string,
  program?: string[],
): Promise<{ readonly attack: Attack; readonly third: Third; readonly pid: number }> {
  const database = await testDatabase();
  t.after(() => database.close());
  // An empty one: another version has other migrations.
  const name = `${database.connection.database}_empty`;
  await database.db.run(`create database ${name}`);
  t.after(async () => void (await database.db.run(`drop database if exists ${name} with (force)`)));
  const env = {
    DATABASE_URL: database.url.replace(database.connection.database, name),
    DEFAULT_IMAGE: await tinyImage(),
  };
  const platform = await startPlatform({ data: folder, env, program });
  t.after(async () => void (await platform.stop()));
  const { urls } = platform.ready;
  const enter = async (name: string): Promise<string> => {
    const { code, stderr } = await troupe(['users', 'add', name, '--data', folder], {
      ...{ env, program, input: `${PASSWORD}\n` },
    });
    if (code !== 0) throw new Error(stderr);
    const token = await logIn(urls.auth, name, PASSWORD);
    t.after(() => deleteAll(urls.compute, token));
    return token;
  };
  const [bad, good] = [await enter('mallory'), await enter('carol')];
  const [of, mine] = [await startBox(urls.compute, bad, folder), await startBox(urls.compute, good, folder)];
  const port = z.coerce.number().parse(new URL(urls.https).port);
  const { domain } = platform.ready;
  return {
    attack: {
      ...{ port, domain, token: bad, containerId: of.id, each: EACH },
      ...{ tenant: ['127.0.0.2', '127.0.0.3'], stranger: ['127.0.0.4', '127.0.0.5'] },
    },
    third: { port, domain, username: 'carol', password: PASSWORD, token: good, containerId: mine.id },
    pid: platform.child.pid ?? 0,
  };
}
