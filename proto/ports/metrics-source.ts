/** What measures machines and workloads for the cluster monitor, and how it says what it found. */

/** What something uses at one moment. CPU in thousandths of a core, the rest in bytes. */
interface UsageSample {
  readonly name: string;
  readonly cpuMillis: number;
  readonly cpuCapacityMillis: number;
  readonly memoryBytes: number;
  readonly memoryCapacityBytes: number;
}

/** How a machine does at one moment. */
export interface NodeSample extends UsageSample {
  /** Of the fullest of its disks. */
  readonly diskBytes: number;
  readonly diskCapacityBytes: number;
  /** All file systems that count, if the source knows them. */
  readonly disks?: readonly DiskSample[];
  /** Named as Kubernetes names them: `MemoryPressure`, `DiskPressure`, `Ready`; status `True`, `False` or `Unknown`. */
  readonly conditions: readonly { readonly type: string; readonly status: string }[];
}

/** A file system: where it is mounted, and what ordinary processes used and could use of it. */
export interface DiskSample {
  readonly path: string;
  readonly usedBytes: number;
  readonly capacityBytes: number;
}

/** How a workload does at one moment. */
export interface PodSample extends UsageSample {
  /** `compute-<user id>-<container id>`, or the platform's own (proto/monitor/endpoints.ts). */
  readonly namespace: string;
  readonly node: string;
  /** Both undefined for the platform's own. */
  readonly userId?: string;
  readonly containerId?: string;
  readonly diskBytes: number;
  /** Undefined when the source does not know: what the platform promised counts. */
  readonly diskCapacityBytes?: number;
  /** Starts after an end that nobody asked for, as far as the source saw them. */
  readonly restarts: number;
  /** When it ended without having been told to, Unix ms, the latest last; the last few only. */
  readonly crashedAt: readonly number[];
  /** How often the kernel ended a process in it because its memory was used up, and when last (Unix ms). */
  readonly oomKills: number;
  readonly oomAt?: number;
}

/** What a source knows. A part that is absent is none of its business. */
export interface ClusterSample {
  readonly nodes?: readonly NodeSample[];
  readonly pods?: readonly PodSample[];
}

/** Where the cluster monitor's numbers come from: a container engine, a machine. */
export interface MetricsSource {
  /** For people and labels: `docker`, `kubernetes`, `host`. */
  readonly name: string;
  /** It knows the machines, too: this one is not measured beside them. */
  readonly measuresNodes?: boolean;
  /**
   * Names what it measures, so that of several processes one does; the same in all of them. Without it the name of the
   * source does. Rejects as `read`.
   */
  identify?(signal: AbortSignal): Promise<string>;
  /** How it is now. Rejects with why that is not known, at the latest when `signal` aborts. One call at a time. */
  read(signal: AbortSignal): Promise<ClusterSample>;
  /** Another process measures: ends what `read` began, except what counts events. It may be read again. */
  rest?(): void;
  /** Calls made to what is measured since the start. */
  readonly calls: number;
  /** Ends what goes on beside `read`. */
  close(): Promise<void>;
}
