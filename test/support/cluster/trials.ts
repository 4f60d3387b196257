/** Trials of a cluster under load: one process is killed, frozen or cut off, and its entities must answer elsewhere. */

import { pause } from '../pause.ts';
import { until } from '../until.ts';
import { SHARDS } from './chronicle.ts';
import type { TestCluster } from './cluster.ts';
import type { Client, Load } from './load.ts';
import type { Member } from './member.ts';
import type { Cut } from './network.ts';

/** What is done to a process. A partition is also of one direction, or from one other process. */
export type Kind = 'kill' | 'stop' | 'partition';

export interface Trial {
  readonly kind: Kind;
  /** What a partition cuts. */
  readonly detail: string;
  readonly victim: number;
  /** Of each entity that the victim held: until a write of it was acknowledged elsewhere, ms. */
  readonly recoveries: readonly number[];
}

export interface TrialOptions {
  readonly cluster: TestCluster;
  readonly load: Load;
  readonly kinds: readonly Kind[];
  /** So many processes are struck at the same time. Default: one. */
  readonly together?: number;
  /** How long a process stands still, ms; longer than a lease. Other trials go on meanwhile. */
  readonly stopMs: number;
  /** 0 to 1, as Math.random. */
  readonly random: () => number;
  readonly onTrial?: (trial: Trial, n: number) => void;
}

/** Entities of a victim that are watched. */
const WATCHED = 6;
/** Rounds whose processes are out at once, at most. */
const MOST_OUT = 2;
/** An entity that does not answer for so long never will. */
const GIVE_UP_MS = 90_000;

interface Victim {
  readonly victim: Member;
  readonly watched: readonly Client[];
}

/** Runs the trials, round after round; afterwards all processes are well and hold shards. */
export async function runTrials(options: TrialOptions): Promise<Trial[]> {
  const { cluster, kinds, together = 1, onTrial } = options;
  const trials: Trial[] = [];
  const comingBack = new Set<Promise<void>>();
  const failures: unknown[] = [];
  for (let n = 0; n < kinds.length; n += together) {
    const round = kinds.slice(n, n + together);
    const victims = await chosen(options, round.length);
    const struck = await Promise.all(
      victims.map(async ({ victim, watched }, k) => {
        const kind = round[k] ?? 'kill';
        const { detail, undo } = await strike(options, kind, victim);
        return { kind, detail, undo, victim, watched, at: performance.now() };
      }),
    );
    const others = cluster.members.filter((member) => member.isWell);
    const returns = await Promise.all(
      struck.map(async ({ kind, detail, undo, victim, watched, at }) => {
        const recoveries = await Promise.all(watched.map((client) => recovered(options.load, client, others, at)));
        const trial = { kind, detail, victim: victim.number, recoveries };
        trials.push(trial);
        onTrial?.(trial, trials.length - 1);
        return { kind, undo, victim };
      }),
    );
    const backs = returns.map(({ kind, undo, victim }) => {
      const back = undo()
        .then(() => returned(cluster, victim))
        .catch((error: unknown) => void failures.push(error))
        .finally(() => comingBack.delete(back));
      comingBack.add(back);
      // A process that stands still does so beside the next trials; of many, one that starts again does, too.
      return kind === 'stop' || together > 1 ? undefined : back;
    });
    await Promise.all(backs);
    while (comingBack.size > (MOST_OUT - 1) * together) await Promise.race(comingBack);
    if (failures.length > 0) break;
  }
  await Promise.all(comingBack);
  if (failures.length > 0) throw failures[0];
  return trials;
}

/** So many that are well and hold entities of the load, while enough others are well. */
async function chosen({ cluster, load, random, together = 1 }: TrialOptions, count: number): Promise<Victim[]> {
  return until(
    async () => {
      const held = await cluster.shards();
      const well = cluster.members.filter((member) => member.isWell && held.has(member));
      const all = well.reduce((sum, member) => sum + (held.get(member)?.length ?? 0), 0);
      if (well.length - count < cluster.members.length - MOST_OUT * together || all < SHARDS) return undefined;
      // Twelve users may all be elsewhere.
      const candidates = well
        .map((member) => {
          const shards = new Set(held.get(member));
          return { victim: member, watched: load.clients.filter(({ shard }) => shards.has(shard)).slice(0, WATCHED) };
        })
        .filter(({ watched }) => watched.length > 0);
      if (candidates.length < count) return undefined;
      return Array.from({ length: count }, () => candidates.splice(Math.floor(random() * candidates.length), 1)).flat();
    },
    { what: 'processes that can be struck', timeoutMs: 120_000, everyMs: 200 },
  );
}

/** Does it; `undo` gives the process back, later. */
async function strike(
  options: TrialOptions,
  kind: Kind,
  victim: Member,
): Promise<{ detail: string; undo: () => Promise<void> }> {
  if (kind === 'kill') {
    await victim.kill();
    return { detail: '', undo: () => victim.start() };
  }
  if (kind === 'stop') {
    const struck = performance.now();
    await victim.freeze();
    const undo = async () => {
      await pause(Math.max(0, options.stopMs - (performance.now() - struck)), 'fault');
      victim.thaw();
    };
    return { detail: '', undo };
  }
  const { detail, cuts } = partition(options, victim);
  await victim.cut(...cuts);
  return { detail, undo: () => victim.heal() };
}

function partition({ cluster, random }: TrialOptions, victim: Member): { detail: string; cuts: Cut[] } {
  const { broker, database, members } = cluster;
  const both = { direction: 'both' } as const;
  const peers = members.filter((member) => member !== victim);
  const peer = peers[Math.floor(random() * peers.length)] ?? victim;
  const kinds: { detail: string; cuts: Cut[] }[] = [
    { detail: 'NATS', cuts: [{ ...broker, ...both }] },
    { detail: 'PostgreSQL', cuts: [{ ...database, ...both }] },
    {
      detail: 'NATS and PostgreSQL',
      cuts: [
        { ...broker, ...both },
        { ...database, ...both },
      ],
    },
    { detail: 'NATS, what it sends', cuts: [{ ...broker, direction: 'out' }] },
    { detail: 'NATS, what it gets', cuts: [{ ...broker, direction: 'in' }] },
    { detail: 'PostgreSQL, what it sends', cuts: [{ ...database, direction: 'out' }] },
    { detail: 'PostgreSQL, what it gets', cuts: [{ ...database, direction: 'in' }] },
    { detail: `process ${peer.number}`, cuts: [{ address: peer.address, ...both }] },
  ];
  const found = kinds[Math.floor(random() * kinds.length)];
  if (found === undefined) throw new RangeError('random() must be below 1');
  return found;
}

/** Writes through the others until one is acknowledged; resolves with the time since `struck`. */
async function recovered(load: Load, client: Client, others: readonly Member[], struck: number): Promise<number> {
  for (;;) {
    const { outcome, returned: at } = await load.write(client, { among: others, timeoutMs: 20_000 });
    if (outcome === 'ok') return at - struck;
    if (at - struck > GIVE_UP_MS) throw new Error(`user ${client.userId} answers nowhere after ${GIVE_UP_MS} ms`);
    await pause(50, 'retry');
  }
}

/** Until it holds its share again. */
async function returned(cluster: TestCluster, member: Member): Promise<void> {
  await until(async () => (await cluster.shards()).has(member), {
    what: `process ${member.number} holds shards again; its log:\n${member.log.slice(-2000)}`,
    timeoutMs: 60_000,
    everyMs: 200,
  });
}
