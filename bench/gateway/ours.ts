/** The gateway as it is put together for a platform, without database and engine: its routes are given. Told `gc` on stdin, it collects. */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { SupervisedClients } from '../../actors/gateway/client-connections.ts';
import { Routing } from '../../actors/gateway/routing.ts';
import { connectionSupervisor } from '../../actors/service/supervisor.ts';
import { RouteTable } from '../../proto/gateway/routes.ts';
import type { Log } from '../../proto/ports/log.ts';
import { start } from '../../supervision/index.ts';
import { ResponseCache } from '../../transports/gateway/cache/response-cache.ts';
import { GatewayListeners } from '../../transports/gateway/listeners.ts';
import { certificateContext } from '../../transports/gateway/tls/front.ts';
import { CONTAINERS, DOMAIN, type Origins, TLS_HOST } from './peers.ts';

const nothing = () => {};
const log: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => log };

/** Serves until stdin ends. Says its ports first. `isPiped`: the origin is asked for several things at a time on one connection. */
export async function serveOurs(folder: string, origins: Origins, isPiped: boolean): Promise<void> {
  const certificate = certificateContext({
    cert: readFileSync(`${folder}/cert.pem`, 'utf8'),
    key: readFileSync(`${folder}/key.pem`, 'utf8'),
  });
  const connections = connectionSupervisor(start({ name: 'bench', log }), 'gateway', 'connections');
  let routing: Routing | undefined;
  const cache = new ResponseCache();
  const listeners = await GatewayListeners.open({
    host: '127.0.0.1',
    ports: { http: 0, https: 0, ssh: 0 },
    // Nobody speaks SSH here.
    ssh: { serve: (socket) => void socket.destroy(), close: async () => {} },
    log,
    decider: {
      decide: (request) => routing?.decide(request) ?? { reply: { status: 503 } },
      decideName: (name, port) => routing?.decideName(name, port) ?? 'refuse',
      adopt: () => nothing,
      clients: new SupervisedClients(() => connections),
    },
    certificates: { platform: { context: certificate } },
    cache,
    onAccess: nothing,
    // All clients of the benchmark have one address.
    limits: { perAddress: 20_000 },
    pipelined: isPiped ? [{ host: '127.0.0.1', port: origins.http }] : [],
  });
  routing = new Routing({
    domain: DOMAIN,
    containersDomain: `compute.${DOMAIN}`,
    ports: listeners.ports,
    fallback: undefined,
    gatewayToken: () => '',
  });
  const at = (port: number) => ({
    address: '127.0.0.1',
    ports: new Map([
      [80, port],
      [443, port],
    ]),
  });
  routing.swap({
    routes: new RouteTable([
      { host: TLS_HOST, path_prefix: '/', target: `127.0.0.1:${origins.http}`, strip_prefix: false, priority: 0 },
    ]),
    containers: new Map([
      [CONTAINERS.http, at(origins.http)],
      [CONTAINERS.flow, at(origins.flow)],
      [CONTAINERS.once, at(origins.http)],
    ]),
  });
  process.stdout.write(`${JSON.stringify(listeners.ports)}\n`);
  for await (const line of createInterface({ input: process.stdin })) {
    if (line !== 'gc') continue;
    globalThis.gc?.();
    globalThis.gc?.();
    process.stdout.write('{}\n');
  }
  await listeners.close(0);
  cache.close();
}
