/**
 * Does anybody notice when every process of a whole platform is restarted, one after the other?
 *
 * `npm run soak -- rolling [PROCESSES] [PEOPLE] [ROUNDS]` (nats-server; DOCKER_HOST names an engine): so many processes of each of auth, compute, gateway, monitor and notify, behind
 * balancers that know nothing but whether a connection is taken. People use all services through the gateways, hold sockets of
 * notifications, statuses and a log and terminals with a session id, and try again only what was reset on its way. Fails when a request failed, or a socket was not told of
 * something, or was told twice.
 */
import { cpus, loadavg } from 'node:os';
import { runRolling } from '../support/cluster/rolling/rolling.ts';
import { startTestServer } from '../support/database/database.ts';

const [each, people, rounds] = [process.argv[2], process.argv[3], process.argv[4]].map(Number);
const out = (line: string) => process.stdout.write(`${line}\n`);
const ends: (() => Promise<void> | void)[] = [];
const end = async () => {
  for (let one = ends.pop(); one !== undefined; one = ends.pop()) await one();
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void end().then(() => process.exit(1)));

out(`${cpus().length} processors, load ${(loadavg()[0] ?? 0).toFixed(1)}`);
const server = await startTestServer();
ends.push(() => server.stop());
process.env.TROUPE_TEST_PG = server.socketDir;
try {
  const count = each || 2;
  const report = await runRolling(
    { after: (one) => void ends.push(one) },
    { each: count, restarted: count, rounds: rounds || 1, people: people || 4, onRestart: out },
  );
  const { requests, problems } = report;
  out(
    `\n${report.restarts} restarts; ${requests.count} requests answered, ${requests.failures.length} failed; ${requests.refused} asked of another gateway because ` +
      `the first took no connection, ${requests.resets} sent again after a reset, ${requests.resetChanges} of them changes; ${report.notifications} notifications, ${report.lines} lines, ${report.statuses} statuses; ${report.terminals.numbers} numbers of terminals that came back ${report.terminals.returns} times`,
  );
  for (const [service, count] of requests.answered) out(`  ${service}: ${count}`);
  for (const [kind, counts] of Object.entries(report.ends)) out(`sockets of ${kind} ended: ${JSON.stringify(counts)}`);
  for (const problem of problems) out(`FAILED: ${problem}`);
  if (problems.length > 0) {
    process.exitCode = 1;
    if (process.env.SHOW_LOGS === 'on') for (const log of report.logs) out(log);
  }
} catch (error) {
  out(`FAILED: ${error instanceof Error ? error.stack : 'unknown'}`);
  process.exitCode = 1;
} finally {
  await end();
}
