/** Pushes and forced collections at the same time: the real docker-registry behind the real gateway. */
import { randomBytes } from 'node:crypto';
import { Registry } from 'prom-client';
import type { RegistryKey } from '../../../actors/auth/registry/registry-key.ts';
import { registryTokens } from '../../../actors/auth/registry/registry-tokens.ts';
import { RegistryBarrier } from '../../../cmd/node/registry/barrier.ts';
import { collectGarbage, type Pinned } from '../../../cmd/node/registry/collect.ts';
import {
  type RegistryFiles,
  registryFiles,
  registryKeyOf,
  writeRegistryFiles,
} from '../../../cmd/node/registry/files.ts';
import { openFront } from '../../../cmd/node/registry/front/front.ts';
import { pushTokens } from '../../../cmd/node/registry/may-push.ts';
import { endRegistry, startRegistry } from '../../../cmd/node/registry/process.ts';
import { RegistryQuota } from '../../../cmd/node/registry/quota.ts';
import { folderStore } from '../../../cmd/node/registry/store.ts';
import { ownKeys } from '../../../cmd/node/registry/token-keys.ts';
import { registryRoute } from '../../../proto/service-paths.ts';
import { testDatabase } from '../database/database.ts';
import { startGateway } from '../gateway/gateway.ts';
import { certificates } from '../gateway/listeners.ts';
import { silentLog } from '../log.ts';
import { pause } from '../pause.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { portBefore } from './listening-front.ts';
import { digestOf, imageOfMany, plainImage, RefusedPush, RegistryClient, type TrialImage } from './registry-client.ts';

const HOST = 'registry.cloud.test';
const ISSUER = 'troupe';
const PATIENCE_MS = 10_000;

/** How much its users may have; without `bytes`, what they want. */
interface TrialQuota {
  /** Whether it is behind the registry front of a cluster and two gateways, which have no barrier. Without `bytes`. */
  readonly isFronted?: boolean;
  readonly bytes?: number;
  readonly pinned?: Pinned;
}

const NO_PINS: Pinned = async () => new Set();

/** A registry behind a gateway, and its barrier. */
export async function openTrialRegistry(t: Cleanup, repositories: readonly string[], quota: TrialQuota = {}) {
  const files = registryFiles(await tempDir(t));
  const { key, secret } = await registryKeyOf(files);
  const port = await freePort();
  writeRegistryFiles(files, key, { port, host: HOST, issuer: ISSUER, secret });
  await startRegistry(files, port);
  t.after(async () => void (await endRegistry(files)));
  const { bytes, pinned = NO_PINS, isFronted = false } = quota;
  const fronted = isFronted ? await openTrialFront(t, { files, key, port, pinned }) : undefined;
  const barrier = fronted?.barrier ?? new RegistryBarrier({ host: '127.0.0.1', port });
  const mayPush = pushTokens(ownKeys(key), HOST, ISSUER);
  const limit = async (owner: string) => (owner === 'library' ? undefined : bytes);
  const limits = new RegistryQuota({ store: folderStore(files), barrier, limit, mayPush, pinned, log: silentLog });
  if (bytes !== undefined) barrier.admit = limits.admit;
  const database = await testDatabase();
  t.after(() => database.close());
  const open = () =>
    startGateway(t, {
      db: database.db,
      engine: {
        list: async () => [],
        inspect: async () => undefined,
        dial: () => Promise.reject(new Error('no engine')),
      },
      ownRoutes: [registryRoute({ host: HOST, address: `127.0.0.1:${fronted?.port ?? port}` })],
      barrier: fronted === undefined ? barrier : undefined,
    });
  const gateways = fronted === undefined ? [await open()] : [await open(), await open()];
  const ports = gateways.map((gateway) => gateway.ports.https);
  let clients = 0;
  const issue = registryTokens({ clock: { now: Date.now }, issuer: ISSUER, signer: key, jwtSecret: 'x'.repeat(32) });
  const actions = ['pull', 'push', 'delete'] as const;
  const access = repositories.map((name) => ({ type: 'repository' as const, name, actions: [...actions] }));
  const ca = (await certificates()).authority.cert;
  let given: { readonly until: number; readonly token: Promise<string> } | undefined;
  const token = () => {
    if (given === undefined || given.until < Date.now()) {
      const issued = issue({ subject: 'ann', service: HOST, access }).then((made) => made.token);
      given = { until: Date.now() + 120_000, token: issued };
    }
    return given.token;
  };
  const client = () => {
    clients += 1;
    const made = new RegistryClient({ port: ports[clients % ports.length] ?? 0, host: HOST, ca, token });
    t.after(() => made.close());
    return made;
  };
  /** Takes all that has no name, however young. Undefined: writes went on for too long. */
  const collect = () =>
    barrier.closedFor(PATIENCE_MS, () =>
      collectGarbage(folderStore(files), { now: Date.now() + 60_000, keptMs: 0, pinned }),
    );
  const usage = (owner: string) => limits.usage(owner);
  return { files, barrier, client, collect, usage, port: ports[0] ?? 0, ca, token };
}

