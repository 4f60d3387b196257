/** Changes of routes and containers drop no session and fail no request; `npm run soak -- routes` makes a thousand under 500 sessions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routeChanges } from '../support/gateway/route-changes.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipWithoutSshd } from '../support/ssh/sshd.ts';

failOnLeaks();

const options = { skip: skipWithoutSshd, timeout: 900_000 };

test('a hundred changes drop none of fifty sessions, by SSH and upgraded, and fail no request', options, async (t) => {
  const report = await routeChanges(t, { sessions: 35, sshSessions: 15, changes: 100 });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual([report.dropped, report.load.failed], [0, 0]);
  assert.ok(report.load.requests > 50 && report.pictures > 10, JSON.stringify(report));
});
