/** Sockets of each kind a user may have in this process. One more is opened and closed: browsers can read why. */
import { MAX_SOCKETS } from '../../proto/compute/endpoints.ts';
import { dispatch } from '../../supervision/index.ts';
import type { Connection } from '../service/connection.ts';

type SocketKind = keyof typeof MAX_SOCKETS;

/** Says that there are too many, with 1008: coming back is of no use before one is closed. */
export function tooMany(kind: SocketKind) {
  const reason = `you have ${MAX_SOCKETS[kind]} ${NAMES[kind]} open, which is the limit: close one first`;
  return { type: 'close', code: 1008, reason } as const;
}

const NAMES = { logs: 'logs', terminals: 'terminals', updates: 'streams of updates' } as const;

/** Counts the sockets of one process. */
export class SocketLimits {
  readonly #open = new Map<string, number>();

  /** The connection, which counts as one of its user's while it is open; in place of one too many, one that closes. */
  limited(userId: string, kind: SocketKind, connection: Connection): Connection {
    const key = `${kind} ${userId}`;
    let state: 'new' | 'counted' | 'refused' = 'new';
    const leave = () => {
      if (state !== 'counted') return;
      state = 'new';
      const left = (this.#open.get(key) ?? 1) - 1;
      if (left === 0) this.#open.delete(key);
      else this.#open.set(key, left);
    };
    const { attach, ended } = connection;
    return {
      ...connection,
      open: (socket, self, life) => {
        const count = this.#open.get(key) ?? 0;
        if (count >= MAX_SOCKETS[kind]) {
          state = 'refused';
          dispatch(self, tooMany(kind));
          return;
        }
        state = 'counted';
        this.#open.set(key, count + 1);
        connection.open(socket, self, life);
      },
      ...(attach === undefined ? {} : { attach: (self) => (state === 'refused' ? undefined : attach(self)) }),
      ended: () => {
        leave();
        ended?.();
      },
    };
  }
}
