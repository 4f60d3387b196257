import { z } from 'zod';
import type { Queries } from '../queries.ts';
import { columnsOf, oneValue } from '../rows.ts';

const nodeRow = z.object({
  id: z.string(),
  roles: z.array(z.string()),
  version: z.string(),
  address: z.string(),
  /** It gives its shards away, or is asked to. */
  draining: z.boolean(),
  /** Of its messages to other nodes. */
  format: z.int(),
  /** Names of the secrets that it accepts, first the one it seals with. */
  keyIds: z.array(z.string()),
  startedAt: z.date(),
  /** What is left of its lease, ms; 0 or less: it is over. */
  leaseMs: z.number(),
  /** Shards by service. */
  shards: z.record(z.string(), z.int()),
});

const NODE = columnsOf(nodeRow, {
  draining: 'draining or drain_asked',
  leaseMs: '(extract(epoch from expires_at - clock_timestamp()) * 1000)::float8',
  shards: `coalesce((select json_object_agg(service, held) from
    (select service, count(*) as held from placement_shards where owner = n.id group by service) s), '{}')`,
});

/** A node as operators see it. */
export type NodeRow = z.output<typeof nodeRow>;

/** `drained`: it gave everything away, and can be stopped. */
export function nodeState({ leaseMs, draining, shards }: NodeRow): 'serving' | 'draining' | 'drained' | 'gone' {
  if (leaseMs <= 0) return 'gone';
  if (!draining) return 'serving';
  return Object.keys(shards).length === 0 ? 'drained' : 'draining';
}

/** The roles of a node that no other living node has which does not drain. */
export function rolesOnlyOf(node: NodeRow, nodes: readonly NodeRow[]): readonly string[] {
  const others = nodes.filter(({ id, leaseMs, draining }) => id !== node.id && leaseMs > 0 && !draining);
  return node.roles.filter((role) => !others.some(({ roles }) => roles.includes(role)));
}

const serviceRow = z.object({ service: z.string(), count: z.int(), held: z.int() });

/** A service's shards: how many there are, and how many of them a living node holds. */
export type ServiceShards = z.output<typeof serviceRow>;

/** All nodes, those whose lease ended lately included, oldest first. */
export function listNodes(db: Queries): Promise<NodeRow[]> {
  return db.many(nodeRow, `select ${NODE} from placement_nodes n order by started_at, id`);
}

const oddRow = z.object({ id: z.string(), version: z.string(), address: z.string(), format: z.int() });

/**
 * A node that lives and speaks another format of messages than `format`, the oldest; `except` is not looked at. Reads
 * the schema of any version before, without nodes or without their format, which was 1 then: it is asked before that is
 * migrated.
 */
export async function oddNode(
  db: Queries,
  format: number,
  except?: string,
): Promise<z.output<typeof oddRow> | undefined> {
  if (!(await oneValue(db, z.boolean(), "select to_regclass('placement_nodes') is not null"))) return undefined;
  return db.one(
    oddRow,
    `select id, version, address, format from
       (select id, version, address, started_at, expires_at, coalesce((to_jsonb(n) ->> 'format')::int, 1) as format
        from placement_nodes n) n
     where expires_at > clock_timestamp() and format <> $1 and id is distinct from $2
     order by started_at, id limit 1`,
    [format, except ?? null],
  );
}

/** All services that have shards, by name. */
export function listServiceShards(db: Queries): Promise<ServiceShards[]> {
  return db.many(
    serviceRow,
    `select service, max(s.count) as count, count(n.id) as held
     from placement_shards s left join placement_nodes n on n.id = s.owner and n.expires_at > clock_timestamp()
     group by service order by service`,
  );
}

/** Asks a node to give its shards away, or takes that back. Resolves with whether there is such a node. */
export async function askDrain(db: Queries, id: string, asked: boolean): Promise<boolean> {
  return (await db.run('update placement_nodes set drain_asked = $2 where id = $1', [id, asked])) === 1;
}