/** The front, which collects nothing by itself. */
async function openTrialFront(
  t: Cleanup,
  { files, key, port, pinned }: { files: RegistryFiles; key: RegistryKey; port: number; pinned: Pinned },
) {
  const front = openFront({
    environment: { REGISTRY_USER_MB: 0, ADMIN_USERNAME: 'admin', REGISTRY_ISSUER: ISSUER, METRICS_TOKEN: undefined },
    host: HOST,
    address: { host: '127.0.0.1', port },
    keys: ownKeys(key),
    store: files.store,
    pinned,
    holds: async () => true,
    limitMb: async () => null,
    metrics: new Registry(),
    log: silentLog,
    room: async () => 'enough',
    times: { everyMs: 1000, quietMs: Number.POSITIVE_INFINITY, quietHour: 25, patienceMs: 1, lookMs: 3_600_000 },
  });
  return { barrier: front.barrier, port: await portBefore(t, front) };
}

/** What is tried for how long. */
export interface CollectionTrialOptions {
  readonly pushers: number;
  readonly seconds: number;
  /** From the end of a collection to the next, ms. */
  readonly everyMs: number;
  readonly layerBytes: number;
  /** As in a cluster. */
  readonly isFronted?: boolean;
}

/** What came of it. */
export interface CollectionTrialReport {
  /** Pushes that said success. */
  pushed: number;
  /** Of these, images that were deleted, collected and pushed again. */
  again: number;
  /** Pushes that were refused, by what refused them. All were repeated until they succeeded. */
  readonly refused: Record<string, number>;
  /** Attempts that one push took at most. */
  mostAttempts: number;
  collections: number;
  /** Collections that met writes for too long. */
  givenUp: number;
  freedBytes: number;
  longestCollectionMs: number;
  mostHeld: number;
  reads: number;
  longestReadMs: number;
  /** Parts of one upload that went on for the whole time. */
  slowParts: number;
  /** What must not be: an image that is not whole, a read that failed. */
  readonly wrong: string[];
}

type TrialRegistry = Awaited<ReturnType<typeof openTrialRegistry>>;

/** Runs it. A registry's own failure rejects. */
export async function collectionTrial(t: Cleanup, options: CollectionTrialOptions): Promise<CollectionTrialReport> {
  const names = Array.from({ length: options.pushers }, (_, i) => `ann/app${i}`);
  const { isFronted = false } = options;
  const registry = await openTrialRegistry(t, [...names, 'ann/kept', 'ann/slow'], { isFronted });
  const report: CollectionTrialReport = {
    pushed: 0,
    again: 0,
    refused: {},
    mostAttempts: 0,
    collections: 0,
    givenUp: 0,
    freedBytes: 0,
    longestCollectionMs: 0,
    mostHeld: 0,
    reads: 0,
    longestReadMs: 0,
    slowParts: 0,
    wrong: [],
  };
  const end = performance.now() + options.seconds * 1000;
  const isOver = () => performance.now() >= end;
  // All know these: what one does not need any more another finds, and does not upload.
  const shared = Array.from({ length: 3 * options.pushers }, () => randomBytes(options.layerBytes));
  const pushing = names.map((name, i) => pushOn(registry, { name, i, shared, options, report, isOver }));
  const working = Promise.all([...pushing, pushSlowly(registry, options, report, isOver)]);
  let isDone = false;
  const done = working.finally(() => {
    isDone = true;
  });
  // Nothing is collected after the time: what is under way comes to its end.
  await Promise.all([done, readOn(registry, report, () => isDone), collectOn(registry, options, report, isOver)]);
  return report;
}

async function collectOn(
  { barrier, collect }: TrialRegistry,
  { everyMs }: CollectionTrialOptions,
  report: CollectionTrialReport,
  isOver: () => boolean,
): Promise<void> {
  for (;;) {
    await pause(everyMs, 'pace');
    if (isOver()) return;
    const from = performance.now();
    const collecting = collect();
    const watch = setInterval(() => {
      report.mostHeld = Math.max(report.mostHeld, barrier.held);
    }, 10);
    const collected = await collecting.finally(() => clearInterval(watch));
    if (collected === undefined) report.givenUp += 1;
    else {
      report.collections += 1;
      report.freedBytes += collected.bytes;
      report.longestCollectionMs = Math.max(report.longestCollectionMs, performance.now() - from);
    }
  }
}

