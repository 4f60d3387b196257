/** The streams of a browser, one of each kind: of containers, of what they use, of notifications. */
import type { ContainerMetrics, Following, StreamEnd, StreamState, TroupeClient } from '../../client/index.ts';
import type { LinkState, LiveMessage, UsagePoint } from './messages.ts';

/** Follows all until it is closed; tells what comes. */
export class LiveHub {
  readonly #emit: (message: LiveMessage) => void;
  readonly #streams: readonly Following[];
  #isClosed = false;

  constructor(client: TroupeClient, emit: (message: LiveMessage) => void) {
    this.#emit = emit;
    this.#streams = [
      client.follow.containers({
        onChange: (containers) => this.#tell({ kind: 'containers', containers }),
        onState: (state) => this.#tell({ kind: 'link', link: linkOf(state) }),
      }),
      client.follow.metrics({ onMetrics: (metrics) => this.#tell({ kind: 'usage', points: pointsOf(metrics) }) }),
      client.follow.notifications({
        onNotification: (notification) => this.#tell({ kind: 'notification', notification }),
      }),
    ];
    for (const stream of this.#streams) void stream.done.then((end) => this.#ended(end));
  }

  close(): void {
    this.#isClosed = true;
    for (const stream of this.#streams) stream.close();
  }

  #tell(message: LiveMessage): void {
    if (!this.#isClosed) this.#emit(message);
  }

  #ended({ error }: StreamEnd): void {
    if (error?.code === 'unauthorized') this.#tell({ kind: 'refused' });
  }
}

function linkOf(state: StreamState): LinkState {
  switch (state.state) {
    case 'open':
      return { state: 'live' };
    case 'waiting':
      return { state: 'waiting', retryAt: Date.now() + state.ms };
    case 'closed':
      return { state: 'ended' };
    case 'connecting':
      return { state: 'connecting' };
  }
}

/** By container, whose id is the end of the namespace. */
function pointsOf({ timestamp, pods }: ContainerMetrics): Record<string, UsagePoint> {
  const at = Date.parse(timestamp);
  return Object.fromEntries(
    pods.map((pod) => [
      pod.namespace.slice(pod.namespace.lastIndexOf('-') + 1),
      {
        at,
        cpu: pod.cpu_usage,
        cpuMost: pod.cpu_capacity,
        memory: pod.memory_usage,
        memoryMost: pod.memory_capacity,
        disk: pod.disk_usage,
        diskMost: pod.disk_capacity,
      },
    ]),
  );
}
