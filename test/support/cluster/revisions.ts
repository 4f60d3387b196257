/** A container that serves requests while its image is changed again and again. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, realpath } from 'node:fs/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { type TarEntry, tar } from '../../../lib/tar.ts';
import type { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { importImage } from '../../../transports/engines/docker/image/base-image.ts';
import { testDatabase } from '../database/database.ts';
import { docker } from '../engine/docker-client.ts';
import { publicKey } from '../ssh/public-key.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform } from './platform.ts';
import { type LoadOutcome, SteadyLoad } from './steady-load.ts';

const run = promisify(execFile);
const PASSWORD = 'the admin of this trial';
/** Nobody answers there: what is on the machine is not pulled. */
const REGISTRY = '127.0.0.1:1';
/** How many were begun: images of each have names of their own, and are removed with it. */
let trials = 0;

/**
 * Answers with its version, from some time after its start on; ends what it had begun when it is told to end. What is
 * posted is a line of a file, which it answers at /posts. With ASK it asks another all the time, each time by its name
 * and over a new connection, and answers at /asked what came of it. Over a WebSocket it says its version all the time.
 */
const PROGRAM = `
const { createHash } = require('node:crypto');
const { appendFileSync, readFileSync } = require('node:fs');
const { createServer, get } = require('node:http');
const asked = { requests: 0, failures: [], versions: [] };
function ask() {
  let text = '';
  const over = (failure) => {
    asked.requests += 1;
    if (failure !== undefined) asked.failures.push([failure, ...(failure.errors ?? [])].join(', '));
    else if (!asked.versions.includes(text)) asked.versions.push(text);
    setTimeout(ask, 5);
  };
  get(process.env.ASK, { agent: false, timeout: 10000 }, (response) => {
    response.on('data', (chunk) => (text += chunk)).on('end', () => over()).on('error', over);
  }).on('error', over).on('timeout', function () { this.destroy(new Error('no answer within 10 s')); });
}
if (process.env.ASK !== undefined) ask();
const server = createServer((request, response) => {
  let text = '';
  request.on('data', (chunk) => (text += chunk));
  request.on('end', () => {
    if (request.url === '/asked') return response.end(JSON.stringify(asked));
    if (request.url === '/posts') return response.end(readFileSync('/data/posts'));
    if (text !== '') appendFileSync('/data/posts', text + String.fromCharCode(10));
    setTimeout(() => response.end(process.env.VERSION), 5);
  });
});
const line = String.fromCharCode(13, 10);
server.on('upgrade', ({ headers }, socket) => {
  const asked = headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = createHash('sha1').update(asked).digest('base64');
  const fields = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Accept: ' + accept];
  socket.write(['HTTP/1.1 101 Switching Protocols', ...fields, '', ''].join(line));
  const said = Buffer.from([0x81, 1, process.env.VERSION.charCodeAt(0)]);
  const saying = setInterval(() => socket.write(said), 20);
  socket.on('data', ([first]) => (first & 15) === 8 && socket.end()).on('error', () => {});
  socket.on('close', () => clearInterval(saying));
});
setTimeout(() => server.listen(8080), 700);
process.on('SIGTERM', () => server.close(() => process.exit(0)));
`;

/** This machine's Node.js and the program, as an image. */
async function nodeImage(version: string): Promise<Buffer> {
  const node = await realpath(process.execPath);
  const { stdout } = await run('ldd', [node]);
  const files = [node, ...[...stdout.matchAll(/(\/\S+\.so\S*)/g)].map(([, path = '']) => path)];
  const folders = new Set<string>(['tmp', 'etc', 'data']);
  for (const file of files)
    for (let at = file.lastIndexOf('/'); at > 0; at = file.lastIndexOf('/', at - 1)) folders.add(file.slice(1, at));
  const entries: TarEntry[] = [...folders].sort().map((path) => ({ kind: 'directory', path, mode: 0o755 }));
  for (const file of files)
    entries.push({ kind: 'file', path: file.slice(1), mode: 0o755, data: await readFile(file) });
  entries.push({ kind: 'file', path: 'app.js', mode: 0o644, data: Buffer.from(PROGRAM) });
  entries.push({ kind: 'file', path: 'etc/version', mode: 0o644, data: Buffer.from(version) });
  return tar(entries);
}

