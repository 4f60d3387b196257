/** The cluster monitor: its endpoints, who answers them, and its supervision tree. */
import type { Service } from '../../proto/endpoint.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import { dispatch, type SystemRef } from '../../supervision/index.ts';
import { ActorPart, Connections } from '../service/parts.ts';
import { startService, streamHandler } from '../service/start-service.ts';
import { startAlerts } from './alerts.ts';
import { Broadcaster, subscriptions } from './broadcaster.ts';
import { EventsClient, MetricsConnection } from './clients.ts';
import { type CollectorParts, startCollector } from './collector.ts';
import type { MonitorDeps } from './deps.ts';
import { History } from './history.ts';
import { Publisher } from './publisher.ts';
import { Readings } from './readings.ts';
import { Shares } from './shares.ts';
import { Snapshots } from './snapshots.ts';

/** The service, and what its listener does before it closes. */
export interface MonitorService extends Required<Service> {
  /** Ends all streams and takes no more: a listener waits for its streams. */
  drain(): void;
  /** Snapshots encoded so far. */
  encodings(): number;
}

/** Refreshes that a source may miss before /healthz speaks of it. */
const PATIENCE = 2;

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export async function startMonitor(system: SystemRef, deps: MonitorDeps): Promise<MonitorService> {
  const { clock, refreshMs } = deps;
  const broadcaster = new Broadcaster(deps, new Snapshots());
  const refresh = () => dispatch(collector.ref, 'refresh');
  const shares = deps.isShared
    ? new Shares(deps, {
        onSample: (shared) => {
          if (readings.heard(shared)) refresh();
        },
        onTurn: refresh,
      })
    : undefined;
  const readings = new Readings(deps.sources, refreshMs, shares);
  const publisher = new Publisher(deps);
  const alerts = new ActorPart('monitor/alerts', (parent) => startAlerts(parent, deps));
  const parts: CollectorParts = {
    system,
    broadcaster,
    readings,
    publisher,
    history: new History(),
    shares,
    facts: new Map(),
    onSnapshot: (snapshot) => dispatch(alerts.ref, snapshot),
  };
  const collector = new ActorPart('monitor/collector', (parent) => startCollector(parent, deps, parts));
  const connections = new Connections('monitor', clock);
  const subscriptionOf = subscriptions(broadcaster, connections);
  void publisher.prepare();

  const service = await startService(system, {
    name: 'monitor',
    endpoints: monitorEndpoints,
    db: deps.db,
    parts: {
      connections,
      alerts,
      collector,
      shares,
    },
    sockets: monitorEndpoints
      .filter(({ socket }) => socket)
      .map((endpoint) =>
        streamHandler(endpoint, (_call, caller) => {
          broadcaster.admit(caller.userId);
          return connections.open('monitor/socket', caller, new MetricsConnection(subscriptionOf(caller, endpoint)));
        }),
      ),
    events: monitorEndpoints
      .filter(({ events }) => events)
      .map((endpoint) =>
        streamHandler(endpoint, ({ lastEventId }, caller) => {
          broadcaster.admit(caller.userId);
          return new EventsClient(subscriptionOf(caller, endpoint), lastEventId);
        }),
      ),
    problems: () => readings.problems(clock.now(), PATIENCE * refreshMs),
  });
  return { ...service, drain: () => broadcaster.close(), encodings: () => broadcaster.snapshots.encodings };
}
