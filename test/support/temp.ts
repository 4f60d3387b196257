/** Folders and ports of a test's own, and the end of what it began. */
import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What has an `after` hook: a test's context, or the module node:test itself. */
export interface Cleanup {
  after(end: () => Promise<void> | void): void;
}

/** Runs a trial and ends what it began, the last first. */
export async function tidily<T>(trial: (t: Cleanup) => Promise<T>): Promise<T> {
  const ends: (() => Promise<void> | void)[] = [];
  try {
    return await trial({ after: (end) => void ends.unshift(end) });
  } finally {
    for (const end of ends) await end();
  }
}

/** Makes an empty folder, which is removed with all in it when `t` ends. Returns its absolute path. */
export async function tempDir(t: Cleanup): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'troupe-test-'));
  t.after(() => rm(path, { recursive: true, force: true, maxRetries: 5 }));
  return path;
}

/** Ports given away by this process: none is given twice. */
const given = new Set<number>();

/**
 * A TCP port of 127.0.0.1 that was free just now, for programs that cannot take port 0. It is below those the system gives to
 * connections, which would take it first; another process may do so: let the caller notice when its program does not come up.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
