/** Which shard an entity is in, and which node should hold it: pure, the same on every node and version. */

/** Into how many shards the entities of a service are cut, unless said otherwise. All nodes must agree. */
export const DEFAULT_SHARDS = 256;

/**
 * The shard of an entity, 0 to `count` - 1. Changing this function moves entities while old nodes hold them: never do.
 */
export function shardOf(kind: string, id: string, count: number = DEFAULT_SHARDS): number {
  return mixed(hashed(id, hashed('/', hashed(kind, SEED)))) % count;
}

/** What a shard brings into `suits`. */
export function shardSeed(service: string, shard: number): number {
  return mixed(hashed(service, SEED) + Math.imul(shard + 1, 0x9e3779b1));
}

/** What a node brings into `suits`. */
export function nodeSeed(nodeId: string): number {
  return hashed(nodeId, SEED);
}

/** How well a node suits a shard, 0 to 2^32 - 1: of nodes of the same weight the highest holds it. */
export function suits(node: number, shard: number): number {
  return mixed(node ^ shard);
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
