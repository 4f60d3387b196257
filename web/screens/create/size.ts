/** What a size has, in the choice of one. */
import type { ContainerSize } from '../../core/sizes.ts';
import { offer } from '../../live/facts.ts';
import { t } from '../../text/text.ts';

/** A single machine runs every size on its own architecture, so only a cluster's sizes name one. */
export function sizeText({ type, architecture }: ContainerSize): string {
  const isCluster = offer.value?.engine === 'kubernetes';
  return isCluster ? `${t.sizes[type]}, ${t.create.cores[architecture]}` : t.sizes[type];
}
