/** SQL of ingress rules. A container's `https_enabled` follows its rule on port 443. */
import { z } from 'zod';
import { ingressTlsSchema } from '../../proto/compute/fields.ts';
import { isConstraint, type Queries, type Tx } from '../db.ts';
import { columnsOf } from '../rows.ts';

const ruleRow = z.object({
  id: z.number(),
  port: z.number(),
  targetPort: z.number(),
  tls: ingressTlsSchema,
  createdAt: z.date(),
});
export type IngressRow = z.output<typeof ruleRow>;

const COLUMNS = columnsOf(ruleRow);

/** The rules of a container, by external port. */
export function listRules(db: Queries, containerId: string): Promise<IngressRow[]> {
  return db.many(ruleRow, `select ${COLUMNS} from ingress_rules where container_id = $1 order by port`, [containerId]);
}

/** Adds a rule. `duplicate`: the port has one, and the transaction is lost; undefined: the container is going. */
export async function insertRule(
  tx: Tx,
  containerId: string,
  rule: Pick<IngressRow, 'port' | 'targetPort' | 'tls'>,
): Promise<IngressRow | 'duplicate' | undefined> {
  let row: IngressRow | undefined;
  try {
    row = await tx.one(
      ruleRow,
      `insert into ingress_rules (container_id, port, target_port, tls)
       select id, $2, $3, $4 from containers where id = $1 and desired <> 'deleted' returning ${COLUMNS}`,
      [containerId, rule.port, rule.targetPort, rule.tls],
    );
  } catch (error) {
    if (isConstraint(error, 'ingress_rules_port_key')) return 'duplicate';
    throw error;
  }
  await followHttps(tx, containerId);
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
