import type { HeldShards } from '../../proto/ports/placement.ts';

/**
 * The condition that entities of `kind`, whose id is `column`, are in these shards (undefined: none), and its
 * parameters, the first of which is `$<first>`. It computes a hash for each row that no cheaper condition excludes.
 */
export function ofShards(
  kind: string,
  column: string,
  held: HeldShards | undefined,
  first: number,
): { readonly filter: string; readonly values: readonly unknown[] } {
  if (held === undefined || held.shards.length === held.count) return { filter: 'true', values: [] };
  return {
    filter: `entity_hash('${kind}', ${column}) % $${first}::bigint = any($${first + 1}::bigint[])`,
    values: [held.count, [...held.shards]],
  };
}
