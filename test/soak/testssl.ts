/**
 * What does testssl.sh find at the gateway's HTTPS port? `npm run soak -- testssl`: two to five minutes; every finding of medium or worse is printed,
 * and fails the run unless it is one that docs/engineering/trials.md gives a reason for.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { openListeners } from '../support/gateway/listeners.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';

/** A run that takes longer than this is ended, ms. */
const MOST_MS = 600_000;
/** Findings with a reason (docs/engineering/trials.md, Gateway): nobody revokes what a local authority issued, and the origin here sends no such fields. */
const EXPLAINED = new Set(['cert_revocation', 'security_headers']);

const ends: (() => Promise<void> | void)[] = [];
const cleanup = { after: (end: () => Promise<void> | void) => void ends.unshift(end) };
const folder = await mkdtemp(join(tmpdir(), 'troupe-testssl-'));
try {
  const origin = await httpOrigin(cleanup, (_incoming, response) => response.end('ok'));
  const { ports, authority } = await openListeners(cleanup, origin);
  await writeFile(join(folder, 'ca.pem'), authority.cert);
  const json = join(folder, 'findings.json');
  const child = spawn(
    'testssl',
    [
      '--quiet',
      '--warnings',
      'off',
      '--nodns',
      'min',
      '--ip',
      '127.0.0.1',
      '--add-ca',
      join(folder, 'ca.pem'),
      '--jsonfile',
      json,
      `auth.cloud.test:${ports.https}`,
    ],
    { stdio: ['ignore', 'inherit', 'inherit'], detached: true },
  );
  // It runs many programs of its own: the whole group is ended.
  const timer = setTimeout(() => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'), MOST_MS);
  await once(child, 'exit');
  clearTimeout(timer);
  const findings = z
    .array(z.object({ id: z.string(), severity: z.string(), finding: z.string() }))
    .parse(JSON.parse(await readFile(json, 'utf8')));
  const bad = findings.filter(({ severity }) => ['MEDIUM', 'HIGH', 'CRITICAL', 'FATAL'].includes(severity));
  const unexplained = bad.filter(({ id }) => !EXPLAINED.has(id));
  process.stdout.write(
    `${JSON.stringify({ findings: findings.length, bad, unexplained: unexplained.length }, null, 2)}\n`,
  );
  if (findings.length < 50 || unexplained.length > 0) process.exitCode = 1;
} finally {
  for (const end of ends) await end();
  await rm(folder, { recursive: true, force: true });
}
