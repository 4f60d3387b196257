/** Deployments under bad conditions, while the page of before is asked for all the time through the gateway. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { line } from '../client/line.ts';
import { deleteAll, logIn, request, startPlatform, troupe } from '../cluster/platform.ts';
import { type LoadOutcome, SteadyLoad } from '../cluster/steady-load.ts';
import { testDatabase } from '../database/database.ts';
import { appImage } from '../engine/app-image.ts';
import { pause } from '../pause.ts';
import { randoms } from '../power-cut/cuts.ts';
import { publicKey } from '../ssh/public-key.ts';
import { type Cleanup, tempDir, tidily } from '../temp.ts';
import { until } from '../until.ts';

const PASSWORD = 'the admin of this trial';
/** A small image that is there, and one of the catalog, whose builds are run as those of people are. */
const SMALL = { image: undefined, serve: 'exec busybox httpd -f -p $PORT -h .' };
const PYTHON = { image: 'python', serve: 'exec python3 -m http.server $PORT' };
/** Its memory doubles until there is none. */
const HUNGRY = `python3 -c 'a = "x"
while True: a += a'`;
const MEMORY_MB = 256;
/** How long the line is cut, ms. */
const CUT_MS = 1500;

/** What came of a trial: `problems` is empty when all was well. */
export interface DeployTrial extends LoadOutcome {
  /** How often the page of before was there after a cut, and how often the new one. */
  readonly undone: number;
  readonly done: number;
  readonly problems: readonly string[];
}

/** A container with a page, which is deployed to over a line that can be cut. */
async function openPage(t: Cleanup, { image, serve }: typeof SMALL | typeof PYTHON) {
  const data = await tempDir(t);
  const database = await testDatabase();
  t.after(() => database.close());
  const env = { DATABASE_URL: database.url, ADMIN_PASSWORD: PASSWORD, DEFAULT_IMAGE: await appImage() };
  const platform = await startPlatform({ data, env });
  const { urls, domain } = platform.ready;
  const token = await logIn(urls.auth, 'admin', PASSWORD);
  t.after(async () => {
    await deleteAll(urls.compute, token);
    await platform.stop();
  });
  const ask = async (method: string, path: string, body?: unknown) => {
    const { status, json } = await request(method, `${urls.compute}/compute${path}`, { token, body });
    assert.equal(status, 200, JSON.stringify(json));
    return json;
  };
  const key = await ask('POST', '/ssh-keys', { name: 'k', public_key: publicKey() });
  const made = await ask('POST', '/containers', {
    ...{ name: 'page', ssh_key_ids: [key.id], memory_mb: MEMORY_MB, ...(image === undefined ? {} : { image }) },
  });
  const id = z.string().parse(made.id);
  await until(async () => (await ask('GET', `/containers/${id}`)).status === 'running', {
    ...{ what: 'it runs', timeoutMs: 600_000, everyMs: 500 },
  });
  await ask('POST', `/containers/${id}/ingress`, { port: 80, target_port: 8080 });
  const load = new SteadyLoad(Number(new URL(urls.http).port), `${id}.compute.${domain}`);
  const gatewayPort = Number(new URL(urls.https).port);
  const wire = await line(t, gatewayPort);
  const client = {
    XDG_CONFIG_HOME: join(data, 'client'),
    TROUPE_URL: `https://${domain}:${wire.port}`,
    TROUPE_TOKEN: token,
    TROUPE_CA: join(data, 'ca.pem'),
    NO_COLOR: '1',
  };
  const folder = join(data, 'page');
  /** Deploys a version; with a build that is not to end well as `build`. */
  const deploy = async (version: number, build = '') => {
    await mkdir(folder, { recursive: true });
    for (const name of ['index.html', 'second.html']) await writeFile(join(folder, name), `${version}`);
    const start = ['--name', 'page', '--start', serve, '--build', build];
    return troupe(['deploy', folder, ...start, '--grace', '20'], { env: client });
  };
  const pages = () => Promise.all([load.ask('GET', '/index.html'), load.ask('GET', '/second.html')]);
  /** The version that is there, whole, once nobody switches any more. */
  const version = async () => {
    const [one, two] = await until(
      async () => {
        const found = await pages();
        await pause(300, 'watch');
        return String(await pages()) === String(found) && found[0] === found[1] ? found : undefined;
      },
      { what: 'one version is there, whole', timeoutMs: 60_000 },
    );
    assert.equal(one, two);
    return Number(one);
  };
  return { load, wire, gatewayPort, deploy, version };
}

/** A build that takes all memory of its container, under `perSecond` requests for the page of before. */
export function tryHungryBuilds(builds: number, perSecond: number): Promise<DeployTrial> {
  return tidily(async (t) => {
    const { load, deploy, version } = await openPage(t, PYTHON);
    const problems: string[] = [];
    assert.equal((await deploy(1)).code, 0);
    load.begin(perSecond, '/index.html');
    try {
      for (let build = 1; build <= builds; build++) {
        const { code, stderr } = await deploy(2, HUNGRY);
        if (code !== 1 || !/no memory left/.test(stderr)) problems.push(`exit code ${code}: ${stderr.slice(-300)}`);
        if ((await version()) !== 1) problems.push('the page is another one');
      }
    } finally {
      await load.end();
    }
    return { ...load.outcome, undone: builds, done: 0, problems };
  });
}

/** The line of `troupe deploy` is cut at `points` moments, and comes back; then the same is deployed again. */
export function tryCutLines(points: number, perSecond: number, seed: number): Promise<DeployTrial> {
  const random = randoms(seed);
  return tidily(async (t) => {
    const { load, wire, gatewayPort, deploy, version } = await openPage(t, SMALL);
    const problems: string[] = [];
    let [done, undone] = [0, 0];
    assert.equal((await deploy(1)).code, 0);
    const begun = performance.now();
    assert.equal((await deploy(2)).code, 0);
    const lengthMs = performance.now() - begun;
    load.begin(perSecond, '/index.html');
    try {
      for (let point = 0; point < points; point++) {
        const before = await version();
        const ended = deploy(before + 1);
        await pause(((point + random()) / points) * lengthMs, 'fault');
        wire.cut();
        await pause(CUT_MS, 'fault');
        wire.mend(gatewayPort);
        const { code, stderr } = await ended;
        const now = await version();
        if (now === before + 1) done += 1;
        else undone += 1;
        const said = `point ${point}: ${before} became ${now}, exit code ${code}: ${stderr.slice(-300)}`;
        if (now !== before && now !== before + 1) problems.push(said);
        if (code === 0 && now === before) problems.push(said);
        const again = await deploy(before + 1);
        if (again.code !== 0 || (await version()) !== before + 1)
          problems.push(`point ${point}, again: exit code ${again.code}: ${again.stderr.slice(-300)}`);
      }
    } finally {
      await load.end();
    }
    return { ...load.outcome, done, undone, problems };
  });
}
