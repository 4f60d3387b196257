/**
 * What was stored in one process, told to the others over the bus: their users' sockets look into storage then. A
 * message that is lost costs time, not a notification: sockets look by themselves from time to time.
 */
import { z } from 'zod';
import { jsonOf } from '../../lib/input.ts';
import { newId } from '../../proto/ids.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import { type AnyRef, spawn } from '../../supervision/index.ts';
import type { Part } from '../service/supervisor.ts';

/** A core subject, outside of every stream: at most once is enough. */
const SUBJECT = 'notifications.stored';

const newsSchema = z.object({ from: z.string(), users: z.array(z.string()) });

/** The actor that hears the others, and how they are told. */
export class PeerHints implements Part {
  readonly #bus: Bus;
  readonly #onHint: (userId: string) => void;
  readonly #self = newId();

  /** Among the processes on `bus`. `onHint` is called with each user for whom another process has stored something. */
  constructor(bus: Bus, onHint: (userId: string) => void) {
    this.#bus = bus;
    this.#onHint = onHint;
  }

  start(parent: AnyRef): AnyRef {
    const subscription = this.#bus.subscribe(SUBJECT, ({ data }) => {
      for (const userId of usersOf(data, this.#self)) this.#onHint(userId);
    });
    return spawn<null, never>(parent, (state) => state, {
      name: 'peer-hints',
      kind: 'notify/peer-hints',
      initialState: null,
      afterStop: () => subscription.close(),
    });
  }

  /** Tells the other processes that something was stored for these users. */
  tell(userIds: Iterable<string>): void {
    const users = [...userIds];
    if (users.length > 0) this.#bus.publish(SUBJECT, Buffer.from(JSON.stringify({ from: this.#self, users })));
  }
}

/** The users that another process tells of. Anybody on the bus may publish: what is no such message is nothing. */
function usersOf(data: Uint8Array, self: string): readonly string[] {
  const { data: news } = newsSchema.safeParse(jsonOf(Buffer.from(data).toString()));
  return news === undefined || news.from === self ? [] : news.users;
}
