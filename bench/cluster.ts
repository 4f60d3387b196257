/**
 * What do several processes give, and what does it cost to ask an entity at another one, beside bare NATS?
 *
 * `npm run bench -- cluster [ROUNDS] [SECONDS] [PART] [SOCKETS] [NOTIFICATIONS]` (PART: asks, requests, push or moves; all without or with -): (1) remote asks through placement beside bare NATS request/reply between the same two
 * kinds of processes on one nats-server, in turns; fails when p50 or p99 is above 1.3 times bare. (2) requests a second of 1, 2 and 4
 * processes of `troupe auth` (root; wrk), whose load, broker and database share the machine with them. (3) pushed messages a second, counted at
 * SOCKETS (1,000) sockets, five to a user, of 1, 2 and 4 processes of `troupe notify`, NOTIFICATIONS (4,000) a round. (4) which part of the entities a node
 * moves that joins or leaves; fails above 1.1 / N.
 */
import { cpus, loadavg } from 'node:os';
import { z } from 'zod';
import { startNats } from '../test/support/bus/nats-server.ts';
import { percentile } from '../test/support/cluster/history.ts';
import { startTestServer, testDatabase } from '../test/support/database/database.ts';
import { simulateMoves } from '../test/support/placement/simulation.ts';
import { measureAsks, serveAsks, type Way } from './cluster/asks.ts';
import { measurePushed, pushClients, SOCKETS_EACH } from './cluster/push.ts';
import { measureRequests } from './cluster/requests.ts';

const GOAL = 1.3;
const groundSchema = z.object({
  nats: z.string(),
  database: z.object({ socketDir: z.string(), port: z.number(), user: z.string(), database: z.string() }),
});
const out = (line: string) => process.stdout.write(`${line}\n`);
const median = (values: readonly number[]) => percentile(values, 0.5);

interface Options {
  readonly rounds: number;
  readonly seconds: number;
  readonly part: string;
  readonly sockets: number;
  readonly notifications: number;
}

const [first = '', second = '', part = '-', fourth, fifth] = process.argv.slice(2);
if (first === 'serve') await serveAsks(groundSchema.parse(JSON.parse(second)));
else if (first === 'clients') await pushClients(second);
else {
  const [rounds, seconds] = [Number(first) || 5, Number(second) || 5];
  await main({ rounds, seconds, part, sockets: Number(fourth) || 1000, notifications: Number(fifth) || 4000 });
}

async function main({ rounds, seconds, part, sockets, notifications }: Options): Promise<void> {
  const isWanted = (name: string) => part === '-' || part === name;
  out(
    `${cpus().length} processors (${cpus()[0]?.model ?? 'unknown'}), load ${(loadavg()[0] ?? 0).toFixed(1)}, ${rounds} rounds`,
  );
  const ends: (() => Promise<void> | void)[] = [];
  const t = { after: (end: () => Promise<void> | void) => void ends.push(end) };
  try {
    if (isWanted('asks')) await asks(t, rounds);
    if (isWanted('requests')) await requests(t, seconds, rounds);
    if (isWanted('push')) await push(t, { sockets, notifications, rounds: Math.min(rounds, 5) });
  } finally {
    for (let end = ends.pop(); end !== undefined; end = ends.pop()) await end();
  }
  if (!isWanted('moves')) return;
  out('\nplacement of 1,000 nodes and 1 million entities');
  if (!simulateMoves({ nodes: 1000, entities: 1_000_000, clusters: 10, joins: 500, out })) process.exitCode = 1;
}

async function asks(t: Parameters<typeof startNats>[0], rounds: number): Promise<void> {
  await startDatabases(t);
  const database = await testDatabase();
  t.after(() => database.close());
  const nats = await startNats(t);
  const { ours, bare } = await measureAsks({ nats: nats.server, database: database.connection }, rounds);
  out('\nasks between two processes       p50 ms   p99 ms   64 at once   processor, both ends');
  for (const way of [ours, bare]) {
    out(
      `  ${way.name.padEnd(28)} ${at(way, 0.5).toFixed(3).padStart(8)} ${at(way, 0.99).toFixed(3).padStart(8)} ` +
        `${median(way.rates).toFixed(0).padStart(10)}/s ${median(way.cpuUs).toFixed(0).padStart(10)} µs`,
    );
  }
  for (const part of [0.5, 0.99]) {
    const ratio = at(ours, part) / at(bare, part);
    const isMissed = ratio > GOAL;
    if (isMissed) process.exitCode = 1;
    out(`  p${part * 100}: ${ratio.toFixed(2)} times bare (goal ${GOAL}${isMissed ? ', MISSED' : ''})`);
  }
}

function at({ latencies }: Way, part: number): number {
  return percentile(latencies, part);
}

async function requests(t: Parameters<typeof startNats>[0], seconds: number, rounds: number): Promise<void> {
  const rates = await measureRequests(t, [1, 2, 4], seconds, Math.min(rounds, 3));
  out('\nrequests, GET /api/session');
  out(
    '  processes  asked of       requests/s   of one   of the services   a processor second of them   nats-server and PostgreSQL',
  );
  const one = median(rates[0]?.perSecond ?? []);
  for (const { processes, isAtOwner, perSecond, serviceUs, besideUs } of rates) {
    const [rate, us] = [median(perSecond), median(serviceUs)];
    out(
      `  ${String(processes).padEnd(10)} ${(isAtOwner ? 'the owner' : 'all in turn').padEnd(11)} ${rate.toFixed(0).padStart(12)} ${(rate / one).toFixed(2).padStart(8)} ` +
        `${`${us.toFixed(0)} µs`.padStart(17)} ${(1e6 / us).toFixed(0).padStart(28)} ${`${median(besideUs).toFixed(0)} µs`.padStart(28)}`,
    );
  }
}

/** A server for `testDatabase`, one for all parts; gives the folder of its socket. */
async function startDatabases(t: Parameters<typeof startNats>[0]): Promise<string> {
  if (process.env.TROUPE_TEST_PG !== undefined) return process.env.TROUPE_TEST_PG;
  const server = await startTestServer();
  t.after(() => server.stop());
  process.env.TROUPE_TEST_PG = server.socketDir;
  return server.socketDir;
}

async function push(
  t: Parameters<typeof startNats>[0],
  options: Pick<Options, 'sockets' | 'notifications' | 'rounds'>,
): Promise<void> {
  const socketDir = await startDatabases(t);
  const all = await measurePushed(t, { ...options, sizes: [1, 2, 4], socketDir });
  out(
    `\npushed messages: ${options.sockets} sockets, ${SOCKETS_EACH} a user, ${options.notifications} notifications a round`,
  );
  out('  processes  sockets of a user   messages/s   of one   of the services   nats-server and PostgreSQL');
  const one = median(all[0]?.perSecond ?? []);
  for (const { processes, isSpread, perSecond, serviceUs, besideUs } of all) {
    const rate = median(perSecond);
    out(
      `  ${String(processes).padEnd(10)} ${(isSpread ? 'at all' : 'at one process').padEnd(17)} ${rate.toFixed(0).padStart(12)} ` +
        `${(rate / one).toFixed(2).padStart(8)} ${`${median(serviceUs).toFixed(1)} µs`.padStart(17)} ${`${median(besideUs).toFixed(1)} µs`.padStart(28)}`,
    );
  }
}