async function readOn(registry: TrialRegistry, report: CollectionTrialReport, isDone: () => boolean): Promise<void> {
  const client = registry.client();
  const image = plainImage([randomBytes(100_000)], 'docker');
  await untilPushed(client, 'ann/kept', image, report);
  while (!isDone()) {
    const from = performance.now();
    report.wrong.push(...(await client.wrongIn('ann/kept', image.digest)));
    report.reads += 1;
    report.longestReadMs = Math.max(report.longestReadMs, performance.now() - from);
    await pause(20, 'pace');
  }
}

/** One upload in many parts, over all collections. */
async function pushSlowly(
  registry: TrialRegistry,
  { seconds }: CollectionTrialOptions,
  report: CollectionTrialReport,
  isOver: () => boolean,
): Promise<void> {
  const client = registry.client();
  const parts: Buffer[] = [];
  let location = await client.beginUpload('ann/slow');
  while (!isOver()) {
    const part = randomBytes(10_000);
    location = await client.append(location, part);
    parts.push(part);
    await pause((seconds * 1000) / 40, 'pace');
  }
  report.slowParts = parts.length;
  const layer = Buffer.concat(parts);
  await client.finishUpload(location, digestOf(layer));
  const image = plainImage([layer], 'oci');
  await untilPushed(client, 'ann/slow', image, report);
  report.wrong.push(...(await client.wrongIn('ann/slow', image.digest)));
}

interface Pusher {
  readonly name: string;
  readonly i: number;
  readonly shared: readonly Buffer[];
  readonly options: CollectionTrialOptions;
  readonly report: CollectionTrialReport;
  readonly isOver: () => boolean;
}

async function pushOn(registry: TrialRegistry, { name, i, shared, options, report, isOver }: Pusher): Promise<void> {
  const client = registry.client();
  let image: TrialImage | undefined;
  for (let round = i; !isOver(); round += 1) {
    image = imageOf(round, shared, options.layerBytes);
    await untilPushed(client, name, image, report);
    const wrong = await client.wrongIn(name, image.digest);
    report.wrong.push(...wrong.map((what) => `${name}: ${what}`));
    if (i % 5 !== 0 || round % 4 !== 0) continue;
    // Deleted, collected, and pushed again as it was.
    const { status } = await client.ask('DELETE', `/v2/${name}/manifests/${image.digest}`);
    if (status !== 202) report.wrong.push(`${name}: deleting was answered with ${status}`);
    const seen = report.collections;
    await until(() => isOver() || report.collections > seen, { timeoutMs: 120_000, everyMs: 50 });
    await untilPushed(client, name, image, report);
    report.again += 1;
    const lost = await client.wrongIn(name, image.digest);
    report.wrong.push(...lost.map((what) => `${name}, pushed again: ${what}`));
  }
  // What was pushed last still has its tag.
  if (image === undefined) return;
  const wrong = await client.wrongIn(name, image.digest);
  report.wrong.push(...wrong.map((what) => `${name}, at the end: ${what}`));
}

function imageOf(round: number, shared: readonly Buffer[], bytes: number): TrialImage {
  const form = round % 2 === 0 ? 'docker' : 'oci';
  const base = shared[Math.floor(Math.random() * shared.length)] ?? Buffer.alloc(1);
  const one = plainImage([base, randomBytes(bytes)], form);
  if (round % 5 !== 0) return one;
  return imageOfMany([one, plainImage([base, randomBytes(bytes)], form)], form);
}

/** Pushes until it succeeds, as who is told that it did not. */
async function untilPushed(
  client: RegistryClient,
  name: string,
  image: TrialImage,
  report: CollectionTrialReport,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.push(name, image, 'latest');
      report.pushed += 1;
      report.mostAttempts = Math.max(report.mostAttempts, attempt);
      return;
    } catch (error) {
      if (!(error instanceof RefusedPush) || attempt === 50) throw error;
      const kind = /[A-Z]+(?:_[A-Z]+)+|UNAVAILABLE/.exec(error.message)?.[0] ?? 'other';
      const key = `${error.status} ${kind}`;
      report.refused[key] = (report.refused[key] ?? 0) + 1;
      await pause(20, 'retry');
    }
  }
}
