/** Where sealed values of notifications stand: all of this room. */
import type { SealedPlace } from '../reseal.ts';
import { secretContext } from './webhooks.ts';

/** The columns. */
export const NOTIFY_SEALED: readonly SealedPlace[] = [
  { table: 'webhooks', id: 'id', column: 'secret_sealed', context: secretContext },
  { table: 'webhooks', id: 'id', column: 'former_sealed', context: secretContext },
];
