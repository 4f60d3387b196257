/** What a container may reach: everything, nothing, or some networks. */
import { z } from 'zod';
import { networkOf } from '../../lib/ipv4.ts';

/** Networks that one container can name. */
const MAX_EGRESS = 32;

const ERROR =
  `must be "any", "none", or 1 to ${MAX_EGRESS} networks of IPv4, each written with its first address, ` +
  'such as ["203.0.113.0/24"]';
const NETWORK_ERROR = 'must be a network of IPv4, written with its first address, such as 203.0.113.0/24';

/**
 * What a container may reach: all that containers may, nothing but its private network, or of the former these networks
 * only. It is reached as ever.
 */
export const egressSchema = z.union(
  [
    z.enum(['any', 'none']),
    z
      .array(
        z.string({ error: NETWORK_ERROR }).refine((text) => networkOf(text) !== undefined, { error: NETWORK_ERROR }),
      )
      .min(1, { error: ERROR })
      .max(MAX_EGRESS, { error: ERROR }),
  ],
  { error: ERROR },
);

type Egress = Readonly<z.output<typeof egressSchema>>;

/** As it is kept: null for all, and none of them for nothing. Networks in order, and with their lengths. */
export function keptEgress(said: Egress): readonly string[] | null {
  if (said === 'any') return null;
  if (said === 'none' || typeof said === 'string') return [];
  return [...new Set(said.map((network) => networkOf(network) ?? network))].sort();
}

/** As it is shown; `any` is not. */
export function shownEgress(kept: readonly string[] | null): 'none' | string[] | undefined {
  return kept === null ? undefined : kept.length === 0 ? 'none' : [...kept];
}
