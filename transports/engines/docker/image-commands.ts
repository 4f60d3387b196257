import type { ContainerSpec } from '../../../proto/ports/engine.ts';
import { parseImageReference } from '../common/image-reference.ts';
import type { DockerClient } from './api/client.ts';
import { hasPath } from './container-starter.ts';
import { type DockerContainerView, imageCommand } from './container-view.ts';
import { type ImageCommand, isWrapped, unwrapped, wrapped } from './workload.ts';

/** What a container that is made anew of the same image is to run; undefined: as the image says. */
export async function commandAnew(
  client: DockerClient,
  { Id, Config }: DockerContainerView,
  { isConfigured }: Pick<ContainerSpec, 'isConfigured'>,
): Promise<ImageCommand | undefined> {
  if (isConfigured === true) return wrapped(unwrapped(Config));
  if (!isWrapped(Config)) return undefined;
  // Settings that are gone need no other container, except where they could not be.
  return (await hasPath(client, Id, '/bin/sh')) ? wrapped(unwrapped(Config)) : unwrapped(Config);
}

/** What one that is made of an image for the first time is to run; undefined: as the image says. */
export async function firstCommand(
  client: DockerClient,
  { image, isConfigured }: Pick<ContainerSpec, 'image' | 'isConfigured'>,
): Promise<ImageCommand | undefined> {
  if (isConfigured !== true) return undefined;
  const own = await imageCommand(client, parseImageReference(image).full);
  return own && wrapped(own);
}
