/**
 * Users do random things with their containers while the API server and etcd are killed and started again. In the end rows and cluster
 * must agree, with each other and with what users were told. The compute service, its database and the cluster are real; pods are said to run by the test.
 */

import assert from 'node:assert/strict';
import { z } from 'zod';
import { deleteContainer, startContainer, stopContainer } from '../../../proto/compute/endpoints.ts';
import type { Caller } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { kubernetesEngine } from '../../../transports/engines/kubernetes/engine.ts';
import { seeded } from '../chaos/chaos.ts';
import { silentLog } from '../engine/docker-under-test.ts';
import { pause } from '../pause.ts';
import { someone } from '../service/calls.ts';
import { openCompute } from '../service/compute.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { startFakeNode } from './fake-node.ts';
import { startGreeter } from './ssh-greeter.ts';

/** How much of it. */
export interface TrialOptions {
  readonly seed: number;
  readonly operations: number;
  /** Of the API server and etcd by turns. */
  readonly kills: number;
  /** How long everything may take to agree in the end, ms. */
  readonly settleMs: number;
  readonly onProgress?: (line: string) => void;
}

/** What happened. */
export interface TrialReport {
  /** By name and outcome: `stop ok`, `start wrong_state`. */
  readonly answers: Readonly<Record<string, number>>;
  readonly kills: number;
  readonly settledMs: number;
  readonly left: Readonly<Record<string, number>>;
}

const named = z.object({
  items: z.array(
    z.object({
      metadata: z.object({
        namespace: z.string().default(''),
        labels: z.record(z.string(), z.string()).default({}),
        deletionTimestamp: z.string().nullish(),
      }),
    }),
  ),
});
const row = z.object({ id: z.string(), desired: z.string(), status: z.string() });

