/** Measurements as they are made. */
import { ENDPOINTS } from '../generated/endpoints.ts';
import type { Following } from '../socket.ts';
import type { ContainerMetrics, MachineMetrics } from '../types.ts';
import { type ClientCore, type FollowOptions, message } from './core.ts';

export interface MetricsFollowOptions extends FollowOptions {
  /** CPU in thousandths of a core, memory and disk in bytes, about every 5 s. */
  readonly onMetrics: (metrics: ContainerMetrics) => void;
}

/** Of the caller's containers; for the administrator of all. */
export function followMetrics(core: ClientCore, { onMetrics, onState }: MetricsFollowOptions): Following {
  return core.stream({
    onState,
    path: () => ENDPOINTS.podSocket.slice('WS '.length),
    text: (data) => onMetrics(message<ContainerMetrics>(data)),
    check: () => core.call('podMetrics'),
  });
}

export interface MachinesFollowOptions extends FollowOptions {
  readonly onMachines: (metrics: MachineMetrics) => void;
}

/** Of the machines; only for the administrator. */
export function followMachines(core: ClientCore, { onMachines, onState }: MachinesFollowOptions): Following {
  return core.stream({
    onState,
    path: () => ENDPOINTS.clusterSocket.slice('WS '.length),
    text: (data) => onMachines(message<MachineMetrics>(data)),
    check: () => core.call('clusterInfo'),
  });
}
