import type { Readable } from 'node:stream';
import { z } from 'zod';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { cleanReason } from '../../common/errors.ts';
import { parseImageReference } from '../../common/image-reference.ts';
import { jsonLines } from '../../common/json-lines.ts';
import type { DockerClient } from '../api/client.ts';

/** A line of what /images/create answers while it works. */
export const progressLine = z.object({
  id: z.string().optional(),
  status: z.string().optional(),
  error: z.string().optional(),
  progressDetail: z.object({ current: z.number().optional(), total: z.number().optional() }).nullish(),
});

/** Imports a root file system as an image and tags it. Nothing is tagged unless `archive` ends without an error. */
export async function importImage(
  client: DockerClient,
  image: string,
  archive: Readable | Uint8Array,
  changes: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  const reference = parseImageReference(image);
  const stream = await client.stream('POST', '/images/create', {
    query: { fromSrc: '-', repo: reference.repository, tag: reference.version, changes },
    body: archive,
    headTimeoutMs: 30 * 60_000,
    ...(signal === undefined ? {} : { signal }),
  });
  for await (const line of jsonLines(stream)) {
    const parsed = progressLine.safeParse(line);
    if (parsed.success && parsed.data.error !== undefined) {
      throw new EngineError('unavailable', `The image cannot be imported: ${cleanReason(parsed.data.error)}`);
    }
  }
}
