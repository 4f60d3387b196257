/** A whole platform of processes: several of each service behind an address of its own, several gateways, somebody with containers. */
import { setTimeout as pause } from 'node:timers/promises';
import { installServiceRoutes } from '../../../cmd/gateway.ts';
import { authEndpoints } from '../../../proto/auth.ts';
import { computeEndpoints } from '../../../proto/compute.ts';
import type { AnyEndpoint } from '../../../proto/endpoint.ts';
import { monitorEndpoints } from '../../../proto/monitor.ts';
import { notifyEndpoints } from '../../../proto/notify.ts';
import { type Front, startFront } from '../../kit/cluster/front.ts';
import {
  type Ground,
  layGround,
  type Person,
  type ServiceName,
  type ServiceProcess,
} from '../../kit/cluster/services.ts';
import { type Box, startBox } from '../../kit/containers.ts';
import { deleteAll } from '../../kit/platform.ts';
import { type Cleanup, tempDir } from '../../kit/temp.ts';
import { type TestSocket, websocket } from '../../kit/websocket.ts';
import { openBalancer } from '../../network/kit/balancer.ts';

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
  /** Opens a WebSocket through one of the gateways. Rejects when that one does not take it. */
  connect(path: string): Promise<TestSocket>;
}

export interface WholeOptions {
  /** Processes of each service. */
  readonly each: number;
  readonly people: number;
}

/** Starts it; it ends with `t`. */
export async function startWhole(t: Cleanup, { each, people }: WholeOptions): Promise<WholePlatform> {
  const ground = await layGround(t, { LEAVE_DELAY: '2s' });
  const { db, domain } = ground;
  const processes: ServiceProcess[] = [];
  const several = async (name: ServiceName) => {
    const started = await Promise.all(Array.from({ length: each }, () => ground.start(name)));
    processes.push(...started);
    return started;
  };
  const routed = [];
  for (const { name, endpoints } of BEHIND) {
    const balancer = await openBalancer(ground);
    const all = await several(name);
    keepReady(ground, all, (ready) => {
      balancer.targets = ready.map(({ port }) => port);
    });
    routed.push({ name, endpoints, target: `127.0.0.1:${balancer.port}` });
  }
  await installServiceRoutes(db, domain, routed);
  const gateways = await several('gateway');
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
  const boxes = [await startBox(compute, token, folder), await startBox(compute, token, folder)] as const;
  let turn = 0;
  return {
    ...{ ground, processes, boxes, people: persons },
    front: startFront(ground, () => ready.map(({ https }) => https), domain),
    connect: (path) => {
      const { url = '' } = ready[turn++ % ready.length]?.https ?? {};
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
      await pause(ASK_EVERY_MS);
    }
  })();
  ground.after(async () => {
    isOver = true;
    await asking;
  });
}
