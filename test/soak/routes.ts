/**
 * Does any change of routes or containers cost a connection? `npm run soak -- routes [CHANGES] [SESSIONS]`: 1,000 changes while 500 sessions
 * are open, half of them upgraded and half by SSH, and HTTP load runs; fails when one session is dropped or one request fails.
 */
import { routeChanges } from '../support/gateway/route-changes.ts';

const [changes = 1000, sessions = 500] = process.argv.slice(2).map(Number);
const ends: (() => Promise<void> | void)[] = [];
try {
  const report = await routeChanges(
    { after: (end) => void ends.unshift(end) },
    { changes, sessions: Math.ceil(sessions / 2), sshSessions: Math.floor(sessions / 2) },
  );
  process.stdout.write(`${JSON.stringify(report)}\n`);
  if (report.dropped > 0 || report.load.failed > 0) process.exitCode = 1;
} finally {
  for (const end of ends) await end();
}
