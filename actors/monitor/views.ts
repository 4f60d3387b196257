/** Samples as clients see them. */
import type { NodeMetrics, PodMetrics } from '../../proto/monitor/endpoints.ts';
import type { NodeSample, PodSample } from '../../proto/ports/metrics-source.ts';

/** Thousandths of a core as a Kubernetes quantity: `250m`, and whole cores without a suffix. */
export function cpuQuantity(millis: number): string {
  const whole = Math.max(0, Math.round(millis));
  return whole % 1000 === 0 ? String(whole / 1000) : `${whole}m`;
}

/** Bytes as a Kubernetes quantity, in whole kibibytes. */
export function memoryQuantity(bytes: number): string {
  return `${Math.max(0, Math.round(bytes / 1024))}Ki`;
}

/** A share in percent with two decimals; 0 of nothing. */
export function percentOf(usage: number, capacity: number): number {
  return capacity > 0 ? Math.round((usage / capacity) * 10_000) / 100 : 0;
}

/** A machine, as clients see it. */
export function nodeView(node: NodeSample): NodeMetrics {
  return {
    name: node.name,
    cpu_usage: cpuQuantity(node.cpuMillis),
    cpu_capacity: cpuQuantity(node.cpuCapacityMillis),
    cpu_percent: percentOf(node.cpuMillis, node.cpuCapacityMillis),
    memory_usage: memoryQuantity(node.memoryBytes),
    memory_capacity: memoryQuantity(node.memoryCapacityBytes),
    memory_percent: percentOf(node.memoryBytes, node.memoryCapacityBytes),
    disk_usage: Math.round(node.diskBytes),
    disk_capacity: Math.round(node.diskCapacityBytes),
    disk_percent: percentOf(node.diskBytes, node.diskCapacityBytes),
    conditions: node.conditions.map(({ type, status }) => ({ type, status })),
  };
}

/** A container, as clients see it. */
export function podView(pod: PodSample): PodMetrics {
  return {
    name: pod.name,
    namespace: pod.namespace,
    node: pod.node,
    cpu_usage: Math.round(pod.cpuMillis),
    cpu_capacity: Math.round(pod.cpuCapacityMillis),
    memory_usage: Math.round(pod.memoryBytes),
    memory_capacity: Math.round(pod.memoryCapacityBytes),
    disk_usage: Math.round(pod.diskBytes),
    disk_capacity: Math.round(pod.diskCapacityBytes ?? 0),
  };
}
