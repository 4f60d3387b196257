/** Where sealed values of containers stand: all of this room. */
import type { SealedPlace } from '../reseal.ts';
import { settingsContext } from './settings.ts';

/** The columns. */
export const COMPUTE_SEALED: readonly SealedPlace[] = [
  { table: 'container_settings', id: 'container_id', column: 'sealed', context: settingsContext },
  // The same context: what waits there becomes the other as it is.
  { table: 'containers', id: 'id', column: 'next_settings', context: settingsContext },
  { table: 'containers', id: 'id', column: 'former_settings', context: settingsContext },
];
