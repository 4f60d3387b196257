/** What monitors tell each other: what each can measure, and what it found. Sealed on the bus, as all core messages. */
import { z } from 'zod';
import type { NodeSample, PodSample } from '../ports/metrics-source.ts';

/** A core subject, outside of the stream of `cluster.>`, which others read. */
export const SHARES_SUBJECT = 'monitor.shares';

const usage = {
  name: z.string(),
  cpuMillis: z.number(),
  cpuCapacityMillis: z.number(),
  memoryBytes: z.number(),
  memoryCapacityBytes: z.number(),
};

const node = z.object({
  ...usage,
  diskBytes: z.number(),
  diskCapacityBytes: z.number(),
  disks: z
    .array(z.object({ path: z.string(), usedBytes: z.number(), capacityBytes: z.number() }))
    .readonly()
    .exactOptional(),
  conditions: z.array(z.object({ type: z.string(), status: z.string() })).readonly(),
}) satisfies z.ZodType<NodeSample>;

const pod = z.object({
  ...usage,
  namespace: z.string(),
  node: z.string(),
  userId: z.string().exactOptional(),
  containerId: z.string().exactOptional(),
  diskBytes: z.number(),
  diskCapacityBytes: z.number().exactOptional(),
  restarts: z.number(),
  crashedAt: z.array(z.number()).readonly(),
  oomKills: z.number(),
  oomAt: z.number().exactOptional(),
}) satisfies z.ZodType<PodSample>;

/** Says that a monitor lives, every second. */
const offer = z.object({
  type: z.literal('offer'),
  from: z.string(),
  /** Unix ms; only compared with that of others. */
  startedAt: z.number(),
  /** What it can measure, and how often it gave that up: the one that gave up least measures. */
  parts: z.record(z.string(), z.number()),
  /** Its process. */
  own: z.array(pod).readonly(),
});

/** A piece of what was measured of a part: all of them have one `at`. */
const piece = z.object({
  type: z.literal('piece'),
  from: z.string(),
  part: z.string(),
  /** When it was measured, Unix ms. */
  at: z.number(),
  /** When to expect the next, ms. */
  refreshMs: z.number(),
  index: z.int().nonnegative(),
  pieces: z.int().positive(),
  nodes: z.array(node).readonly().exactOptional(),
  pods: z.array(pod).readonly().exactOptional(),
});
export type SharePiece = z.output<typeof piece>;

/** The monitor ends. */
const leave = z.object({ type: z.literal('leave'), from: z.string() });

export const shareSchema = z.discriminatedUnion('type', [offer, piece, leave]);
export type ShareMessage = z.output<typeof shareSchema>;
