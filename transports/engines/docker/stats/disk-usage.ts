import { z } from 'zod';
import type { DockerClient } from '../api/client.ts';
import { foundIn, listedContainer } from '../container-view.ts';
import { labels, type Naming } from '../naming.ts';

const labelled = z.record(z.string(), z.string()).nullable().default(null);
const diskUsage = z.object({
  Containers: z
    .array(listedContainer.extend({ SizeRw: z.number().default(0) }))
    .nullable()
    .default(null),
  Volumes: z
    .array(z.object({ Labels: labelled, UsageData: z.object({ Size: z.number() }).nullish() }))
    .nullable()
    .default(null),
});

/**
 * Bytes that each container of the installation wrote, by platform id: its mount paths and its own layer. Expensive for
 * Docker, which answers 409 while it counts for somebody else.
 */
export async function diskUsageOf(
  client: DockerClient,
  naming: Naming,
  signal: AbortSignal,
): Promise<Map<string, number>> {
  const disk = await client.json('GET', '/system/df', diskUsage, {
    // Engines before API 1.42 do not know this, and count images too.
    query: { type: ['container', 'volume'] },
    timeoutMs: 120_000,
    maxBytes: 64 * 1024 * 1024,
    signal,
  });
  const sums = new Map<string, number>();
  const add = (id: string | undefined, bytes: number): void => {
    // Docker says -1 for "not known".
    if (id !== undefined && bytes > 0) sums.set(id, (sums.get(id) ?? 0) + bytes);
  };
  for (const container of disk.Containers ?? []) {
    const id = naming.containerOf(foundIn(container));
    add(id, container.SizeRw);
    add(id, Number(container.Labels?.[labels.carried] ?? 0));
  }
  for (const volume of disk.Volumes ?? []) add(naming.idOf(volume.Labels), volume.UsageData?.Size ?? 0);
  return sums;
}
