/** Objects of a cluster that may or may not be there. */
import type { z } from 'zod';
import type { KubeClient } from './client.ts';
import { isReply, KubeReplyError } from './errors.ts';

/** What is at a path; undefined when there is nothing. */
export async function getIfThere<T>(client: KubeClient, path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    return await client.json('GET', path, schema);
  } catch (error) {
    if (isReply(error, 404)) return undefined;
    throw error;
  }
}

/** Deletes what is at a path; one that is gone, or going already, is deleted. */
export async function deleteIfThere(client: KubeClient, path: string, body: object = {}): Promise<void> {
  try {
    await client.call('DELETE', path, { body: { kind: 'DeleteOptions', apiVersion: 'v1', ...body } });
  } catch (error) {
    if (isReply(error, 404) || (error instanceof KubeReplyError && error.status === 409)) return;
    throw error;
  }
}
