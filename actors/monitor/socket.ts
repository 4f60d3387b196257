/** One socket of `/ws/cluster-info` or `/ws/pod-metrics`: the newest snapshot as text, one on connect and one per refresh. */
import type { Socket } from '../../proto/http.ts';
import type { Connection } from '../streams.ts';
import type { MonitorNumbers } from './deps.ts';
import type { Client, Hub } from './hub.ts';
import type { Audience, Kind } from './snapshots.ts';

/** The connection of a caller who may see `kind` as `audience`. Its actor ends it with the service; its token's end is the frame's. */
export function metricsConnection(
  hub: Hub,
  numbers: MonitorNumbers,
  user: { readonly audience: Audience; readonly userId: string },
  kind: Kind,
): Connection {
  let socket: Socket | undefined;
  let isFull = false;
  let isWaiting = false;
  const send = () => {
    if (socket === undefined) return;
    if (isFull) {
      if (isWaiting) numbers.skipped += 1;
      isWaiting = true;
      return;
    }
    const encoded = hub.snapshots.encoded(kind, user.audience);
    if (encoded === undefined) return;
    numbers.pushed += 1;
    isFull = !socket.send(encoded.text);
  };
  const client: Client = {
    ...user,
    kinds: [kind],
    expiresAt: Number.POSITIVE_INFINITY,
    tell: send,
    end: () => socket?.close(1012, 'service restarts'),
  };
  const end = () => {
    if (socket === undefined) return;
    socket = undefined;
    numbers.sockets -= 1;
    hub.remove(client);
  };
  return {
    open(opened) {
      socket = opened;
      numbers.sockets += 1;
      send();
      hub.add(client);
    },
    drain() {
      isFull = false;
      if (!isWaiting) return;
      isWaiting = false;
      send();
    },
    closed: end,
    ended: end,
  };
}
