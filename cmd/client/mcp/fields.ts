/** What several tools share: how they name a container, how they wait for it. */
import { setTimeout } from 'node:timers/promises';
import { z } from 'zod';
import { type Container, TroupeError } from '../../../client/index.ts';
import type { ContainerStatus, containerCreatedSchema } from '../../../proto/compute/fields.ts';
import { ID_PATTERN } from '../../../proto/ids.ts';
import type { ToolContext } from './tool.ts';

export const containerField = z.string().min(1).describe('Id of the container, or its whole name');

/** Clients give a call up after a minute, unless they are told otherwise. */
const DEFAULT_SECONDS = 45;
const MAX_SECONDS = 600;
const LOOK_EVERY_MS = 700;

export const secondsField = (description: string) =>
  z.int().min(0).max(MAX_SECONDS).default(DEFAULT_SECONDS).describe(description);

/** The id of a container. A token of one container may not list them, so an id is not looked for. */
export async function idOf(text: string, { client, signal }: ToolContext): Promise<string> {
  if (ID_PATTERN.test(text)) return text;
  const { containers } = await client.call('listContainers', {}, { signal });
  const found = containers.filter(({ name }) => name === text);
  const [one] = found;
  if (one !== undefined && found.length === 1) return one.id;
  if (one === undefined) throw new TroupeError('not_found', `There is no container ${text}.`, { status: 404 });
  const ids = found.map(({ id }) => id).join(', ');
  throw new TroupeError('conflict', `Several containers are named ${text}: ${ids}. Say which by its id.`);
}

type Created = z.output<typeof containerCreatedSchema>;

/** Looks at a container until it has a status, or failed. What was seen last, also when the time is over. */
export async function waitFor(
  first: Created,
  until: ContainerStatus,
  seconds: number,
  { client, signal }: ToolContext,
): Promise<Created | Container> {
  const deadline = performance.now() + seconds * 1000;
  let seen: Created | Container = first;
  while (seen.status !== until && seen.status !== 'failed' && performance.now() < deadline) {
    await setTimeout(LOOK_EVERY_MS, undefined, { signal });
    try {
      seen = await client.call('getContainer', { params: { id: first.id } }, { signal });
    } catch (error) {
      // A token may start what it may not read.
      if (error instanceof TroupeError && error.code === 'missing_scope') return seen;
      throw error;
    }
  }
  return seen;
}
