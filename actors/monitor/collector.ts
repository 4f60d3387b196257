/**
 * The actor that measures: one refresh for all, however many clients. Each source's answer becomes a snapshot, which is
 * encoded once for each audience, told to the clients, published and looked through for what users should be told of.
 */
import { Refusal } from '../../proto/errors.ts';
import {
  clusterInfo,
  dependencyGraph,
  type Graph,
  metricsHistory,
  nodeMetrics,
  podMetrics,
  podMetricsByNamespace,
} from '../../proto/monitor/endpoints.ts';
import type { PodSample } from '../../proto/ports/metrics-source.ts';
import { type ContainerFacts, containerFacts } from '../../storage/monitor/alerts.ts';
import { type AnyRef, type Ref, type SystemRef, spawn } from '../../supervision/index.ts';
import { type CallMessage, callerOf, handleCall, handler, handlers } from '../service/dispatch.ts';
import type { AlertsMessage } from './alerts.ts';
import type { Broadcaster } from './broadcaster.ts';
import type { MonitorDeps } from './deps.ts';
import { graphOf } from './graph.ts';
import { COARSE_STEP, FINE_STEP, type History, NOTHING } from './history.ts';
import type { Publisher } from './publisher.ts';
import type { Readings } from './readings.ts';
import type { Shares } from './shares.ts';
import { audienceOf } from './snapshots.ts';

/** What the collector understands. */
type CollectorMessage = CallMessage | 'refresh';

/** What it works with: kept outside, so that a restart of the actor costs nobody a snapshot. */
export interface CollectorParts {
  readonly system: SystemRef;
  readonly broadcaster: Broadcaster;
  readonly readings: Readings;
  readonly publisher: Publisher;
  readonly history: History;
  /** The other monitors, if there may be some. */
  readonly shares: Shares | undefined;
  /** Containers as promised to their users, by id. */
  facts: ReadonlyMap<string, ContainerFacts>;
  /** Told of the last snapshots at the end of each refresh. */
  readonly onSnapshot: (snapshot: AlertsMessage) => void;
}

const GIGABYTE = 2 ** 30;
const HOUR = 3600;
/** Longest wait for a source, ms. */
const DEADLINE_MS = 5000;

/** Starts it; the first refresh begins at once. */
export function startCollector(parent: AnyRef, deps: MonitorDeps, parts: CollectorParts): Ref<CollectorMessage> {
  const { broadcaster, readings, publisher, history, shares } = parts;
  const { clock, log, numbers, refreshMs } = deps;
  const { snapshots } = broadcaster;
  const silent = new Set<string>();
  let isRefreshing = false;
  // Published at the end of a refresh: what leaves together is one transaction where the bus is embedded.
  let due: (() => void)[] = [];

  const onNodes = (): void => {
    const nodes = readings.nodes();
    if (nodes === undefined) return;
    snapshots.setNodes(nodes.items, nodes.at);
    numbers.nodesAt = nodes.at;
    broadcaster.tell('cluster');
    due.push(() => publisher.nodes(nodes.items, nodes.at));
  };

  const onPods = (): void => {
    const pods = readings.pods();
    if (pods === undefined) return;
    const own = deps.own();
    shares?.tellOwn(own);
    const others = shares?.processes() ?? [];
    const all = [...own, ...others, ...pods.items.map((pod) => withCapacity(pod, parts.facts))];
    snapshots.setPods(all, pods.at);
    history.take(all, pods.at);
    numbers.podsAt = pods.at;
    broadcaster.tell('pods');
    due.push(() => publisher.pods(all, pods.at));
  };

  const onFailure = (source: string, reason: string): void => {
    numbers.failures += 1;
    if (!silent.has(source)) log.warn({ source, reason }, 'a source of metrics does not answer');
    silent.add(source);
  };

  const refresh = async (): Promise<void> => {
    numbers.refreshes += 1;
    try {
      parts.facts = new Map((await containerFacts(deps.db)).map((facts) => [facts.id, facts]));
    } catch (error) {
      // What was promised changes seldom: the last known will do.
      log.debug({ err: error }, 'containers could not be read');
    }
    await readings.refresh(Math.min(refreshMs, DEADLINE_MS), clock.now, { onNodes, onPods, onFailure });
    // One monitor speaks for all.
    if (shares?.isPublisher !== false) for (const publish of due) publish();
    due = [];
    if (readings.problems(clock.now(), 0).length === 0) silent.clear();
    // What others measure they look through themselves.
    const { nodes, pods } = readings.own();
    parts.onSnapshot({ facts: parts.facts, nodes, pods: pods.map((pod) => withCapacity(pod, parts.facts)) });
  };

  let drawing: Promise<Graph> | undefined;
  const table = handlers<null>(
    handler(clusterInfo, () => present(snapshots.nodes())),
    handler(nodeMetrics, () => present(snapshots.nodes())),
    handler(podMetrics, (_, call) => present(snapshots.pods(audienceOf(callerOf(call))))),
    handler(podMetricsByNamespace, (_, call) =>
      present(snapshots.pods(audienceOf(callerOf(call)), call.query.namespace)),
    ),
    handler(metricsHistory, (_, call) => {
      const { namespace, since, step } = call.query;
      const audience = audienceOf(callerOf(call));
      const isOwn = audience === 'admin' || namespace.startsWith(`compute-${audience.userId}-`);
      const from = startOf(since, clock.now() / 1000);
      const chosen = step === undefined ? stepFor(from, clock.now() / 1000) : Number(step);
      const found = isOwn ? history.of(namespace, chosen, from) : NOTHING;
      return { namespace, step: chosen, ...found };
    }),
    handler(dependencyGraph, () => {
      drawing ??= graphOf(deps, parts).finally(() => {
        drawing = undefined;
      });
      return drawing;
    }),
  );

  return spawn<null, CollectorMessage>(
    parent,
    (_state, message) => {
      if (message !== 'refresh') {
        // The graph asks others: nobody waits for it here.
        const answered = handleCall(table, null, message);
        if (answered instanceof Promise) answered.catch((error: unknown) => log.error({ err: error }, 'graph failed'));
        return null;
      }
      if (isRefreshing) return null;
      isRefreshing = true;
      // Beside the mailbox: questions are answered while a source takes its time.
      refresh()
        .catch((error: unknown) => log.error({ err: error }, 'a refresh failed'))
        .finally(() => {
          isRefreshing = false;
        });
      return null;
    },
    {
      name: 'collector',
      kind: 'monitor/collector',
      initialStateFunc: (ctx) => {
        ctx.after(0, 'refresh');
        ctx.every(refreshMs, 'refresh');
        return null;
      },
      onCrash: (_message, _error, ctx) => ctx.resume,
    },
  );
}

/** Unix seconds of `since`; an hour before `now` unless given. */
function startOf(since: string | undefined, now: number): number {
  if (since === undefined) return now - HOUR;
  return /^[0-9]+$/.test(since) ? Number(since) : Date.parse(since) / 1000;
}

function stepFor(from: number, now: number): number {
  return from >= now - HOUR - FINE_STEP ? FINE_STEP : COARSE_STEP;
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Refusal('unavailable', { message: 'Nothing was measured yet: try again soon.' });
  return value;
}

function withCapacity(pod: PodSample, facts: ReadonlyMap<string, ContainerFacts>): PodSample {
  const promised = facts.get(pod.containerId ?? '');
  if (pod.diskCapacityBytes !== undefined || promised === undefined) return pod;
  return { ...pod, diskCapacityBytes: promised.storageGb * GIGABYTE };
}
