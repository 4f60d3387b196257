/** Which part of the entities moves when a node joins or leaves: the real placement code over many nodes and entities. */
import { randomUUID } from 'node:crypto';
import { nodeSeed, shardOf, shardSeed, suits } from '../../../supervision/placement/shards.ts';
import { assigned } from './assigned.ts';

export interface Simulation {
  readonly nodes: number;
  readonly entities: number;
  /** Clusters that are tried, and nodes that would join each. */
  readonly clusters: number;
  readonly joins: number;
  /** Takes lines for people. */
  readonly out: (line: string) => void;
}

const CUTS = [256, 1024, 4096, 16_384] as const;

/** For several numbers of shards. Returns whether a node that joins or leaves moves at most 1.1 / N of the entities on average. */
export function simulateMoves({ nodes, entities, clusters, joins: joining, out }: Simulation): boolean {
  let isGood = true;
  const inShard = CUTS.map((count) => new Uint32Array(count));
  const hashing = process.cpuUsage();
  for (let n = 0; n < entities; n++) {
    const id = `c${n.toString(36).padStart(11, '0')}`;
    for (const [at, count] of CUTS.entries()) {
      const counts = inShard[at];
      const shard = shardOf('compute/container', id, count);
      if (counts !== undefined) counts[shard] = (counts[shard] ?? 0) + 1;
    }
  }
  out(`shardOf: ${((cpuMs(hashing) * 1e6) / entities / CUTS.length).toFixed(0)} ns of processor time`);

  for (const [at, count] of CUTS.entries()) {
    const counts = inShard[at] ?? new Uint32Array();
    const leaves: number[] = [];
    const joins: number[] = [];
    let decisions = 0;
    for (let cluster = 0; cluster < clusters; cluster++) {
      const ids = Array.from({ length: nodes }, () => randomUUID());
      const deciding = process.cpuUsage();
      const owners = assigned('compute', count, ids);
      decisions += cpuMs(deciding);
      const had = new Map<string, number>(ids.map((id) => [id, 0]));
      for (const [shard, owner = ''] of owners.entries()) had.set(owner, (had.get(owner) ?? 0) + (counts[shard] ?? 0));
      for (const moved of had.values()) leaves.push(moved / entities);
      const weights = owners.map((owner, shard) => suits(nodeSeed(owner ?? ''), shardSeed('compute', shard)));
      for (let join = 0; join < joining; join++) {
        const id = randomUUID();
        let moved = 0;
        for (let shard = 0; shard < count; shard++) {
          if (suits(nodeSeed(id), shardSeed('compute', shard)) > (weights[shard] ?? 0)) moved += counts[shard] ?? 0;
        }
        joins.push(moved / entities);
      }
    }
    const cost = (decisions / clusters).toFixed(1);
    out(`\n${count} shards: a decision over all shards and nodes takes ${cost} ms of processor time`);
    out(
      row(
        'in a shard',
        [...counts].map((one) => one / entities),
        1 / count,
      ),
    );
    for (const [what, moved, ideal] of [
      ['leaving', leaves, 1 / nodes],
      ['joining', joins, 1 / (nodes + 1)],
    ] as const) {
      out(row(`${what} moves`, moved, ideal));
      if (mean(moved) <= 1.1 * ideal) continue;
      out(`FAILED: a ${what} node moves ${(mean(moved) / ideal).toFixed(3)} of what it should`);
      isGood = false;
    }
  }
  return isGood;
}

function cpuMs(since: NodeJS.CpuUsage): number {
  return process.cpuUsage(since).user / 1000;
}

/** A distribution, as multiples of what would be ideal. */
function row(what: string, values: readonly number[], ideal: number): string {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number) =>
    ((sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0) / ideal).toFixed(2);
  return `  ${what.padEnd(14)} mean ${(mean(values) / ideal).toFixed(3)} of ${(100 * ideal).toFixed(4)} %, p1 ${at(0.01)}, p50 ${at(0.5)}, p99 ${at(0.99)}, most ${at(1)}`;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
