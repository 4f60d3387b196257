/** `troupe down`: stops the containers of a platform, and its private Docker Engine. Data is kept. */
import { getSetting } from '../../storage/settings.ts';
import { stopPrivateDockerd } from '../../transports/engines/docker/host/private-dockerd.ts';
import { readEnvironment } from '../config/config.ts';
import { dataDirInUse, openDataDir } from '../config/data-dir.ts';
import { hint } from '../config/program.ts';
import { lockDataDir } from '../config/running.ts';
import { bringUpToDate, withDatabase } from '../node/database.ts';
import { engineBeside } from '../node/docker.ts';
import { stopOwnRegistry } from '../node/registry/registry.ts';
import { openLog } from '../observability/log.ts';

const STOP_GRACE_SECONDS = 10;

/** Refuses while `up` runs on the folder: it would start the containers again. */
export async function down(options: { readonly data: string }): Promise<void> {
  const environment = readEnvironment(process.env);
  const log = openLog(environment.LOG_LEVEL ?? 'error');
  const dataDir = environment.DATABASE_URL === undefined ? dataDirInUse(options.data) : openDataDir(options.data);
  const unlock = lockDataDir(dataDir, 'Stop it first: it would start the containers again.');
  try {
    const installation = await withDatabase(
      environment,
      dataDir,
      log,
      (db) => getSetting(db, 'installation'),
      // An upgrade that was installed is no reason to leave containers running.
      bringUpToDate,
    );
    const engine = installation && (await engineBeside(environment, dataDir, installation, log));
    if (engine) {
      try {
        const running = (await engine.list()).filter(({ phase }) => phase === 'running');
        await Promise.all(running.map(({ id }) => engine.stop(id, STOP_GRACE_SECONDS)));
        process.stdout.write(
          `Stopped ${running.length} ${running.length === 1 ? 'container' : 'containers'}. The next ` +
            `${hint('up', options.data)} starts them again.\n`,
        );
      } finally {
        await engine.close();
      }
    }
    if (await stopOwnRegistry(dataDir)) process.stdout.write('Stopped the image registry.\n');
    if (await stopPrivateDockerd({ dataDir, log })) process.stdout.write('Stopped the private Docker Engine.\n');
  } finally {
    unlock();
  }
}
