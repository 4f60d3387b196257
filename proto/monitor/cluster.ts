/** The messages of `cluster.metrics` and `cluster.pods`, in the protobuf layouts of cluster.proto. */
import { randomUUID } from 'node:crypto';
import protobuf from 'protobufjs/light.js';
import type { NodeSample, PodSample } from '../ports/metrics-source.ts';

const field = (type: string, id: number) => ({ type, id });
const many = (type: string, id: number) => ({ rule: 'repeated', type, id });
const head = { eventId: field('string', 1), timestamp: field('int64', 2) };

/** The message layouts; a test compares them with cluster.proto. */
export const CLUSTER_LAYOUT = {
  nested: {
    troupe: {
      nested: {
        ClusterMetrics: { fields: { ...head, nodes: many('ClusterNode', 3) } },
        ClusterNode: {
          fields: {
            name: field('string', 1),
            cpuUsageMillis: field('int64', 2),
            cpuCapacityMillis: field('int64', 3),
            memoryUsage: field('int64', 4),
            memoryCapacity: field('int64', 5),
            diskUsage: field('int64', 6),
            diskCapacity: field('int64', 7),
            conditions: many('NodeCondition', 8),
          },
        },
        NodeCondition: { fields: { type: field('string', 1), status: field('string', 2) } },
        ClusterPods: { fields: { ...head, pods: many('ClusterPod', 3) } },
        ClusterPod: {
          fields: {
            name: field('string', 1),
            namespace: field('string', 2),
            node: field('string', 3),
            restartCount: field('int64', 4),
            oomKilled: field('bool', 5),
            oomKills: field('int64', 6),
            oomAt: field('int64', 7),
          },
        },
      },
    },
  },
};

const root = protobuf.Root.fromJSON(CLUSTER_LAYOUT);
const metricsLayout = root.lookupType('troupe.ClusterMetrics');
const podsLayout = root.lookupType('troupe.ClusterPods');

/** A message with its id on the stream. */
interface ClusterMessage {
  readonly msgId: string;
  readonly data: Uint8Array;
}

/** The message of `cluster.metrics`; `at` in Unix ms. */
export function encodeClusterMetrics(nodes: readonly NodeSample[], at: number): ClusterMessage {
  return encode(metricsLayout, at, {
    nodes: nodes.map((node) => ({
      name: node.name,
      cpuUsageMillis: Math.round(node.cpuMillis),
      cpuCapacityMillis: Math.round(node.cpuCapacityMillis),
      memoryUsage: Math.round(node.memoryBytes),
      memoryCapacity: Math.round(node.memoryCapacityBytes),
      diskUsage: Math.round(node.diskBytes),
      diskCapacity: Math.round(node.diskCapacityBytes),
      conditions: node.conditions,
    })),
  });
}

/** The message of `cluster.pods`; `at` in Unix ms. */
export function encodeClusterPods(pods: readonly PodSample[], at: number): ClusterMessage {
  return encode(podsLayout, at, {
    pods: pods.map((pod) => ({
      name: pod.name,
      namespace: pod.namespace,
      node: pod.node,
      restartCount: pod.restarts,
      oomKilled: pod.oomKills > 0,
      oomKills: pod.oomKills,
      oomAt: pod.oomAt ?? 0,
    })),
  });
}

function encode(layout: protobuf.Type, timestamp: number, content: object): ClusterMessage {
  const msgId = randomUUID();
  return { msgId, data: layout.encode(layout.create({ eventId: msgId, timestamp, ...content })).finish() };
}
