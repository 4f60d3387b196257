/**
 * Chaos against a whole platform: clients do random things while its Docker Engine is killed and containers are changed behind its
 * back. In the end rows, API and Docker must agree. The same seed makes the same choices; what meets what in time differs.
 */

import assert from 'node:assert/strict';
import { z } from 'zod';
import { withTimeout } from '../../../lib/waiting.ts';
import { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { websocket } from '../clients/websocket.ts';
import { logIn, type Reply, request, startPlatform, troupe } from '../cluster/platform.ts';
import { testDatabase } from '../database/database.ts';
import { buildTinyImage } from '../engine/tiny-image.ts';
import { pause } from '../pause.ts';
import { publicKey } from '../ssh/public-key.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { disagreements, dockerContainers, type Seen } from './agreement.ts';
import { trialEngine } from './docker.ts';

/** How much of it. */
export interface ChaosOptions {
  readonly seed: number;
  /** Operations of all clients together. */
  readonly operations: number;
  /** Longest pause of a client between two of its operations, ms. */
  readonly pauseMs: number;
  /** How often dockerd gets SIGKILL and is started again. */
  readonly kills: number;
  /** How often a container is changed behind the platform's back. */
  readonly meddlings: number;
  /** How long everything may take to agree in the end, ms. */
  readonly settleMs: number;
  /** Hears where things stand while they do not agree. */
  readonly onProgress?: (line: string) => void;
}

/** What happened. */
export interface ChaosReport {
  /** Answers by operation and HTTP status: `start 409`. */
  readonly answers: Readonly<Record<string, number>>;
  readonly meddlings: Readonly<Record<string, number>>;
  readonly kills: number;
  /** How often dockerd ended by itself besides, and was started again. */
  readonly crashes: number;
  /** Of the operations, of the agreement after them, ms. */
  readonly tookMs: number;
  readonly settledMs: number;
  /** Statuses in the end, by status. */
  readonly left: Readonly<Record<string, number>>;
}

/** Whatever is the matter, a request is answered within this; and each thing is tidied within that. */
const ANSWER_MS = 30_000;
const TIDY_MS = 60_000;
const USERS = ['ann', 'bob', 'cid'];
const CLIENTS_PER_USER = 2;
const PASSWORD = 'a password for chaos';

/** Numbers in 0..1 that follow from a seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const listSchema = z.array(z.object({ id: z.string(), status: z.string(), https_enabled: z.boolean() }));
type Listed = z.output<typeof listSchema>;

/** Runs it. Needs root and dockerd. Rejects with what does not agree, and the seed. Leaves nothing behind. */
export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const ends: (() => Promise<void> | void)[] = [];
  try {
    return await chaos({ after: (end) => void ends.unshift(end) }, options);
  } finally {
    // What cannot be tidied, or not in time, must not hide what was found.
    for (const end of ends) {
      const tidied = Promise.resolve()
        .then(end)
        .then(() => undefined);
      const problem = await withTimeout(tidied, TIDY_MS, () => `it took more than ${TIDY_MS} ms`).catch(String);
      if (problem !== undefined) process.stderr.write(`not tidied: ${problem}\n`);
    }
  }
}

