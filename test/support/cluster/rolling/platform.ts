/** A whole platform of processes: several of each service behind an address of its own, several gateways, somebody with containers. */
import { authEndpoints } from '../../../../proto/auth/endpoints.ts';
import { computeEndpoints } from '../../../../proto/compute/endpoints.ts';
import type { AnyEndpoint } from '../../../../proto/endpoint.ts';
import { monitorEndpoints } from '../../../../proto/monitor/endpoints.ts';
import { notifyEndpoints } from '../../../../proto/notify/endpoints.ts';
import { serviceRoutes } from '../../../../proto/service-paths.ts';
import { replaceManagedRoutes } from '../../../../storage/gateway/routes.ts';
import { type Box, startBox } from '../../clients/container.ts';
import { type TestSocket, websocket } from '../../clients/websocket.ts';
import { perlImage } from '../../engine/docker-client.ts';
import { openBalancer } from '../../network/balancer.ts';
import { pause } from '../../pause.ts';
import { type Cleanup, tempDir } from '../../temp.ts';
import { type Front, startFront } from '../balancing-client.ts';
import { deleteAll } from '../platform.ts';
import { type Ground, layGround, type Person, type ServiceName, type ServiceProcess } from '../services.ts';

/** Services behind the gateways. */
const BEHIND: readonly {
  readonly name: Exclude<ServiceName, 'gateway'>;
  readonly endpoints: readonly AnyEndpoint[];
}[] = [
  { name: 'auth', endpoints: authEndpoints },
  { name: 'compute', endpoints: computeEndpoints },
  { name: 'monitor', endpoints: monitorEndpoints },
  { name: 'notify', endpoints: notifyEndpoints },
];

export interface WholePlatform {
  readonly ground: Ground;
  /** All, each service's one after the other. */
  readonly processes: readonly ServiceProcess[];
  /** Requests through the gateways in turn. */
  readonly front: Front;
  readonly people: readonly Person[];
  /** Of the first of the people: one that goes on, one for starts and stops. */
  readonly boxes: readonly [Box, Box];
  readonly gateways: readonly ServiceProcess[];
  /** Opens a WebSocket through `gateway`, else through the gateways that are ready in turn. Rejects when that one does not take it. */
  connect(path: string, gateway?: ServiceProcess): Promise<TestSocket>;
}

export interface WholeOptions {
  /** Processes of each service. */
  readonly each: number;
  readonly people: number;
}

/** Starts it; it ends with `t`. */
export async function startWhole(t: Cleanup, { each, people }: WholeOptions): Promise<WholePlatform> {
  // Perl keeps the shells of terminals.
  const ground = await layGround(t, { LEAVE_DELAY: '2s', DEFAULT_IMAGE: await perlImage() });
  const { db, domain } = ground;
  const several = (name: ServiceName) => Promise.all(Array.from({ length: each }, () => ground.start(name)));
  const balancers = await Promise.all(
    BEHIND.map(async (service) => ({ ...service, balancer: await openBalancer(ground) })),
  );
  await replaceManagedRoutes(
    db,
    serviceRoutes(
      domain,
      balancers.map(({ name, endpoints, balancer }) => ({ name, endpoints, target: `127.0.0.1:${balancer.port}` })),
    ),
  );
  const [gateways, ...services] = await Promise.all([
    several('gateway'),
    ...balancers.map(async ({ name, balancer }) => {
      const all = await several(name);
      keepReady(ground, all, (ready) => {
        balancer.targets = ready.map(({ port }) => port);
      });
      return all;
    }),
  ]);
  const processes = [...services.flat(), ...gateways];
  let ready: readonly ServiceProcess[] = gateways;
  keepReady(ground, gateways, (those) => {
    ready = those;
  });
  await ground.settled();
  const persons = await Promise.all(Array.from({ length: people }, (_, n) => ground.person(`user-${n}`)));
  const { token = '' } = persons[0] ?? {};
  const compute = processes.find(({ name }) => name === 'compute')?.url ?? '';
  const folder = await tempDir(ground);
  ground.after(async () => {
    const alive = processes.find(({ name, isRunning }) => name === 'compute' && isRunning);
    if (alive !== undefined) await deleteAll(alive.url, token);
  });
  const boxes = await Promise.all([startBox(compute, token, folder), startBox(compute, token, folder)]);
  let turn = 0;
  return {
    ...{ ground, processes, gateways, boxes, people: persons },
    front: startFront(ground, () => ready.map(({ https }) => https), domain),
    connect: (path, gateway) => {
      const { url = '' } = (gateway ?? ready[turn++ % ready.length])?.https ?? {};
      const options = { headers: { host: domain }, servername: domain, rejectUnauthorized: false };
      return websocket(ground, `${url.replace('http', 'ws')}${path}`, options);
    },
  };
}

const ASK_EVERY_MS = 100;

/** Asks all of them all the time who is ready, as balancers do. When nobody says so, all stay. */
function keepReady(
  ground: Ground,
  all: readonly ServiceProcess[],
  take: (ready: readonly ServiceProcess[]) => void,
): void {
  take(all);
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      const said = await Promise.all(all.map((one) => one.isReady()));
      const ready = all.filter((_, n) => said[n]);
      if (ready.length > 0) take(ready);
      await pause(ASK_EVERY_MS, 'pace');
    }
  })();
  ground.after(async () => {
    isOver = true;
    await asking;
  });
}
