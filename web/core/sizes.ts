/** The sizes that a container can have. */
import type { Container } from '../../client/index.ts';

/** One of them. */
export interface ContainerSize {
  readonly type: Container['instance_type'];
  readonly architecture: 'arm64' | 'amd64';
}

/** As the platform has them, small ones first. */
export const SIZES: readonly ContainerSize[] = [
  { type: 'nano', architecture: 'arm64' },
  { type: 'micro', architecture: 'arm64' },
  { type: 'mini', architecture: 'arm64' },
  { type: 'tiny', architecture: 'amd64' },
  { type: 'small', architecture: 'amd64' },
  { type: 'medium', architecture: 'amd64' },
];
