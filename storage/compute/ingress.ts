/** SQL of ingress rules. A container's `https_enabled` follows its rule on port 443. */
import { z } from 'zod';
import { ingressAccessSchema, ingressTlsSchema } from '../../proto/compute/fields.ts';
import { type CacheMode, cacheModeSchema } from '../../proto/gateway/cache-mode.ts';
import { isConstraint, type Queries, type Tx } from '../db.ts';
import { columnsOf } from '../rows.ts';

/** Without the hash of the password: it goes to gateways alone. */
const ruleRow = z.object({
  id: z.number(),
  port: z.number(),
  targetPort: z.number(),
  tls: ingressTlsSchema,
  access: ingressAccessSchema,
  cache: cacheModeSchema,
  createdAt: z.date(),
});
export type IngressRow = z.output<typeof ruleRow>;

const COLUMNS = columnsOf(ruleRow);

/** A rule among those of its container, without what is as if nothing was said. */
export const portSchema = z.object({
  port: z.number(),
  target_port: z.number(),
  tls: z.literal('platform').optional(),
  access: z.enum(['password', 'mine']).optional(),
  cache: z.enum(['explicit', 'off']).optional(),
});

/** The rules of a row of `containers`, by external port, as one value. */
export const PORTS = `coalesce((select json_agg(json_strip_nulls(json_build_object('port', port,
    'target_port', target_port, 'tls', nullif(tls, 'container'), 'access', nullif(access, 'public'),
    'cache', nullif(cache, 'default'))) order by port)
  from ingress_rules where container_id = containers.id), '[]')`;

/** The rules of a container, by external port. */
export function listRules(db: Queries, containerId: string): Promise<IngressRow[]> {
  return db.many(ruleRow, `select ${COLUMNS} from ingress_rules where container_id = $1 order by port`, [containerId]);
}

/**
 * Adds a rule, with the hash of its password if its access needs one. `duplicate`: the port has a rule, and the
 * transaction is lost; undefined: the container is going.
 */
export async function insertRule(
  tx: Tx,
  containerId: string,
  rule: Pick<IngressRow, 'port' | 'targetPort' | 'tls'> &
    Partial<Pick<IngressRow, 'access' | 'cache'>> & { readonly hash?: string | null },
): Promise<IngressRow | 'duplicate' | undefined> {
  let row: IngressRow | undefined;
  try {
    row = await tx.one(
      ruleRow,
      `insert into ingress_rules (container_id, port, target_port, tls, access, access_hash, cache)
       select id, $2, $3, $4, $5, $6, $7 from containers where id = $1 and desired <> 'deleted' returning ${COLUMNS}`,
      [
        containerId,
        rule.port,
        rule.targetPort,
        rule.tls,
        rule.access ?? 'public',
        rule.hash ?? null,
        rule.cache ?? 'default',
      ],
    );
  } catch (error) {
    if (isConstraint(error, 'ingress_rules_port_key')) return 'duplicate';
    throw error;
  }
  await followHttps(tx, containerId);
  return row;
}

/** Says what gateways keep of the answers that come by an external port; undefined when it has no rule. */
export async function setRuleCache(
  tx: Tx,
  containerId: string,
  port: number,
  cache: CacheMode,
): Promise<IngressRow | undefined> {
  const row = await tx.one(
    ruleRow,
    `update ingress_rules set cache = $3 where container_id = $1 and port = $2 returning ${COLUMNS}`,
    [containerId, port, cache],
  );
  // Gateways read the rules of containers that changed.
  if (row !== undefined) await followHttps(tx, containerId);
  return row;
}

/** Removes the rule of an external port. Returns whether there was one. */
export async function deleteRule(tx: Tx, containerId: string, port: number): Promise<boolean> {
  const count = await tx.run('delete from ingress_rules where container_id = $1 and port = $2', [containerId, port]);
  await followHttps(tx, containerId);
  return count === 1;
}

async function followHttps(tx: Tx, containerId: string): Promise<void> {
  await tx.run(
    `update containers set https_enabled = exists (select from ingress_rules where container_id = $1 and port = 443)
     where id = $1`,
    [containerId],
  );
}

const namesRow = z.object({ hostnames: z.array(z.string()), now: z.number() });

/**
 * The rule of an external port, the hostnames of the owner at which it asks visitors, and the time of the database
 * (Unix ms), by which gateways go. Those are the hostnames of this port, and of the port inside unless a rule has that
 * as its own. Undefined when there is no rule.
 */
export async function ruleForEntry(
  db: Queries,
  containerId: string,
  port: number,
): Promise<(z.output<typeof namesRow> & { readonly rule: IngressRow }) | undefined> {
  const rules = await listRules(db, containerId);
  const rule = rules.find((one) => one.port === port);
  if (rule === undefined) return undefined;
  const isOfOther = rules.some((one) => one.port === rule.targetPort);
  const found = await db.one(
    namesRow,
    `select array(
         select hostname from verified_hostnames where container_id = $1 and target_port in ($2, $3)
       ) as hostnames, extract(epoch from clock_timestamp())::float8 * 1000 as now`,
    [containerId, port, isOfOther ? port : rule.targetPort],
  );
  return found && { rule, ...found };
}
