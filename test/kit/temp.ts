/** Folders and ports of a test's own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What has an `after` hook: a test's context, or the module node:test itself. */
export interface Cleanup {
  after(end: () => Promise<void> | void): void;
}

/** Makes an empty folder, which is removed with all in it when `t` ends. Returns its absolute path. */
export async function tempDir(t: Cleanup): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'troupe-test-'));
  t.after(() => rm(path, { recursive: true, force: true, maxRetries: 5 }));
  return path;
}

/**
 * A TCP port of 127.0.0.1 that was free just now, for programs that cannot take port 0. Another process may take it
 * first: let the caller notice when its program does not come up.
 */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
