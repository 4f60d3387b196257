/** Sockets of each kind a user may have in this process. One more is opened and closed: browsers can read why. */
import { KeyedLimit } from '../../lib/concurrency.ts';
import { MAX_SOCKETS } from '../../proto/compute/endpoints.ts';
import { dispatch } from '../../supervision/index.ts';
import type { Connection } from '../service/connection.ts';

/** What a socket is for. */
type SocketKind = keyof typeof MAX_SOCKETS;

/** Says that there are too many, with 1008: coming back is of no use before one is closed. */
export function tooMany(kind: SocketKind) {
  const reason = `you have ${MAX_SOCKETS[kind]} ${NAMES[kind]} open, which is the limit: close one first`;
  return { type: 'close', code: 1008, reason } as const;
}

const NAMES = { logs: 'logs', terminals: 'terminals', commands: 'commands', updates: 'streams of updates' } as const;

/** Counts the sockets of one process. */
export class SocketLimits {
  readonly #open: Readonly<Record<SocketKind, KeyedLimit>> = {
    logs: new KeyedLimit(MAX_SOCKETS.logs),
    terminals: new KeyedLimit(MAX_SOCKETS.terminals),
    commands: new KeyedLimit(MAX_SOCKETS.commands),
    updates: new KeyedLimit(MAX_SOCKETS.updates),
  };

  /** The connection, which counts as one of its user's while it is open; in place of one too many, one that closes. */
  limited(userId: string, kind: SocketKind, connection: Connection): Connection {
    let isRefused = false;
    let leave: (() => void) | undefined;
    const { attach, ended } = connection;
    return {
      ...connection,
      open: (socket, self, life) => {
        leave = this.#open[kind].enter(userId);
        isRefused = leave === undefined;
        if (isRefused) {
          dispatch(self, tooMany(kind));
          return;
        }
        connection.open(socket, self, life);
      },
      ...(attach === undefined ? {} : { attach: (self) => (isRefused ? undefined : attach(self)) }),
      ended: () => {
        leave?.();
        ended?.();
      },
    };
  }
}