/** Plays it. Rejects with what does not agree, and the seed. */
export async function runTrial(t: Cleanup, options: TrialOptions): Promise<TrialReport> {
  const random = seeded(options.seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] ?? assert.fail('nothing to pick');
  const cluster = await startCluster({ withoutNode: true });
  t.after(() => cluster.stop());
  const greeter = await startGreeter();
  t.after(() => greeter.close());
  const node = startFakeNode(cluster, greeter.address);
  t.after(() => node.close());
  const engine = kubernetesEngine({
    ...{ access: { kubeconfig: cluster.kubeconfig }, installation: 'trial', baseImage: 'x/y:1', log: silentLog },
    watchTimes: { silenceMs: 60_000, firstPauseMs: 100, longestPauseMs: 2000 },
  });
  t.after(() => engine.close());
  const compute = await openCompute(t, { wrapEngine: () => engine, defaultImage: 'x/y:1' });
  const users = Array.from({ length: 4 }, (_, n) => someone(`user${n}`));
  const keys = new Map<Caller, number>();
  for (const user of users) keys.set(user, await compute.key(user));

  const answers: Record<string, number> = {};
  /** What users were told of their containers: by id, what each is to be. */
  const promised = new Map<string, 'running' | 'stopped'>();
  const operate = async (): Promise<void> => {
    const user = pick(users);
    const own = await compute.list(user);
    const name = own.length === 0 ? 'create' : pick(['create', 'create', 'start', 'stop', 'stop', 'delete']);
    const id = own.length === 0 ? '' : pick(own).id;
    let outcome = 'ok';
    try {
      if (name === 'create') {
        const made = await compute.create(user, { ssh_key_ids: [keys.get(user)], memory_mb: 128 });
        promised.set(made, 'running');
      } else if (name === 'start') {
        await compute.on(startContainer, user, id);
        promised.set(id, 'running');
      } else if (name === 'stop') {
        await compute.on(stopContainer, user, id);
        promised.set(id, 'stopped');
      } else {
        await compute.on(deleteContainer, user, id);
        promised.delete(id);
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      outcome = error.code;
      // A cluster that is away keeps no wish from being taken.
      assert.notEqual(outcome, 'unavailable', `${name}: ${error.message}`);
    }
    answers[`${name} ${outcome}`] = (answers[`${name} ${outcome}`] ?? 0) + 1;
  };
  let kills = 0;
  const kill = async (): Promise<void> => {
    const part = kills % 2 === 0 ? cluster.apiServer : cluster.etcd;
    await part.kill();
    await pause(random() * 1500, 'fault');
    part.start();
    await cluster.ready();
    kills += 1;
  };

  let done = 0;
  const killing = (async () => {
    while (kills < options.kills) {
      // Spread over the operations; those that are left meet what is still under way.
      await until(() => done >= (options.operations * kills) / options.kills, { timeoutMs: 600_000, everyMs: 20 });
      await kill();
    }
  })();
  killing.catch(() => undefined);
  for (; done < options.operations; done += 1) {
    await operate();
    await pause(random() * 300, 'pace');
  }
  await killing;

  /** What the platform said last of its failures. */
  const lastLines = (): string =>
    compute.log.lines
      .filter(({ level }) => level === 'warn')
      .slice(-8)
      .map(({ message, fields }) => `${message}: ${'err' in fields ? String(fields.err) : ''}`)
      .join('\n');
  const began = performance.now();
  let problems: string[] = [];
  let toldAt = began;
  const agree = async (): Promise<boolean> => {
    problems = await disagreements(
      cluster,
      await compute.db.many(row, 'select id, desired, status from containers'),
      promised,
    ).catch((error: unknown) => [`it cannot be looked at: ${String(error)}`]);
    if (problems.length > 0 && performance.now() - toldAt > 5000) {
      toldAt = performance.now();
      options.onProgress?.(problems.join('; '));
    }
    return problems.length === 0;
  };
  await until(agree, { timeoutMs: options.settleMs, everyMs: 250 }).catch(() =>
    assert.fail(`seed ${options.seed}: ${problems.join('\n')}\n${lastLines()}`),
  );
  const settledMs = Math.round(performance.now() - began);
  const left: Record<string, number> = {};
  for (const { status } of await compute.db.many(row, 'select id, desired, status from containers'))
    left[status] = (left[status] ?? 0) + 1;
  return { answers, kills, settledMs, left };
}

/** What differs between rows, cluster and what users were told, in sentences; none when all agrees and nothing is under way. */
async function disagreements(
  cluster: Cluster,
  rows: readonly z.output<typeof row>[],
  promised: ReadonlyMap<string, string>,
): Promise<string[]> {
  const found = async (resource: string): Promise<Map<string, number>> => {
    const { json } = await cluster.call('GET', `/api/v1/${resource}?labelSelector=troupe.dev/container`);
    const counts = new Map<string, number>();
    for (const { metadata } of named.parse(json).items) {
      const id = metadata.labels['troupe.dev/container'] ?? '';
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return counts;
  };
  const [namespaces, pods, claims, services] = [
    await found('namespaces'),
    await found('pods'),
    await found('persistentvolumeclaims'),
    await found('services'),
  ];
  const problems: string[] = [];
  for (const [what, counts] of Object.entries({ namespaces, pods, claims, services })) {
    for (const [id, count] of counts) {
      if (!rows.some((one) => one.id === id)) problems.push(`${id} has ${what} and no row`);
      if (count > 1) problems.push(`${id} has ${count} ${what}`);
    }
  }
  for (const [id, wanted] of promised) {
    const { desired } = rows.find((one) => one.id === id) ?? { desired: 'nowhere' };
    if (desired !== wanted) problems.push(`${id} was promised to be ${wanted}, and is to be ${desired}`);
  }
  for (const { id, desired, status } of rows) {
    if (!promised.has(id) && desired !== 'deleted') problems.push(`${id} is more than was asked for`);
    if (desired === 'deleted') problems.push(`${id} is still being deleted`);
    else if (status !== desired) problems.push(`${id} is ${status}, and is to be ${desired}`);
    if (desired === 'running' && pods.get(id) !== 1) problems.push(`${id} is to run and has no pod`);
    if (desired === 'stopped' && pods.has(id)) problems.push(`${id} is to be stopped and has a pod`);
    if (desired === 'running' && (claims.get(id) !== 1 || services.get(id) !== 1))
      problems.push(`${id} lacks its claim or service`);
  }
  return problems;
}
