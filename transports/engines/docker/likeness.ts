/** Whether a container that is there is what it should be, or has to be made anew. */
import { z } from 'zod';
import type { ContainerSpec } from '../../../proto/ports/engine.ts';
import { parseImageReference } from '../common/image-reference.ts';
import { checkedMountPaths } from '../common/mount-paths.ts';
import type { DockerClient } from './api/client.ts';
import { unlessReply } from './api/errors.ts';
import type { DockerContainerView } from './container-view.ts';
import { isBuiltIn } from './image/base-image.ts';
import { KEYS_FOLDER, labels, type Naming } from './naming.ts';

const imageView = z.object({ Id: z.string() });

/** Whether a container has the volumes of `spec` at its mount paths, and no other ones of ours. */
export function hasMounts(naming: Naming, view: DockerContainerView, spec: ContainerSpec): boolean {
  const wanted = checkedMountPaths(spec.mountPaths).map((path) => naming.volume(spec.id, path));
  const prefix = `${naming.container(spec.id)}-`;
  const mounted = view.Mounts.filter((mount) => mount.Destination !== KEYS_FOLDER)
    .map((mount) => mount.Name ?? '')
    .filter((name) => name.startsWith(prefix));
  return wanted.length === mounted.length && wanted.every((name) => mounted.includes(name));
}

/** Whether a container is of the image of `spec`; a base image of another build is the same. */
export async function hasImage(
  { client, baseRepository }: { readonly client: DockerClient; readonly baseRepository: string },
  view: DockerContainerView,
  spec: ContainerSpec,
): Promise<boolean> {
  const image = parseImageReference(spec.image);
  const made = view.Config.Labels?.[labels.image] || view.Config.Image;
  // What people installed into a container lives in its own layer: a newer base image is no reason to lose it.
  const isBase = made.startsWith(`${baseRepository}:`) || isBuiltIn(made);
  const sameImage = made === image.full || (image.repository === baseRepository && isBase);
  if (!sameImage || spec.followImage !== true) return sameImage;
  const madeId = view.Config.Labels?.[labels.imageId] || view.Image;
  return madeId === (await imageIdOf(client, image.full, madeId));
}

/** The id of what a reference names now; `otherwise` when it names nothing any more. */
async function imageIdOf(client: DockerClient, reference: string, otherwise: string): Promise<string> {
  return (await unlessReply(client.json('GET', `/images/${reference}/json`, imageView), 404))?.Id ?? otherwise;
}
