/** The cluster monitor: its endpoints, who answers them, and its supervision tree. */
import { Refusal } from '../../proto/errors.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import type { Service } from '../../proto/service.ts';
import { type AnyRef, dispatch, query, type Ref, type SystemRef } from '../../supervision/index.ts';
import { connect } from '../service/connection.ts';
import { ASK_TIMEOUT, askActor, callerOf } from '../service/dispatch.ts';
import { databaseProblem, healthOf, lifeOf } from '../service/health.ts';
import { connectionSupervisor, startServiceSupervisor } from '../service/supervisor.ts';
import { type AlertsMessage, startAlerts } from './alerts.ts';
import { Broadcaster } from './broadcaster.ts';
import { type CollectorMessage, type CollectorParts, startCollector } from './collector.ts';
import type { MonitorDeps } from './deps.ts';
import { EventsClient } from './events.ts';
import { Publisher } from './publisher.ts';
import { Readings } from './readings.ts';
import { Snapshots } from './snapshots.ts';
import { MetricsConnection } from './socket.ts';
import { expiryOf, subscriptions } from './subscription.ts';

/** The service, and what its listener does before it closes. */
export interface MonitorService extends Service {
  readonly follow: NonNullable<Service['follow']>;
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
  const hub = new Broadcaster(deps, new Snapshots());
  const viewerOf = subscriptions(hub);
  const readings = new Readings(deps.sources);
  const publisher = new Publisher(deps);
  let alerts: Ref<AlertsMessage> | undefined;
  let collector: Ref<CollectorMessage> | undefined;
  let connections: AnyRef | undefined;
  const parts: CollectorParts = {
    hub,
    readings,
    publisher,
    facts: new Map(),
    onSnapshot: (snapshot) => {
      if (alerts !== undefined) dispatch(alerts, snapshot);
    },
  };
  void publisher.prepare();
  const supervisor = await startServiceSupervisor(system, 'monitor', {
    connections: (parent) => {
      connections = connectionSupervisor(parent, 'monitor', 'connections');
      return connections;
    },
    alerts: (parent) => {
      alerts = startAlerts(parent, deps);
      return alerts;
    },
    collector: (parent) => {
      collector = startCollector(parent, deps, parts);
      return collector;
    },
  });
  const stopProblem = lifeOf(supervisor);

  return {
    name: 'monitor',
    endpoints: monitorEndpoints,
    call: (endpoint, call) => {
      const desk = collector;
      if (desk === undefined) throw new Refusal('unavailable');
      return askActor((make) => query(desk, make, ASK_TIMEOUT), endpoint, call);
    },
    follow: async (endpoint, call) => {
      const caller = callerOf(call);
      hub.admit(caller.userId);
      return new EventsClient(viewerOf(caller, endpoint), call.lastEventId);
    },
    connect: async (endpoint, call) => {
      const caller = callerOf(call);
      hub.admit(caller.userId);
      const parent = connections;
      if (parent === undefined) throw new Refusal('unavailable');
      const expiresInMs = expiryOf(caller) - clock.now();
      return connect(parent, 'monitor/socket', expiresInMs, new MetricsConnection(viewerOf(caller, endpoint)));
    },
    health: async () =>
      healthOf(stopProblem(), await databaseProblem(deps.db), ...readings.problems(clock.now(), PATIENCE * refreshMs)),
    drain: () => hub.close(),
    encodings: () => hub.snapshots.encodings,
  };
}