/** What came of a trial. */
export interface RevisionsOutcome extends LoadOutcome {
  /** How long each change took, ms. */
  readonly changesMs: readonly number[];
  /** What was posted and came to the program twice, or was answered and did not come; with a mount path only. */
  readonly wrongPosts: readonly string[];
  /** What another container met that asked for it by its alias; with an alias only. */
  readonly inside?: z.output<typeof askedView>;
  /** With what a WebSocket was closed that was opened before the last change, and what answered it then. */
  readonly socket?: { readonly code: number; readonly before: string; readonly after: string };
  /** Whether a WebSocket of another container lived through all changes; with a neighbour only. */
  readonly neighbourLives?: boolean;
  /** How many containers of it there are at the end. */
  readonly left: number;
}

/** Where the containers of a trial run. */
export interface RevisionsWorld {
  /** Has the images, and runs them. */
  readonly client: DockerClient;
  /** The host of the registry whose images they are. */
  readonly registry: string;
  /** Brings an image that `client` has to where it is had from; absent where that is the same. */
  readonly push?: (image: string) => Promise<void>;
  /** More of the platform's environment. */
  readonly env: Readonly<Record<string, string>>;
  /** All of it ends with the test: nothing has to be deleted. */
  readonly endsByItself?: true;
  /** How many containers there are of one, whatever they are. */
  left(id: string): Promise<number>;
}

/** The Docker Engine of the tests. */
export const onDocker: RevisionsWorld = {
  get client() {
    return docker();
  },
  registry: REGISTRY,
  env: {},
  left: async (id) => {
    const filters = JSON.stringify({ label: [`troupe.container=${id}`] });
    return (await docker().json('GET', '/containers/json', z.array(z.unknown()), { query: { all: true, filters } }))
      .length;
  },
};

/** What is tried. */
export interface RevisionsTrial {
  /** Default: the Docker Engine of the tests. */
  readonly world?: RevisionsWorld;
  readonly changes: number;
  readonly perSecond: number;
  /** `/data` is where the program writes. */
  readonly mountPaths?: readonly string[];
  /** By which another container of its private network asks for it all the time. */
  readonly alias?: string;
  /** A WebSocket is opened before the last change. */
  readonly hasSocket?: boolean;
  /** Another container has a WebSocket open all the time. */
  readonly hasNeighbour?: boolean;
  /** The end of what ran before is not waited for, which is half a minute later. */
  readonly leavesOthers?: boolean;
}

/** Two images of the program, which are removed with the test, and a third that asks for `alias`. */
export async function revisionImages(t: Cleanup, world: RevisionsWorld, alias?: string): Promise<readonly string[]> {
  trials += 1;
  const images = [0, 1, ...(alias === undefined ? [] : [2])].map(
    (each) => `${world.registry}/admin/revisions-${process.pid}-${trials}:${each}`,
  );
  for (const [each, image] of images.entries()) {
    const settings = [`CMD ["${await realpath(process.execPath)}","/app.js"]`, `ENV VERSION=${each}`];
    // It has no shell, which settings of a container need.
    if (each === 2) settings.push(`ENV ASK=http://${alias}:8080/`);
    await importImage(world.client, image, await nodeImage(String(each)), settings);
    await world.push?.(image);
    t.after(async () => {
      await world.client.call('DELETE', `/images/${image}`, { query: { force: true } });
    });
  }
  return images;
}

