/** Where sealed values of domains stand: all of this room. */
import type { SealedPlace } from '../reseal.ts';
import { accountContext, challengeContext } from './acme.ts';
import { orderContext } from './certificate-orders.ts';
import { keyContext } from './certificates.ts';
import { tokenContext } from './zones.ts';

/** The columns. */
export const NETWORK_SEALED: readonly SealedPlace[] = [
  { table: 'owned_domains', id: 'id', column: 'token', context: tokenContext },
  { table: 'acme_accounts', id: 'directory_url', column: 'key_sealed', context: accountContext },
  { table: 'acme_challenges', id: 'hostname', column: 'key_sealed', context: challengeContext },
  { table: 'certificates', id: 'hostname', column: 'key_sealed', serial: 'serial', context: keyContext },
  { table: 'certificates', id: 'hostname', column: 'order_key_sealed', context: orderContext },
];
