/** One service on a node in the test's process, opened as the platform opens it. */
import { createSecretKey } from 'node:crypto';
import type { AuthDeps } from '../../../actors/auth/deps.ts';
import type { ComputeDeps } from '../../../actors/compute/deps.ts';
import type { MonitorDeps } from '../../../actors/monitor/deps.ts';
import type { MonitorService } from '../../../actors/monitor/service.ts';
import type { NotifyDeps } from '../../../actors/notify/deps.ts';
import { servicePages } from '../../../cmd/observability/pages.ts';
import type { AnyEndpoint, Caller, Endpoint, ReplyOf, Service } from '../../../proto/endpoint.ts';
import type { HttpServer, HttpServerOptions } from '../../../proto/ports/http.ts';
import { api } from '../../../transports/api/api.ts';
import { type ChangeLimit, NO_CHANGE_LIMIT } from '../../../transports/api/change-limit.ts';
import { type AdapterChoice, listen } from '../../../transports/http/index.ts';
import type { Cleanup } from '../temp.ts';
import { call, callFrom, type Input } from './calls.ts';
import { FakeSocket } from './fake-socket.ts';
import { type NodeOptions, startNode, type TestNode } from './node.ts';

/** Under which services of tests seal. */
export const SEAL_KEY = createSecretKey(Buffer.alloc(32, 7));

/** What a test may put in the place of a service's usual parts. */
interface Overrides {
  readonly auth: Partial<AuthDeps>;
  readonly compute: Partial<ComputeDeps> & Pick<ComputeDeps, 'engine'>;
  readonly monitor: Partial<MonitorDeps>;
  readonly notify: Partial<NotifyDeps>;
}

type Name = keyof Overrides;

/** A node with one service. */
export interface OpenService<S extends Service = Service> extends TestNode {
  readonly service: S;
  /** Calls an endpoint as a transport does. */
  call<E extends Endpoint>(endpoint: E, caller: Caller | undefined, input?: Input): Promise<ReplyOf<E>>;
  /** Opens a WebSocket as a transport does. */
  connect(endpoint: AnyEndpoint, caller: Caller | undefined, input?: Input): Promise<FakeSocket>;
}

const PUBLIC_KEY = 'ssh-ed25519 PLATFORM platform';

/** The roles of cmd/node. Each loads its own: some take long. */
const OPENERS: {
  readonly [N in Name]: (node: TestNode, overrides: Overrides[N], isPlaced: boolean) => Promise<ServiceOf<N>>;
} = {
  auth: async (node, overrides) => {
    const { openAuth } = await import('../../../cmd/node/roles/auth.ts');
    return openAuth(node, node.placement, overrides);
  },
  compute: async (node, overrides) => {
    const { openCompute } = await import('../../../cmd/node/roles/compute.ts');
    const keys = { publicKey: PUBLIC_KEY, privateKey: '' };
    const besides = { engine: overrides.engine, keys, sealKey: SEAL_KEY, sshAddress: () => undefined, takenPorts: [] };
    return openCompute(node, node.placement, besides, overrides);
  },
  monitor: async (node, overrides) => {
    const { openMonitor } = await import('../../../cmd/node/roles/monitor.ts');
    const { system, db, bus, log, clock, environment, metrics, busProblem } = node;
    const monitor = await openMonitor(
      {
        system,
        db,
        bus,
        log,
        clock,
        containers: undefined,
        diskPaths: ['/'],
        adminUsername: environment.ADMIN_USERNAME,
        refreshMs: 100,
        registry: metrics.registry,
        processName: 'test',
        graph: {
          services: () => [],
          hasGateway: false,
          bus: { kind: 'embedded', problem: busProblem },
          engineKind: 'memory',
        },
      },
      overrides,
    );
    node.before('sources', () => monitor.close());
    return monitor.service;
  },
  notify: async (node, overrides, isPlaced) => {
    const { openNotify } = await import('../../../cmd/node/roles/notify.ts');
    return openNotify(node, isPlaced ? node.placement : undefined, undefined, overrides);
  },
};

type ServiceOf<N extends Name> = N extends 'monitor' ? MonitorService : Service;

/**
 * Opens a service on a node, which ends with `t`. One that holds entities has the node join; the notification service
 * and the monitor do without other nodes, unless `roles` says otherwise.
 */
export async function openService<N extends Name>(
  t: Cleanup,
  name: N,
  overrides: (node: TestNode) => Overrides[N],
  options: NodeOptions = {},
): Promise<OpenService<ServiceOf<N>>> {
  const roles = options.roles ?? (name === 'auth' || name === 'compute' ? [name] : []);
  const node = await startNode(t, { ...options, roles });
  const isPlaced = roles.length > 0;
  const service = await OPENERS[name](node, overrides(node), isPlaced);
  if (isPlaced) await node.join();
  return Object.assign(node, {
    service,
    call: <E extends Endpoint>(endpoint: E, caller: Caller | undefined, input?: Input) =>
      call(service, endpoint, caller, input),
    connect: async (endpoint: AnyEndpoint, caller: Caller | undefined, input?: Input) =>
      FakeSocket.open(await service.connect(endpoint, callFrom(endpoint, caller, input))),
  });
}

/** How a service listens. */
export interface ListenOptions extends Pick<HttpServerOptions, 'maxBufferedBytes' | 'pingMs'> {
  readonly adapter?: AdapterChoice;
  /** Without it, changes have no limit. */
  readonly changes?: ChangeLimit;
}

/** Lets a service listen on a port of 127.0.0.1 until its node ends. */
export async function serve(
  opened: OpenService,
  { adapter = 'auto', changes = NO_CHANGE_LIMIT, ...options }: ListenOptions,
): Promise<HttpServer> {
  const { service, authenticate, streams, kept, domain, log, metrics } = opened;
  const pages = servicePages(service, metrics.registry);
  const handlers = api({ service, authenticate, streams, kept, changes, pages, domain, log });
  const server = await listen({ host: '127.0.0.1', port: 0, ...options, ...handlers }, adapter);
  opened.before('listener', () => server.close(1000));
  return server;
}
