/**
 * What many nodes cost their broker: each kind of message is measured once, and multiplied by how often the nodes send
 * it.
 */
import { cpus, loadavg } from 'node:os';
import type { Bus } from '../../../proto/ports/bus.ts';
import { TIMINGS } from '../../../supervision/placement/index.ts';
import { natsBus } from '../../../transports/bus/nats.ts';
import { BUS_SECRET, startNats } from '../bus/nats-server.ts';
import { silentLog } from '../log.ts';
import { processorMs } from '../processor.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';

/** What one message, with all that it brings about, costs. */
export interface BrokerCost {
  readonly what: string;
  readonly aSecond: number;
  /** Nodes that hear it. */
  readonly hearers: number;
  readonly brokerMs: number;
  /** Of all nodes that take part. */
  readonly nodesMs: number;
}

/** Channels of news that each process hears. */
const CHANNELS = ['tokens', 'routes', 'certificates', 'network', 'compute', 'outbox'];
/** News of the whole cluster in a second, for each user: every second user changes something once a day. */
const NEWS_A_USER = 0.5 / 86_400;
/** Asks to an entity elsewhere: of each node in a second. */
const ASKS_A_NODE = 10;
/** As long as such an ask is. */
const ASK_BYTES = 330;
const NEWS_BYTES = 100;
/** On their way at a time. */
const WINDOW = 64;
/** Not measured, before those that are. */
const FIRST = 50;
/** Nodes that tell news here: what a hearer does once for each, it has done in the first messages. */
const TELLERS = 10;

/** So many nodes on a server of their own, in this process. The lines are a table for people. */
export async function simulateBroker(
  t: Cleanup,
  { nodes, users, times }: { readonly nodes: number; readonly users: number; readonly times: number },
): Promise<{ readonly costs: readonly BrokerCost[]; readonly lines: string[] }> {
  const server = await startNats(t);
  let heard = 0;
  const buses: Bus[] = [];
  for (let n = 0; n < nodes; n++) {
    const bus = natsBus({
      ...{ secret: BUS_SECRET, address: { servers: [server.server] }, name: `node-${n}` },
      ...{ deadLetters: { add: async () => {} }, log: silentLog },
    });
    t.after(() => bus.close());
    await bus.connected(60_000);
    bus.subscribe(`node.n${n}.>`, ({ data, reply }) => {
      heard++;
      if (reply !== undefined) bus.publish(reply, data);
    });
    for (const channel of CHANNELS) bus.subscribe(`news.${channel}`, () => heard++);
    buses.push(bus);
  }
  const at = (n: number): Bus => {
    const bus = buses[n % nodes];
    if (bus === undefined) throw new RangeError('no nodes');
    return bus;
  };
  // Whoever hears itself is subscribed.
  for (let n = 0; n < nodes; n++) await at(n).request(`node.n${n}.echo`, new Uint8Array(), 60_000);
  const costs: BrokerCost[] = [];
  /** `hearers`: of one message. */
  const measure = async (
    { what, aSecond, count, hearers }: Pick<BrokerCost, 'what' | 'aSecond' | 'hearers'> & { readonly count: number },
    send: (n: number) => Promise<unknown>,
  ) => {
    const sendAll = async (many: number) => {
      heard = 0;
      let next = 0;
      const one = async () => {
        while (next < many) await send(next++);
      };
      await Promise.all(Array.from({ length: WINDOW }, one));
      await until(() => heard === many * hearers, { timeoutMs: 300_000, what: `all to hear ${what}` });
    };
    await sendAll(FIRST);
    const [before, used] = [processorMs(server.pid ?? 0), process.cpuUsage()];
    await sendAll(count);
    const brokerMs = (processorMs(server.pid ?? 0) - before) / count;
    const { user, system } = process.cpuUsage(used);
    costs.push({ what, aSecond, hearers, brokerMs, nodesMs: (user + system) / 1000 / count });
  };
  const ask = (from: number, to: number, bytes: number) =>
    at(from).request(`node.n${to % nodes}.ask`, new Uint8Array(bytes), 60_000);
  const many = { count: times * 100, hearers: 1 };
  await measure({ what: 'echo of a heartbeat', aSecond: (nodes * 1000) / TIMINGS.beatMs, ...many }, (n) =>
    ask(n, n, 0),
  );
  await measure({ what: 'ask to an entity elsewhere', aSecond: nodes * ASKS_A_NODE, ...many }, (n) =>
    ask(n, n + 1, ASK_BYTES),
  );
  await measure({ what: 'item of news', aSecond: users * NEWS_A_USER, count: times, hearers: nodes }, async (n) =>
    at(n % TELLERS).publish('news.compute', new Uint8Array(NEWS_BYTES)),
  );
  return { costs, lines: table(nodes, costs) };
}

function table(nodes: number, costs: readonly BrokerCost[]): string[] {
  const lines = [
    `${nodes} nodes; ${cpus().length} processors, load ${(loadavg()[0] ?? 0).toFixed(1)}`,
    '',
    '| what | a second | hearers | broker, each | all nodes, each | processors of the broker | of a node |',
    '|---|---|---|---|---|---|---|',
  ];
  for (const { what, aSecond, hearers, brokerMs, nodesMs } of costs) {
    const cells = [
      ...[what, aSecond.toFixed(0), String(hearers), `${(brokerMs * 1000).toFixed(1)} µs`],
      ...[`${(nodesMs * 1000).toFixed(1)} µs`, ((aSecond * brokerMs) / 1000).toFixed(3)],
      ((aSecond * nodesMs) / 1000 / nodes).toFixed(5),
    ];
    lines.push(`| ${cells.join(' | ')} |`);
  }
  return lines;
}
