/** The cluster monitor's endpoints and views. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';

/** Where the platform's own processes are: hidden from all but the administrator. */
export const CORE_NAMESPACE = 'core';

/** The namespace of a container. */
export function namespaceOf(userId: string, containerId: string): string {
  return `compute-${userId}-${containerId}`;
}

const percent = z.number();
const bytes = z.int();
/** Kubernetes quantities: `1250m`, `2`, `24690000Ki`. */
const quantity = z.string();

/** What was measured of a machine. */
const nodeMetricsSchema = z.object({
  name: z.string(),
  cpu_usage: quantity,
  cpu_capacity: quantity,
  cpu_percent: percent,
  memory_usage: quantity,
  memory_capacity: quantity,
  memory_percent: percent,
  disk_usage: bytes,
  disk_capacity: bytes,
  disk_percent: percent,
  conditions: z.array(z.object({ type: z.string(), status: z.string() })),
});
export type NodeMetrics = z.output<typeof nodeMetricsSchema>;

/** CPU in thousandths of a core, the rest in bytes. */
export const podMetricsSchema = z.object({
  name: z.string(),
  namespace: z.string(),
  node: z.string(),
  cpu_usage: z.int(),
  cpu_capacity: z.int(),
  memory_usage: bytes,
  memory_capacity: bytes,
  disk_usage: bytes,
  disk_capacity: bytes,
});
export type PodMetrics = z.output<typeof podMetricsSchema>;

/** `timestamp`: when it was measured. It stands still while nothing can be measured. */
export const nodesSchema = z.object({ timestamp: z.iso.datetime(), nodes: z.array(nodeMetricsSchema) });
export const podsSchema = z.object({ timestamp: z.iso.datetime(), pods: z.array(podMetricsSchema) });

/** How busy a dependency is, as counted since the process started. */
const trafficSchema = z.object({ unit: z.string(), total: z.number() });

/** What depends on what (docs/reference/monitor.md lists the kinds). */
export const graphSchema = z.object({
  nodes: z.array(z.object({ id: z.string(), kind: z.string(), status: z.string() })),
  edges: z.array(z.object({ from: z.string(), to: z.string(), kind: z.string(), traffic: trafficSchema.optional() })),
  timestamp: z.iso.datetime(),
});
export type Graph = z.output<typeof graphSchema>;

const collector = { kind: 'monitor/collector', key: 'none' } as const;
const admin = { service: 'monitor', access: 'admin', actor: collector } as const;
/** Any valid JWT; an API token must be allowed to read containers, which is what it is shown. */
const anybody = {
  service: 'monitor',
  access: 'token',
  scope: { key: (uid: string) => `compute.${uid}.containers`, action: 'read' },
  actor: collector,
} as const;

export const clusterInfo = endpoint('clusterInfo', 'GET /cluster-info', {
  ...admin,
  summary: 'How the nodes are',
  reply: nodesSchema,
});

export const nodeMetrics = endpoint('nodeMetrics', 'GET /api/metrics/nodes', {
  ...admin,
  summary: 'How the nodes are',
  reply: nodesSchema,
});

export const podMetrics = endpoint('podMetrics', 'GET /pod-metrics', {
  ...anybody,
  summary: 'How your containers are; for the administrator all, and the platform itself',
  reply: podsSchema,
});

export const podMetricsByNamespace = endpoint('podMetricsByNamespace', 'GET /api/metrics/pods', {
  ...anybody,
  summary: 'The same, if wanted of one of your namespaces',
  query: z.object({ namespace: z.string().max(256).optional() }),
  reply: podsSchema,
});

export const metricsHistory = endpoint('metricsHistory', 'GET /api/metrics/history', {
  ...anybody,
  summary: 'What was measured of one of your containers before: an hour by 5 seconds, a day by the minute',
  query: z.object({
    namespace: z.string().max(256),
    /** RFC 3339 or Unix seconds; no earlier points. Default: an hour ago. */
    since: z.union([z.iso.datetime({ offset: true }), z.string().regex(/^[0-9]{1,12}$/)]).optional(),
    /** Seconds between two points. Default: 5 within the last hour, else 60. */
    step: z.enum(['5', '60']).optional(),
  }),
  reply: z.object({
    namespace: z.string(),
    step: z.int(),
    /** Unix seconds, oldest first; the other columns are as long. */
    timestamps: z.array(z.int()),
    cpu_usage: z.array(z.int()),
    memory_usage: z.array(bytes),
    disk_usage: z.array(bytes),
  }),
});

export const dependencyGraph = endpoint('dependencyGraph', 'GET /api/graph/dependencies', {
  ...admin,
  summary: 'What depends on what, and how it does',
  reply: graphSchema,
});

export const healthEvents = endpoint('healthEvents', 'GET /sse/health', {
  ...anybody,
  summary: 'Nodes and your containers, as they are measured',
  reply: z.union([
    z.object({ type: z.literal('cluster'), payload: nodesSchema }),
    z.object({ type: z.literal('pods'), payload: podsSchema }),
  ]),
  events: true,
});

export const clusterEvents = endpoint('clusterEvents', 'GET /sse/cluster-info', {
  ...admin,
  summary: 'The nodes, as they are measured',
  reply: nodesSchema,
  events: true,
});

const podEvents = endpoint('podEvents', 'GET /sse/pod-metrics', {
  ...anybody,
  summary: 'Your containers, as they are measured',
  reply: podsSchema,
  events: true,
});

export const clusterSocket = endpoint('clusterSocket', 'GET /ws/cluster-info', {
  ...admin,
  summary: 'The nodes, as they are measured',
  reply: nodesSchema,
  socket: true,
});

const podSocket = endpoint('podSocket', 'GET /ws/pod-metrics', {
  ...anybody,
  summary: 'Your containers, as they are measured',
  reply: podsSchema,
  socket: true,
});

/** All endpoints of the service. */
export const monitorEndpoints = [
  clusterInfo,
  nodeMetrics,
  podMetrics,
  podMetricsByNamespace,
  metricsHistory,
  dependencyGraph,
  healthEvents,
  clusterEvents,
  podEvents,
  clusterSocket,
  podSocket,
] as const;
