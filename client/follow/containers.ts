/** The list of the caller's containers, as it changes. */
import { ENDPOINTS } from '../generated/endpoints.ts';
import type { Following } from '../socket.ts';
import type { Container, FollowedMessage } from '../types.ts';
import { type ClientCore, type FollowOptions, message } from './core.ts';

/** The stream tells of statuses; what else changes is asked for, ms. */
const REFRESH_MS = 10_000;

export interface ContainersFollowOptions extends FollowOptions {
  /** The whole list: at the beginning, and with every change. */
  readonly onChange: (containers: readonly Container[]) => void;
  /** How often what the stream does not tell (usage, reasons, deletions) is asked for, ms; 10 s unless given. */
  readonly refreshMs?: number;
}

export function followContainers(core: ClientCore, options: ContainersFollowOptions): Following {
  const { onChange, onState, refreshMs = REFRESH_MS } = options;
  let known: readonly Container[] = [];
  let shown = '';
  let isAsking = false;
  const show = (containers: readonly Container[]) => {
    known = containers;
    const text = JSON.stringify(containers);
    if (text === shown) return;
    shown = text;
    onChange(containers);
  };
  const refresh = async () => {
    if (isAsking || !stream.isOpen) return;
    isAsking = true;
    try {
      show((await core.call('listContainers')).containers);
    } catch {
      // The stream says when the platform is away, and the next refresh asks again.
    } finally {
      isAsking = false;
    }
  };
  const stream = core.stream({
    onState,
    path: () => ENDPOINTS.computeSocket.slice('WS '.length),
    text(data) {
      const event = message<FollowedMessage<'computeSocket'>>(data);
      if (event.type === 'containers') show(event.data);
      else if (event.type === 'container_status') {
        const { container_id, status } = event.data;
        show(known.map((each) => (each.id === container_id ? { ...each, status } : each)));
        void refresh();
      }
    },
    check: () => core.call('listContainers'),
  });
  const timer = setInterval(() => void refresh(), refreshMs);
  void stream.done.then(() => clearInterval(timer));
  return stream;
}