async function chaos(t: Cleanup, options: ChaosOptions): Promise<ChaosReport> {
  const random = seeded(options.seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] ?? assert.fail('nothing to pick');
  const engine = await trialEngine(t);
  const docker = new DockerClient(engine.host);
  t.after(() => docker.close());
  const image = await buildTinyImage();
  await image.build(docker, () => {}, new AbortController().signal);
  const database = await testDatabase();
  t.after(() => database.close());
  const env = {
    ...{
      DATABASE_URL: database.url,
      DOCKER_HOST: engine.host,
      DEFAULT_IMAGE: image.reference,
      ADMIN_PASSWORD: PASSWORD,
    },
    LOG_LEVEL: 'info',
  };
  const platform = await startPlatform({ data: await tempDir(t), env });
  t.after(async () => {
    await platform.stop();
  });
  const { auth, compute } = platform.ready.urls;
  const users = await Promise.all(
    USERS.map(async (name) => {
      const added = await troupe(['users', 'add', name], { env, input: `${PASSWORD}\n` });
      assert.equal(added.code, 0, added.stderr);
      const token = await logIn(auth, name, PASSWORD);
      const key = await request('POST', `${compute}/compute/ssh-keys`, {
        token,
        body: { name: 'k', public_key: publicKey() },
      });
      const pushed = new Map<string, string>();
      const socket = await websocket(t, `${compute.replace('http', 'ws')}/compute/ws?token=${token}`);
      socket.socket.on('message', (frame) => {
        const event = pushedSchema.safeParse(JSON.parse(String(frame)));
        if (event.success) pushed.set(event.data.data.container_id, event.data.data.status);
      });
      return { token, key: key.json.id, pushed };
    }),
  );
  type User = (typeof users)[number];
  const answers: Record<string, number> = {};
  const meddled: Record<string, number> = {};
  const call = (user: User, method: string, path: string, body?: unknown): Promise<Reply> =>
    request(method, `${compute}/compute/containers${path}`, {
      token: user.token,
      timeoutMs: ANSWER_MS,
      ...(body === undefined ? {} : { body }),
    });
  const listOf = async (user: User): Promise<Listed> => {
    const { status, json } = await call(user, 'GET', '');
    assert.equal(status, 200, JSON.stringify(json));
    return listSchema.parse(json.containers);
  };

  /** One thing that a client does. */
  const operations: Record<string, (user: User, id: string) => Promise<Reply>> = {
    create: (user) =>
      call(user, 'POST', '', { name: 'x', ssh_key_ids: [user.key], memory_mb: 128, ssh_enabled: random() < 0.5 }),
    start: (user, id) => call(user, 'POST', `/${id}/start`),
    stop: (user, id) => call(user, 'POST', `/${id}/stop`),
    delete: (user, id) => call(user, 'DELETE', `/${id}`),
    ssh: (user, id) => call(user, 'PUT', `/${id}/ssh`, { ssh_enabled: random() < 0.5 }),
    mounts: (user, id) =>
      call(user, 'PUT', `/${id}/mounts`, { mount_paths: pick([['/root'], ['/root', '/data'], ['/data', '/srv']]) }),
    ingress: (user, id) => call(user, 'POST', `/${id}/ingress`, { port: pick([80, 443, 8000]) }),
    closed: (user, id) => call(user, 'DELETE', `/${id}/ingress/${pick([80, 443, 8000])}`),
    policy: (user, id) => call(user, 'PUT', `/${id}/pull-policy`, { pull_policy: 'IfNotPresent' }),
  };
  const weights = [
    'create',
    'create',
    'create',
    'start',
    'start',
    'start',
    'stop',
    'stop',
    'delete',
    ...Object.keys(operations),
  ];

  /** Once something went wrong nobody goes on. */
  let broken = false;
  const whole = (part: Promise<void>): Promise<void> =>
    part.catch((error: unknown) => {
      broken = true;
      throw error;
    });
  let left = options.operations;
  async function client(user: User): Promise<void> {
    while (!broken && left-- > 0) {
      const containers = await listOf(user);
      const name = containers.length === 0 ? 'create' : pick(weights);
      const { status, json } =
        (await operations[name]?.(user, containers.length === 0 ? '' : pick(containers).id)) ?? assert.fail(name);
      answers[`${name} ${status}`] = (answers[`${name} ${status}`] ?? 0) + 1;
      assert.ok([200, 403, 404, 409, 429, 503].includes(status), `${name}: ${status} ${JSON.stringify(json)}`);
      await pause(random() * options.pauseMs, 'pace');
    }
  }

  const meddlings: Record<string, (id: string) => Promise<unknown>> = {
    remove: (id) => docker.call('DELETE', `/containers/${id}`, { query: { force: true } }),
    kill: (id) => docker.call('POST', `/containers/${id}/kill`),
    stop: (id) => docker.call('POST', `/containers/${id}/stop`, { query: { t: 0 } }),
    pause: (id) => docker.call('POST', `/containers/${id}/pause`),
    start: (id) => docker.call('POST', `/containers/${id}/start`),
    rename: (id) => docker.call('POST', `/containers/${id}/rename`, { query: { name: `odd-${id.slice(0, 8)}` } }),
    limits: (id) =>
      docker.call('POST', `/containers/${id}/update`, { body: { Memory: 192 * 2 ** 20, MemorySwap: 192 * 2 ** 20 } }),
  };
  /** Ours do and do not matter: what Docker refuses was not possible at that moment. */
  async function meddle(): Promise<void> {
    const name = pick(Object.keys(meddlings));
    try {
      const found = await dockerContainers(docker);
      if (found.length === 0) return;
      await meddlings[name]?.(pick(found).dockerId);
      meddled[name] = (meddled[name] ?? 0) + 1;
    } catch {
      meddled[`${name} refused`] = (meddled[`${name} refused`] ?? 0) + 1;
    }
  }

  let working = true;
  let kills = 0;
  async function trouble(): Promise<void> {
    const deeds: ('kill' | 'meddle')[] = [
      ...Array<'kill'>(options.kills).fill('kill'),
      ...Array<'meddle'>(options.meddlings).fill('meddle'),
    ];
    while (deeds.length > 0 && !broken) {
      const [deed] = deeds.splice(Math.floor(random() * deeds.length), 1);
      // Spread over the operations, as far as these are.
      const share = 1 - deeds.length / (options.kills + options.meddlings);
      await until(() => !working || broken || left <= options.operations * (1 - share), {
        timeoutMs: 600_000,
        everyMs: 50,
      });
      // Those that are left when the clients are done meet containers too.
      if (!working) await pause(200, 'fault');
      if (deed === 'meddle') await meddle();
      else {
        await engine.killAndStart(random() * 2000);
        kills++;
      }
    }
  }

  const began = performance.now();
  try {
    const clients = users.flatMap((user) => Array.from({ length: CLIENTS_PER_USER }, () => whole(client(user))));
    const done = Promise.allSettled(clients).then((ended) => {
      working = false;
      return ended;
    });
    const troubled = whole(trouble());
    const [ended] = await Promise.all([done, Promise.allSettled([troubled])]);
    await troubled;
    for (const one of ended) if (one.status === 'rejected') throw one.reason;
    const tookMs = performance.now() - began;
    let problems: string[] = [];
    let crashes = 0;
    let told = performance.now();
    const see = async (): Promise<Seen> => ({
      containers: (await Promise.all(users.map(listOf))).flat(),
      pushed: new Map(users.flatMap(({ pushed }) => [...pushed])),
      db: database.db,
      docker,
      tasks: engine.tasks(),
    });
    const agreeing = async () => {
      try {
        crashes = await engine.keep();
        problems = await disagreements(await see());
      } catch (error) {
        // Nothing can be said of what does not answer.
        problems = [`it cannot be looked at: ${error instanceof Error ? error.message : error}`];
      }
      if (problems.length > 0 && performance.now() - told > 5000) {
        told = performance.now();
        options.onProgress?.(`after ${Math.round((told - began - tookMs) / 1000)} s: ${problems.join('; ')}`);
      }
      return problems.length === 0;
    };
    await until(agreeing, { timeoutMs: options.settleMs, everyMs: 200 }).catch(() => assert.fail(problems.join('\n')));
    const settledMs = performance.now() - began - tookMs;
    // It stays so: nothing goes on making and breaking.
    await pause(6000, 'watch');
    assert.ok(await agreeing(), `it did not stay so: ${problems.join('\n')}`);
    const statuses: Record<string, number> = {};
    for (const { status } of (await see()).containers) statuses[status] = (statuses[status] ?? 0) + 1;
    await tidy();
    return { answers, meddlings: meddled, kills, crashes, tookMs, settledMs, left: statuses };
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new Error(`chaos with seed ${options.seed}: ${said}\n\n${standing(said)}`, { cause: error });
  }

  /** What platform and dockerd said last of the containers that are spoken of, or of anything. */
  function standing(problem: string): string {
    const ids = problem.match(/\b[a-z][a-z0-9]{11}\b/g) ?? [];
    const lines = platform.log().split('\n');
    const about = ids.length === 0 ? lines : lines.filter((line) => ids.some((id) => line.includes(id)));
    const shown = about.slice(-40).map((line) => line.replace(/\\n.*?(?=",)/g, '').slice(0, 500));
    return `platform:\n${shown.join('\n')}\n\ndockerd ${engine.lastLines()}`;
  }

  /** All is deleted in the end, and nothing is left, not even a volume or a network. */
  async function tidy(): Promise<void> {
    for (const user of users) {
      for (const { id } of await listOf(user)) assert.equal((await call(user, 'DELETE', `/${id}`)).status, 200);
    }
    let still: unknown = [];
    const volumes = z.object({ Volumes: z.array(z.object({ Name: z.string() })).nullable() });
    const nothing = async () => {
      const named = (await docker.json('GET', '/volumes', volumes)).Volumes ?? [];
      still = [...(await dockerContainers(docker)), ...named, ...engine.tasks()];
      return Array.isArray(still) && still.length === 0;
    };
    await until(nothing, { timeoutMs: options.settleMs, everyMs: 200 }).catch(() =>
      assert.fail(`left in Docker: ${JSON.stringify(still)}`),
    );
    const networks = z.array(z.object({ Name: z.string() }));
    for (const { Name } of await docker.json('GET', '/networks', networks)) {
      // Its bridge would outlive its dockerd.
      if (Name.startsWith('troupe-')) await docker.call('DELETE', `/networks/${Name}`).catch(() => {});
    }
  }
}

const pushedSchema = z.object({
  type: z.literal('container_status'),
  data: z.object({ container_id: z.string(), status: z.string() }),
});
