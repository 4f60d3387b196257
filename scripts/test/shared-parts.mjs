/** Real parts that all test files share, each started once for a run. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Where a private dockerd keeps its things, and the file that tells whose it is. */
const FOLDER_PREFIX = join(tmpdir(), 'troupe-docker-');
const OWNER_FILE = 'owner.pid';

const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };

/**
 * Starts what can be started here. Resolves with `env` for the tests, `notes` for people (what runs, and why something
 * does not), `failed` (those notes that tell of a part that should have started), and `stop()`.
 */
export async function startSharedParts(root) {
  const env = {};
  const notes = [];
  const failed = [];
  const stops = [];
  const parts = { PostgreSQL: startPostgres, 'data of platforms': prepareData, Docker: startDocker };
  for (const [name, start] of Object.entries(parts)) {
    try {
      const part = await start(root);
      Object.assign(env, part.env);
      if (part.stop) stops.unshift([name, part.stop]);
      notes.push(`${name}: ${part.note}`);
    } catch (error) {
      failed.push(`${name}: did not start: ${error instanceof Error ? error.message : error}`);
    }
  }
  const stop = async () => {
    for (const [name, end] of stops.splice(0)) {
      await end().catch((error) => process.stderr.write(`${name} did not stop: ${error}\n`));
    }
  };
  return { env, notes: [...notes, ...failed], failed, stop };
}

async function startPostgres(root) {
  const { startTestServer } = await importBuilt(root, 'test/support/database/database.js');
  const server = await startTestServer();
  return {
    note: `a server in ${server.socketDir}`,
    env: { TROUPE_TEST_PG: server.socketDir },
    stop: () => server.stop(),
  };
}

async function prepareData(root) {
  const { prepareData } = await importBuilt(root, 'test/support/cluster/prepared-data.js');
  const { folder, remove } = await prepareData();
  return { note: folder, env: { TROUPE_TEST_DATA: folder }, stop: remove };
}

async function startDocker(root) {
  if (process.env.DOCKER_HOST) return { note: `the one at ${process.env.DOCKER_HOST}`, env: {} };
  if (process.getuid?.() !== 0) return { note: 'not started: that takes root, or set DOCKER_HOST', env: {} };
  if (!existsSync('/usr/sbin/dockerd') && !existsSync('/usr/bin/dockerd')) {
    return { note: 'not installed (Debian: docker.io)', env: {} };
  }
  const { privateDockerHost, startPrivateDockerd, stopPrivateDockerd } = await importBuilt(
    root,
    'transports/engines/docker/host/private-dockerd.js',
  );
  const { removeNetworks } = await importBuilt(root, 'test/support/engine/remove-networks.js');
  const cache = process.env.TROUPE_TEST_CACHE;
  const end = async (dataDir) => {
    const running = await privateDockerHost(dataDir);
    if (running) await removeNetworks(running).catch((error) => process.stderr.write(`networks stay: ${error}\n`));
    await stopPrivateDockerd({ dataDir, log: silent, graceSeconds: 0 });
    if (!cache) await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
  };
  // dockerd outlives a run that was killed. What cannot be tidied up of that one does not hold up this one.
  for (const dataDir of await abandonedFolders()) {
    await end(dataDir).catch((error) => process.stderr.write(`cannot remove ${dataDir}: ${error}\n`));
  }
  const dataDir = cache || (await mkdtemp(FOLDER_PREFIX));
  await mkdir(dataDir, { recursive: true });
  await writeFile(join(dataDir, OWNER_FILE), String(process.pid));
  const stop = () => end(dataDir);
  try {
    const { host } = await startPrivateDockerd({ dataDir, log: silent });
    return { note: `a private dockerd in ${dataDir}`, env: { DOCKER_HOST: host }, stop };
  } catch (error) {
    await stop().catch((left) => process.stderr.write(`cannot remove ${dataDir}: ${left}\n`));
    throw error;
  }
}

/** Folders of runs that are gone. */
async function abandonedFolders() {
  const names = (await readdir(dirname(FOLDER_PREFIX))).filter((name) => name.startsWith(basename(FOLDER_PREFIX)));
  const folders = names.map((name) => join(dirname(FOLDER_PREFIX), name));
  return folders.filter((folder) => {
    const owner = join(folder, OWNER_FILE);
    return existsSync(owner) && !existsSync(`/proc/${readFileSync(owner, 'utf8')}`);
  });
}

async function importBuilt(root, path) {
  const file = join(root, 'dist', path);
  if (!existsSync(file)) throw new Error(`dist/${path} is not there`);
  return import(pathToFileURL(file).href);
}
