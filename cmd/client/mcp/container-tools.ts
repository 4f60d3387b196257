/** Tools for containers. */
import { z } from 'zod';
import { TroupeError } from '../../../client/index.ts';
import { newContainerSchema } from '../../../proto/compute/endpoints.ts';
import { containerCreatedSchema, containerSchema } from '../../../proto/compute/fields.ts';
import { imageSchema } from '../../../proto/compute/images.ts';
import { containerField, idOf, secondsField, waitFor } from './fields.ts';
import { type Tool, type ToolContext, tool } from './tool.ts';

const noInput = z.strictObject({});
const byContainer = z.strictObject({ container: containerField });
const stateSchema = containerCreatedSchema.extend({
  status_reason: z.string().optional().describe('Why it failed, or what it waits for'),
});

export const CONTAINER_TOOLS: readonly Tool[] = [
  tool({
    name: 'list_containers',
    title: 'List containers',
    description: 'All containers of the user, with status, size, ports and hostname.',
    effect: 'reads',
    input: noInput,
    output: z.object({ containers: z.array(containerSchema) }),
    run: (_, { client, signal }) => client.call('listContainers', {}, { signal }),
  }),
  tool({
    name: 'get_container',
    title: 'Show a container',
    description: 'One container: its status and the reason for it, image, sizes, ports, kept paths, last exit code.',
    effect: 'reads',
    input: byContainer,
    output: z.object({ container: containerSchema }),
    async run({ container }, context) {
      const params = { id: await idOf(container, context) };
      return { container: await context.client.call('getContainer', { params }, { signal: context.signal }) };
    },
  }),
  tool({
    name: 'list_images',
    title: 'List images',
    description: 'The images that a container can be made from.',
    effect: 'reads',
    input: noInput,
    output: z.object({ images: z.array(imageSchema) }),
    run: async (_, { client, signal }) => ({ images: await client.call('listImages', {}, { signal }) }),
  }),
  tool({
    name: 'create_container',
    title: 'Create a container',
    description:
      'Creates a container, which starts by itself, and waits until it runs. Data outside of mount_paths is lost ' +
      'when it is started anew.',
    effect: 'adds',
    input: newContainerSchema.extend({
      ssh_key_ids: z
        .array(z.int())
        .min(1)
        .optional()
        .describe('SSH keys of the user that open it, once SSH is enabled. Default: all'),
      wait_seconds: secondsField('How long to wait until it runs'),
    }),
    output: z.object({ container: stateSchema }),
    async run({ wait_seconds, ssh_key_ids: named, ...rest }, context) {
      const { client, signal } = context;
      const ssh_key_ids = named ?? (await ownKeys(context));
      const made = await client.call('createContainer', { body: { ...rest, ssh_key_ids } }, { signal });
      return { container: await waitFor(made, 'running', wait_seconds, context) };
    },
  }),
  tool({
    name: 'start_container',
    title: 'Start a container',
    description: 'Starts a stopped or failed container, and waits until it runs.',
    effect: 'sets',
    input: byContainer.extend({
      discard: z.boolean().default(false).describe('Begin with empty folders if its data is gone'),
      wait_seconds: secondsField('How long to wait until it runs'),
    }),
    output: z.object({ container: stateSchema }),
    async run({ container, discard, wait_seconds }, context) {
      const params = { id: await idOf(container, context) };
      const query = { discard: discard ? 'true' : 'false' } as const;
      const { signal } = context;
      const started = await context.client.call('startContainer', { params, query }, { signal });
      return { container: await waitFor(started, 'running', wait_seconds, context) };
    },
  }),
  tool({
    name: 'stop_container',
    title: 'Stop a container',
    description: 'Stops a container, and waits until it has. Its processes end; data in its mount_paths is kept.',
    effect: 'destroys',
    input: byContainer.extend({ wait_seconds: secondsField('How long to wait until it is stopped') }),
    output: z.object({ container: stateSchema }),
    async run({ container, wait_seconds }, context) {
      const params = { id: await idOf(container, context) };
      const { signal } = context;
      const stopping = await context.client.call('stopContainer', { params }, { signal });
      return { container: await waitFor(stopping, 'stopped', wait_seconds, context) };
    },
  }),
  tool({
    name: 'delete_container',
    title: 'Delete a container',
    description: 'Deletes a container with all its data. This cannot be undone.',
    effect: 'destroys',
    input: byContainer,
    output: z.object({ deleted: z.string().describe('Id of the container') }),
    async run({ container }, context) {
      const id = await idOf(container, context);
      await context.client.call('deleteContainer', { params: { id } }, { signal: context.signal });
      return { deleted: id };
    },
  }),
];

async function ownKeys({ client, signal }: ToolContext): Promise<number[]> {
  const { ssh_keys } = await client.call('listSshKeys', {}, { signal });
  if (ssh_keys.length > 0) return ssh_keys.map(({ id }) => id);
  throw new TroupeError('conflict', 'A container needs an SSH key, and the user has none: `troupe key add` adds one.');
}
