/** Kept connections of the gateway are supervised: one actor for those of a client, which ends them when it ends. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { test } from 'node:test';
import { SupervisedClients } from '../../actors/gateway/client-connections.ts';
import { connectionSupervisor } from '../../actors/service/supervisor.ts';
import { start, stop, tree } from '../../supervision/index.ts';
import { HttpProxy } from '../../transports/gateway/h1/server.ts';
import { Upstreams } from '../../transports/gateway/h1/upstreams.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

test('connections of one client share an actor, which ends with the last of them, or ends them', async (t) => {
  const system = start({ name: 'test', log: silentLog });
  t.after(() => stop(system));
  const parent = connectionSupervisor(system, 'gateway', 'connections');
  const upstreams = new Upstreams();
  const proxy = new HttpProxy({
    decider: { decide: () => ({ reply: { status: 200, body: 'ok' } }) },
    clients: new SupervisedClients(() => parent),
    upstreams,
    onSwitch: () => {},
  });
  const addresses = ['192.0.2.1', '192.0.2.1', '192.0.2.2'];
  let served = 0;
  // allowHalfOpen and paused, as the gateway's own listeners are.
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    proxy.serve(socket, 80, addresses[served] ?? '192.0.2.3');
    served += 1;
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    await proxy.close(0);
    upstreams.close();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const clients = await Promise.all(
    addresses.map(async () => {
      const socket = connect(port, '127.0.0.1');
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
      await once(socket, 'data');
      return { socket, ended: once(socket, 'end') };
    }),
  );
  const kinds = () => tree(system).children.flatMap(({ children }) => children.map(({ kind }) => kind));
  assert.deepEqual(kinds(), ['gateway/client', 'gateway/client']);
  clients[0]?.socket.end();
  clients[1]?.socket.end();
  clients[2]?.socket.end();
  await until(() => kinds().length === 0 && proxy.size === 0, { what: 'the actors end with the connections' });

  const late = connect(port, '127.0.0.1');
  late.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(late, 'data');
  assert.deepEqual(kinds(), ['gateway/client']);
  const ended = once(late, 'end');
  stop(parent);
  await ended;
  await until(() => proxy.size === 0, { what: 'the connection is over' });
});