/** Changes the image so many times under so many requests a second, every tenth a POST. */
export async function tryRevisions(
  t: Cleanup,
  {
    changes,
    perSecond,
    mountPaths = [],
    alias,
    hasSocket = false,
    hasNeighbour = false,
    leavesOthers = false,
    world = onDocker,
  }: RevisionsTrial,
): Promise<RevisionsOutcome> {
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const inTurn: Cleanup = { after: (end) => void ends.unshift(end) };
  const data = await tempDir(inTurn);
  const database = await testDatabase();
  inTurn.after(() => database.close());
  const images = await revisionImages(inTurn, world, alias);
  const env = { DATABASE_URL: database.url, ADMIN_PASSWORD: PASSWORD, REGISTRY_HOST: world.registry };
  const platform = await startPlatform({ data, env: { ...env, ...world.env } });
  const token = await logIn(platform.ready.urls.auth, 'admin', PASSWORD);
  inTurn.after(async () => {
    if (world.endsByItself !== true) await deleteAll(platform.ready.urls.compute, token);
    await platform.stop();
  });
  const api = callsOf(platform, token);
  const key = idOf(await api('POST', '/compute/ssh-keys', { name: 'k', public_key: publicKey() }));
  const made = await api('POST', '/compute/containers?wait=running', {
    ...{ name: 'revisions', ssh_key_ids: [Number(key)], image: images[0] },
    ...(mountPaths.length === 0 ? { stateless: true } : { mount_paths: mountPaths }),
    ...(alias === undefined ? {} : { network: 'trial', alias }),
  });
  const id = idOf(made);
  const { changes_without_pause } = containerView.parse(made);
  assert.equal(changes_without_pause, mountPaths.length === 0);
  const served = async (container: string): Promise<SteadyLoad> => {
    await api('POST', `/compute/containers/${container}/ingress`, { port: 80, target_port: 8080 });
    return new SteadyLoad(Number(new URL(platform.ready.urls.http).port), `${container}.compute.troupe.localhost`);
  };
  const load = await served(id);
  await until(async () => (await load.ask('GET').catch(() => '')) === '0', { what: 'it is served', timeoutMs: 60_000 });
  const asker = alias === undefined ? undefined : await served(await begunAsker(api, images[2], key));
  const neighbour = hasNeighbour
    ? await (await served(await begunNeighbour(api, images[0], key))).keepSocket()
    : undefined;
  load.begin(perSecond);
  let socket: ReturnType<SteadyLoad['openSocket']> | undefined;
  const changesMs: number[] = [];
  try {
    for (let change = 1; change <= changes; change++) {
      if (hasSocket && change === changes) socket = load.openSocket();
      const begin = performance.now();
      await api('PATCH', `/compute/containers/${id}`, { image: images[change % 2] });
      await until(
        async () => {
          const view = containerView.parse(await api('GET', `/compute/containers/${id}`));
          return view.next_image === undefined && view.status === 'running' && view.image === images[change % 2];
        },
        { what: `change ${change} is over`, timeoutMs: 60_000 },
      );
      changesMs.push(Math.round(performance.now() - begin));
      await until(() => load.last === String(change % 2), { what: 'the new one answers', timeoutMs: 60_000 });
    }
  } finally {
    await load.end();
  }
  if (!leavesOthers)
    await until(async () => (await world.left(id)) === 1, { what: 'the others are ended', timeoutMs: 90_000 });
  const inside = asker && askedView.parse(JSON.parse(await asker.ask('GET', '/asked')));
  await asker?.end();
  const wrongPosts = mountPaths.length === 0 ? [] : load.wrongPosts(await load.ask('GET', '/posts'));
  const outcome = { ...load.outcome, changesMs, wrongPosts, left: await world.left(id) };
  const closed = await socket;
  const after = closed && (await load.openSocket(true)).said;
  const neighbourLives = await neighbour?.end();
  return {
    ...outcome,
    ...(neighbourLives === undefined ? {} : { neighbourLives }),
    ...(inside === undefined ? {} : { inside }),
    ...(closed === undefined ? {} : { socket: { code: closed.code, before: closed.said, after: after ?? '' } }),
  };
}

const askedView = z.object({ requests: z.number(), failures: z.array(z.string()), versions: z.array(z.string()) });

/** The id of another container of the private network, which asks for the first. */
async function begunAsker(api: ReturnType<typeof callsOf>, image: string | undefined, key: string): Promise<string> {
  return idOf(
    await api('POST', '/compute/containers?wait=running', {
      ...{ name: 'asker', ssh_key_ids: [Number(key)], image, stateless: true, network: 'trial' },
    }),
  );
}

/** The id of another container, which has nothing to do with the first. */
async function begunNeighbour(
  api: ReturnType<typeof callsOf>,
  image: string | undefined,
  key: string,
): Promise<string> {
  const body = { name: 'neighbour', ssh_key_ids: [Number(key)], image, stateless: true };
  return idOf(await api('POST', '/compute/containers?wait=running', body));
}

const containerView = z.object({
  ...{ status: z.string(), image: z.string(), next_image: z.string().optional() },
  changes_without_pause: z.boolean().optional(),
});

function callsOf(platform: RunningPlatform, token: string) {
  return async (method: string, path: string, body?: object): Promise<unknown> => {
    const given = { token, ...(body === undefined ? {} : { body }) };
    const { status, json } = await request(method, `${platform.ready.urls.compute}${path}`, given);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(json)}`);
    return json;
  };
}

const idOf = (json: unknown): string => String(z.object({ id: z.union([z.string(), z.number()]) }).parse(json).id);
