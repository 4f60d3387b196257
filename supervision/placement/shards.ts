/** Which shard an entity is in, and which node should hold it: pure, the same on every node and version. */

/** Into how many shards the entities of a service are cut, unless said otherwise. All nodes must agree. */
export const DEFAULT_SHARDS = 256;

/**
 * The shard of an entity, 0 to `count` - 1. Changing this function moves entities while old nodes hold them: never do.
 */
export function shardOf(kind: string, id: string, count: number = DEFAULT_SHARDS): number {
  return mixed(hashed(id, hashed('/', hashed(kind, SEED)))) % count;
}

/**
 * The node that should hold each shard of a service: of all nodes the one with the highest weight for it (rendezvous
 * hashing), so that a node that comes or goes moves only what it gets or had. Undefined without nodes.
 */
export function assign(service: string, count: number, nodeIds: readonly string[]): (string | undefined)[] {
  const nodes = [...nodeIds].sort().map((id) => ({ id, seed: hashed(id, SEED) }));
  return Array.from({ length: count }, (_, shard) => {
    const shardSeed = seedOf(service, shard);
    let best: string | undefined;
    let highest = -1;
    for (const { id, seed } of nodes) {
      const weight = mixed(seed ^ shardSeed);
      if (weight > highest) {
        highest = weight;
        best = id;
      }
    }
    return best;
  });
}

/** The weight of a node for a shard, 0 to 2^32 - 1: the highest holds it, the first by name of two equal ones. */
export function weightOf(service: string, shard: number, nodeId: string): number {
  return mixed(hashed(nodeId, SEED) ^ seedOf(service, shard));
}

function seedOf(service: string, shard: number): number {
  return mixed(hashed(service, SEED) + Math.imul(shard + 1, 0x9e3779b1));
}

const SEED = 0x811c9dc5;

/** FNV-1a over UTF-16 code units, 32 bits. */
function hashed(text: string, seed: number): number {
  let hash = seed;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

/** The finaliser of MurmurHash3: every bit of the input reaches every bit of the output. Unsigned. */
function mixed(input: number): number {
  let hash = input;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
