/** The list of the caller's containers, as it changes. */
import { ENDPOINTS } from '../generated/endpoints.ts';
import type { Following } from '../socket.ts';
import type { Container, FollowedMessage } from '../types.ts';
import { type ClientCore, type FollowOptions, message } from './core.ts';

/** A platform that knows no version 2 tells of statuses only; what else changes is asked for, ms. */
const REFRESH_MS = 10_000;

export interface ContainersFollowOptions extends FollowOptions {
  /** The whole list: at the beginning, and with every change. */
  readonly onChange: (containers: readonly Container[]) => void;
}

export function followContainers(core: ClientCore, options: ContainersFollowOptions): Following {
  const { onChange, onState } = options;
  let known: readonly Container[] = [];
  let shown = '';
  let timer: ReturnType<typeof setInterval> | undefined;
  const show = (containers: readonly Container[]) => {
    known = containers;
    const text = JSON.stringify(containers);
    if (text === shown) return;
    shown = text;
    onChange(containers);
  };
  const change = (id: string, part: Partial<Container>) =>
    show(known.map((each) => (each.id === id ? { ...each, ...part } : each)));
  const refresh = async () => {
    // The stream says when the platform is away, and the next refresh asks again.
    if (stream.isOpen) show((await core.call('listContainers').catch(() => ({ containers: known }))).containers);
  };
  const stream = core.stream({
    onState,
    path: () => `${ENDPOINTS.computeSocket.slice('WS '.length)}?v=2`,
    text(data) {
      const event = message<FollowedMessage<'computeSocket'>>(data);
      switch (event.type) {
        case 'containers':
          return show(event.data);
        case 'container': {
          // The whole of it: what is absent is so no more.
          const { data } = event;
          const isKnown = known.some(({ id }) => id === data.id);
          return show(isKnown ? known.map((each) => (each.id === data.id ? data : each)) : [...known, data]);
        }
        case 'container_deleted':
          return show(known.filter(({ id }) => id !== event.data.container_id));
        case 'usage':
          for (const { container_id, ...usage } of event.data) change(container_id, usage);
          return;
        case 'container_status':
          change(event.data.container_id, { status: event.data.status });
          timer ??= setInterval(() => void refresh(), REFRESH_MS);
          void refresh();
      }
    },
    check: () => core.call('listContainers'),
  });
  void stream.done.then(() => clearInterval(timer));
  return stream;
}
