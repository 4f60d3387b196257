/** SQL of the commands that run once in a new image of a container. */
import type { Tx } from '../db.ts';
import { type ContainerRow, updateContainer } from './containers.ts';

/** Nothing is to run before its next start. Returns the row; undefined when it is gone or being deleted. */
export function noteReleased(tx: Tx, id: string): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'release_due = false');
}

/** The command went well in the image that waits. As `noteReleased`; undefined, too, when another image waits. */
export function noteNextReleased(tx: Tx, id: string, image: string | null): Promise<ContainerRow | undefined> {
  return updateContainer(tx, id, 'next_released = true', [image ?? ''], 'next_image = $2');
}
