/**
 * What do a thousand nodes cost their database and their broker a second, by what they do?
 *
 * `npm run soak -- thousand-nodes [NODES] [USERS] [CONTAINERS] [SHARDS]` (1,000, 10,000,000, 1,000,000, 16,384): the real statements on a
 * PostgreSQL of its own, not durable, with so many rows. One of each kind is measured over one connection: processor time of its backend and
 * of this process, bytes of the write-ahead log and of the answer. The table multiplies by how often the nodes do it. Short form:
 * `test/placement/thousand-nodes.test.ts`. The whole takes some 12 GB of /tmp and half an hour; it removes both. Then so many nodes are
 * connected to a nats-server: processor time of it and of this process, for a message of each kind.
 */
import { simulateBroker } from '../support/placement/broker-costs.ts';
import { onOwnServer, simulateNodes } from '../support/placement/thousand-nodes.ts';

const [nodes = 1000, users = 10_000_000, containers = 1_000_000, shards = 16_384] = process.argv.slice(2).map(Number);
const { lines } = await onOwnServer(() => simulateNodes({ nodes, users, containers, shards, times: 200 }));
process.stdout.write(`${lines.join('\n')}\n\n`);
const ends: (() => unknown)[] = [];
const broker = await simulateBroker({ after: (end) => void ends.unshift(end) }, { nodes, users, times: 200 });
process.stdout.write(`${broker.lines.join('\n')}\n`);
for (const end of ends) await end();
