import { z } from 'zod';
import { DockerClient } from '../api/client.ts';

/** Longest wait for the answer, ms. */
const ANSWER_MS = 5000;

/**
 * The folder where the engine at `host` keeps images, layers and volumes; undefined when the engine does not say, or
 * does not run on this machine as far as its address tells. Never rejects.
 */
export async function dockerDataRoot(host: string): Promise<string | undefined> {
  if (!host.startsWith('unix:')) return undefined;
  const client = new DockerClient(host);
  try {
    const info = z.object({ DockerRootDir: z.string().startsWith('/') });
    return (await client.json('GET', '/info', info, { timeoutMs: ANSWER_MS })).DockerRootDir;
  } catch {
    return undefined;
  } finally {
    client.close();
  }
}
