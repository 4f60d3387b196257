import { z } from 'zod';
import { jsonOf } from '../../../../lib/input.ts';
import { memoryInUse } from './usage.ts';

const cpu = z.object({ cpu_usage: z.object({ total_usage: z.number().default(0) }).default({ total_usage: 0 }) });
const line = z.object({
  read: z.string(),
  preread: z.string().default(''),
  cpu_stats: cpu,
  precpu_stats: cpu.optional(),
  memory_stats: z
    .object({
      usage: z.number().default(0),
      limit: z.number().default(0),
      // Of some forty: reading them all would cost more than the rest of the line.
      stats: z.object({ total_inactive_file: z.number().optional(), inactive_file: z.number().optional() }).default({}),
    })
    .default({ usage: 0, limit: 0, stats: {} }),
});

/** CPU time used up to a moment, both in ns. */
export interface CpuMark {
  readonly usedNs: number;
  readonly atNs: number;
}

/** What a line of `GET /containers/{id}/stats` says. */
interface StatsLine {
  readonly cpu: CpuMark;
  /** The line before it; undefined in the first. */
  readonly before: CpuMark | undefined;
  readonly memoryBytes: number;
  readonly memoryLimitBytes: number;
}

/** Reads one; undefined when it is none. */
export function parseStats(text: string): StatsLine | undefined {
  const parsed = line.safeParse(jsonOf(text));
  if (!parsed.success) return undefined;
  const { read, preread, cpu_stats, precpu_stats, memory_stats } = parsed.data;
  const [atNs, beforeNs] = [nanoseconds(read), nanoseconds(preread)];
  // The engine stamps a container that has just ended with the year 1.
  if (atNs === undefined) return undefined;
  const before =
    beforeNs === undefined || precpu_stats === undefined || precpu_stats.cpu_usage.total_usage === 0
      ? undefined
      : { usedNs: precpu_stats.cpu_usage.total_usage, atNs: beforeNs };
  return {
    cpu: { usedNs: cpu_stats.cpu_usage.total_usage, atNs },
    before,
    memoryBytes: memoryInUse(memory_stats.usage, memory_stats.stats),
    memoryLimitBytes: memory_stats.limit,
  };
}

/** Thousandths of a core between two marks; undefined when the container was started anew in between. */
export function cpuMillisBetween(from: CpuMark, to: CpuMark): number | undefined {
  const [used, passed] = [to.usedNs - from.usedNs, to.atNs - from.atNs];
  return used >= 0 && passed > 0 ? (used / passed) * 1000 : undefined;
}

/** An RFC 3339 stamp in ns since the Unix epoch, to some hundred ns; undefined for none, and for the year 1. */
function nanoseconds(stamp: string): number | undefined {
  const ms = Date.parse(stamp);
  if (!Number.isFinite(ms) || ms <= 0) return undefined;
  const fraction = /\.([0-9]+)/.exec(stamp)?.[1] ?? '';
  const sub = Number(fraction.padEnd(9, '0').slice(3, 9));
  return ms * 1e6 + sub;
}
