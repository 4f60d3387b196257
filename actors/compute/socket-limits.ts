/** Sockets of each kind a user may have in this process. One more is opened and closed: browsers can read why. */
import { KeyedLimit } from '../../lib/concurrency.ts';
import { StorageError } from '../../storage/errors.ts';
import { dispatch } from '../../supervision/index.ts';
import type { Connection } from '../service/connection.ts';
import { currentLimit } from '../service/user-limits.ts';
import type { ComputeDeps } from './deps.ts';

const NAMES = {
  terminals: 'terminals',
  commands: 'commands',
  log_sockets: 'logs',
  update_sockets: 'streams of updates',
} as const;

/** What a socket is for. */
type SocketKind = keyof typeof NAMES;

/**
 * Says that there are too many, with 1008: coming back is of no use before one is closed. A reason has 123 bytes at
 * most, so the user is not named.
 */
export function tooMany(kind: SocketKind, most: number) {
  const raised = 'the operator raises it by troupe users limits NAME';
  return {
    type: 'close',
    code: 1008,
    reason: `your limit is ${most} open ${NAMES[kind]}: close one, or ${raised}`,
  } as const;
}

/** Counts the sockets of one process. */
export class SocketLimits {
  readonly #deps: Pick<ComputeDeps, 'db' | 'userLimits'>;
  readonly #open: Readonly<Record<SocketKind, KeyedLimit>>;

  constructor(deps: Pick<ComputeDeps, 'db' | 'userLimits'>) {
    this.#deps = deps;
    const { terminals, commands, log_sockets, update_sockets } = deps.userLimits;
    this.#open = {
      terminals: new KeyedLimit(terminals),
      commands: new KeyedLimit(commands),
      log_sockets: new KeyedLimit(log_sockets),
      update_sockets: new KeyedLimit(update_sockets),
    };
  }

  /** How many a user may have now; while the database is away, as many as all. Asked before anything is begun. */
  async most(userId: string, kind: SocketKind): Promise<number> {
    const { db, userLimits } = this.#deps;
    try {
      return (await currentLimit(db, userLimits, userId, kind)).most;
    } catch (error) {
      if (error instanceof StorageError) return userLimits[kind];
      throw error;
    }
  }

  /**
   * The connection, which counts as one of its user's while it is open; in place of one that is more than `most`, one
   * that closes.
   */
  limited(userId: string, kind: SocketKind, most: number, connection: Connection): Connection {
    let isRefused = false;
    let leave: (() => void) | undefined;
    const { attach, ended } = connection;
    return {
      ...connection,
      open: (socket, self, life) => {
        leave = this.#open[kind].enter(userId, most);
        isRefused = leave === undefined;
        if (isRefused) {
          dispatch(self, tooMany(kind, most));
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
