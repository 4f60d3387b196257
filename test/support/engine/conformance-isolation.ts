import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { it } from 'node:test';
import { until } from '../until.ts';
import type { Suite } from './conformance-suite.ts';

/** What an engine that has a network promises about it: containers reach the world, and neither each other nor the machine. */
export function isolationConformance(suite: () => Suite): void {
  const connects = (from: string, host: string, port: number): Promise<boolean> => {
    const { under } = suite();
    assert.ok(under.connects, 'this engine under test cannot be tried from inside');
    return under.connects(from, host, port);
  };

  it('keeps containers from one another', async () => {
    const { engine } = suite();
    const [a, b] = [await suite().started(), await suite().started({ userId: 'u2' })];
    const own = (await engine.inspect(a))?.address ?? '';
    const other = (await engine.inspect(b))?.address ?? '';
    // An attempt waits for a second only, which is little on a busy machine: what must come about is tried again.
    await until(() => connects(a, own, 22), { what: 'a container reaches itself by its address' });
    await until(() => connects(a, '127.0.0.1', 22), { what: 'a container reaches itself by loopback' });
    await until(() => connects(b, other, 22), { what: 'the other one reaches itself' });
    assert.equal(await connects(a, other, 22), false);
    assert.equal(await connects(b, own, 22), false);
    await engine.remove(a);
    await engine.remove(b);
  });

  it('keeps containers from the machine and from link-local addresses', async () => {
    const { engine } = suite();
    const server = createServer((socket) => socket.end('reached\n'));
    server.listen(0, '0.0.0.0');
    await once(server, 'listening');
    try {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      const id = await suite().started();
      const own = (await engine.inspect(id))?.address ?? '';
      // The machine's own end of the container's network comes first in it.
      const gateway = own.replace(/\d+$/, (last) => String(Number(last) - 1));
      const machine = Object.values(networkInterfaces())
        .flatMap((all) => all ?? [])
        .filter(({ family, internal }) => family === 'IPv4' && !internal)
        .map((one) => one.address);
      for (const host of new Set([gateway, ...machine])) assert.equal(await connects(id, host, port), false, host);
      assert.equal(await connects(id, '169.254.169.254', 80), false);
      await engine.remove(id);
    } finally {
      server.close();
    }
  });
}
