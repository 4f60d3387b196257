/**
 * Do slow clients slow others down? `npm run soak -- slow [CONNECTIONS] [SECONDS]`: 2,000 slow heads, then bodies, then readers of slowhttptest, two
 * minutes each. Other clients' p99 is measured before and meanwhile in the same run; it fails when it doubles, when nine in ten were never there at once, when a request of
 * theirs fails, or when memory grows by more than 200 KiB for each slow client.
 */
import { execFileSync } from 'node:child_process';
import { type SlowKind, slowClients } from '../support/gateway/slow-clients.ts';

const [connections = 2000, seconds = 120] = process.argv.slice(2).map(Number);
const files = execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim();
process.stdout.write(`${connections} slow clients for ${seconds} s; ${files} open files allowed\n`);
if (files !== 'unlimited' && Number(files) < 3 * connections) {
  process.stdout.write(`Too few: raise it with ulimit -n ${3 * connections}.\n`);
  process.exit(1);
}
for (const kind of ['H', 'B', 'X'] satisfies SlowKind[]) {
  const ends: (() => Promise<void> | void)[] = [];
  try {
    const report = await slowClients({ after: (end) => void ends.unshift(end) }, kind, {
      connections,
      seconds,
      beforeSeconds: Math.min(20, seconds / 2),
    });
    const ratio = report.during.p99 / report.before.p99;
    process.stdout.write(`${JSON.stringify({ ...report, ratio: Number(ratio.toFixed(2)) })}\n`);
    const grown = report.memoryMb.most - report.memoryMb.before;
    if (report.slow < connections * 0.9 || ratio >= 2 || report.during.failed > 0 || grown > connections * 0.2)
      process.exitCode = 1;
  } finally {
    for (const end of ends) await end();
  }
}
