import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseDockerHost } from '../../../transports/engines/docker/api/address.ts';

/** Stands between an engine and its Docker: passes bytes on, and can break all connections. */
export async function dockerProxy(target: string): Promise<{ host: string; cut(): void; close(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-proxy-'));
  const path = join(folder, 'd.sock');
  const to = parseDockerHost(target);
  if ('ssh' in to) throw new Error('only to an engine on this machine');
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = 'socketPath' in to ? connect({ path: to.socketPath, allowHalfOpen: true }) : connect(to);
    for (const [a, b] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(a);
      a.once('close', () => {
        open.delete(a);
        b.destroy();
      });
      a.on('error', () => undefined);
      a.pipe(b);
    }
  });
  server.listen(path);
  await once(server, 'listening');
  const cut = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    host: `unix://${path}`,
    cut,
    close: async () => {
      cut();
      await new Promise((resolve) => server.close(resolve));
      await rm(folder, { recursive: true, force: true });
    },
  };
}
