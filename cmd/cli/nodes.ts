/**
 * `troupe nodes`: the processes of the cluster and their shards, from the database: whatever the nodes do. `drain`: one
 * gives all that it holds to others, and goes on serving those who are connected to it.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Db } from '../../storage/db.ts';
import {
  askDrain,
  listNodes,
  listServiceShards,
  type NodeRow,
  nodeState,
  rolesOnlyOf,
} from '../../storage/placement/nodes.ts';
import { CliError } from '../config/cli-error.ts';
import { type FoundNodes, nodesView } from '../node/nodes-view.ts';
import { type CommandOptions, onDatabase, print, tableLines } from './command.ts';

/** Prints all nodes, those whose lease ended in the last minutes included. */
export async function showNodes(options: CommandOptions): Promise<void> {
  const found = await onDatabase(options, async (db) => ({
    nodes: await listNodes(db),
    services: await listServiceShards(db),
  }));
  print(options, nodesView(found), () => drawNodes(found));
}

/** One line a node, and one for each service of which shards are held by nobody. */
export function drawNodes({ nodes, services }: FoundNodes): string {
  if (nodes.length === 0) return 'No node is running, and none ran in the last minutes.';
  const rows = nodes.map((node) => [
    node.id,
    node.address,
    node.version,
    nodeState(node),
    node.leaseMs > 0 ? `${(node.leaseMs / 1000).toFixed(1)} s` : '-',
    node.roles.map((role) => `${role} ${node.shards[role] ?? 0}`).join(', ') || '-',
  ]);
  const lines = tableLines(['NODE', 'ADDRESS', 'VERSION', 'STATUS', 'LEASE', 'SHARDS'], rows);
  const missing = services
    .filter(({ count, held }) => held < count)
    .map(({ service, count, held }) => `${service}: ${count - held} of ${count} shards are held by no living node.`);
  return [...lines, ...missing].join('\n');
}

/** Options as the command line gives them. */
export interface DrainOptions extends CommandOptions {
  /** Take it back. */
  readonly cancel?: boolean;
  /** Although nobody else could serve. */
  readonly force?: boolean;
  /** Do not wait until it is done. */
  readonly wait: boolean;
}

const LOOK_MS = 200;
/** Longer than any hand-over: entities that do not end are ended after 5 s. */
const PATIENCE_MS = 60_000;

/**
 * Asks the node whose id, beginning of an id, or address is `name`, and waits until it holds nothing. Again does
 * nothing more. Throws CliError for a node that is not there, or that nobody could stand in for, and for one that does
 * not do it.
 */
export async function drainNode(name: string, options: DrainOptions): Promise<void> {
  const { node, left } = await onDatabase(options, (db) => drain(db, name, options));
  const state = left === undefined ? 'gone' : options.cancel ? 'serving' : left === 0 ? 'drained' : 'draining';
  print(options, { id: node.id, address: node.address, state, shards: left ?? 0 }, () => {
    const who = `${node.id} (${node.address})`;
    if (state === 'gone') return `${who} is gone: it holds nothing.`;
    if (state === 'serving') return `${who} takes its share again.`;
    if (state === 'drained') return `${who} holds nothing any more: stop it whenever you like.`;
    return `${who} is asked to give its ${left} shards away.`;
  });
}

async function drain(
  db: Db,
  name: string,
  { cancel, force, wait }: DrainOptions,
): Promise<{ node: NodeRow; left: number | undefined }> {
  const nodes = await listNodes(db);
  const node = nodeNamed(nodes, name);
  if (node.leaseMs <= 0) return { node, left: undefined };
  if (!cancel && !force) refuseTheLast(nodes, node);
  if (!(await askDrain(db, node.id, !cancel))) return { node, left: undefined };
  for (const until = performance.now() + PATIENCE_MS; ; await pause(LOOK_MS)) {
    const now = (await listNodes(db)).find(({ id }) => id === node.id);
    const left = now === undefined || now.leaseMs <= 0 ? undefined : holding(now);
    if (left === undefined || left === 0 || cancel || !wait) return { node, left };
    if (performance.now() > until)
      throw new CliError(
        `${node.id} still holds ${left} shards: it is of a version that ignores this (${node.version}), or ` +
          'no other node takes them. ' +
          '`troupe nodes` shows who lives; stop the node with SIGTERM, which drains as well.',
      );
  }
}

const holding = ({ shards }: NodeRow) => Object.values(shards).reduce((sum, count) => sum + count, 0);

function nodeNamed(nodes: readonly NodeRow[], name: string): NodeRow {
  const exact = nodes.filter(({ id, address }) => id === name || address === name);
  const found = exact.length > 0 ? exact : nodes.filter(({ id }) => name !== '' && id.startsWith(name));
  const [node] = found;
  if (node === undefined) throw new CliError(`There is no node ${name}: \`troupe nodes\` shows those there are.`);
  if (found.length > 1)
    throw new CliError(`${name} fits several nodes: ${found.map(({ id }) => id).join(', ')}. Give more of the id.`);
  return node;
}

/** Somebody must be left for all that it does. */
function refuseTheLast(nodes: readonly NodeRow[], node: NodeRow): void {
  const missing = rolesOnlyOf(node, nodes);
  if (missing.length === 0) return;
  throw new CliError(
    `Nobody else serves ${missing.join(', ')}: start another node first. With --force it is drained all the same, ` +
      'and what it held serves nobody.',
  );
}
