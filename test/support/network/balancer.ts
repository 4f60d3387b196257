/** What stands before several gateways, as the world reaches them: one port, each connection to the next of them that answers. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { Cleanup } from '../temp.ts';

export interface Balancer {
  readonly port: number;
  /** Ports of the gateways. */
  targets: readonly number[];
  /** Connections taken by each port. */
  readonly taken: Map<number, number>;
}

/** Opens it, on `port` if one is given. */
export async function openBalancer(t: Cleanup, wanted = 0): Promise<Balancer> {
  const open = new Set<Socket>();
  let turn = 0;
  const state: { port: number; targets: readonly number[]; readonly taken: Map<number, number> } = {
    ...{ port: 0, targets: [], taken: new Map() },
  };
  const lead = (client: Socket, left: number) => {
    const target = state.targets[turn++ % Math.max(1, state.targets.length)];
    if (target === undefined || left === 0) {
      client.destroy();
      return;
    }
    const gateway = connect({ port: target, host: '127.0.0.1' });
    open.add(gateway.on('close', () => open.delete(gateway)));
    const onRefused = () => lead(client, left - 1);
    gateway.once('error', onRefused);
    gateway.once('connect', () => {
      gateway.off('error', onRefused);
      state.taken.set(target, (state.taken.get(target) ?? 0) + 1);
      gateway.on('error', () => client.destroy());
      client.once('close', () => gateway.destroy());
      client.pipe(gateway).pipe(client);
    });
  };
  const server = createServer({ pauseOnConnect: false }, (client) => {
    open.add(client.on('error', () => {}).on('close', () => open.delete(client)));
    lead(client, state.targets.length);
  });
  server.listen(wanted, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, 'close').catch(() => {});
  });
  const address = server.address();
  state.port = typeof address === 'object' && address !== null ? address.port : 0;
  return state;
}
