/**
 * Can bad neighbours take the platform away from others? `npm run soak -- neighbours [SECONDS] [PROGRAM]`: a tenant and a stranger with two addresses
 * each do their worst for SECONDS (300), and a third user's login, page and keys are measured before and meanwhile. It fails when a p99 doubles or
 * something of the third user's fails. PROGRAM: the compiled cmd/main.js of another version.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { neighbourhood } from '../gateway/neighbourhood.ts';
import { attackers, measure } from '../gateway/neighbours.ts';

const seconds = Number(process.argv[2] ?? 300);
const other = process.argv[3];
const ends: (() => Promise<unknown> | unknown)[] = [];
const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
const folder = await mkdtemp(join(tmpdir(), 'troupe-soak-'));
try {
  const { attack, third } = await neighbourhood(cleanup, folder, other === undefined ? undefined : [other]);
  await measure(third, 5); // Warm.
  const before = await measure(third, Math.min(60, Math.max(20, seconds / 3)));
  const bad = attackers(cleanup, attack);
  await delay(Math.min(20_000, seconds * 250));
  const during = await measure(third, seconds);
  const held = bad.held();
  await bad.end();
  const ratio = (kind: 'login' | 'page' | 'echo') => Number((during[kind].p99 / before[kind].p99).toFixed(2));
  const ratios = { login: ratio('login'), page: ratio('page'), echo: ratio('echo') };
  process.stdout.write(`${JSON.stringify({ seconds, before, during, ratios, held })}\n`);
  const failed = during.login.failed + during.page.failed + during.echo.failed;
  if (failed > 0 || Object.values(ratios).some((one) => one >= 2)) process.exitCode = 1;
} finally {
  for (const end of ends) await end();
  await rm(folder, { recursive: true, force: true });
}
