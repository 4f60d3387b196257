/**
 * What was stored or read in one process, told to the others over the bus: their users' sockets look into storage, or
 * tell what was read. A message that is lost costs time, not a notification: sockets look by themselves from time to
 * time.
 */
import { z } from 'zod';
import { jsonOf } from '../../lib/input.ts';
import { newId } from '../../proto/ids.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { AnyRef } from '../../supervision/index.ts';
import { ownerActor, type Part } from '../service/supervisor.ts';

/** A core subject, outside of every stream: at most once is enough. */
const SUBJECT = 'notifications.stored';

const readSchema = z.object({ user: z.string(), id: z.int().nullable() });
/** `users`: for whom something was stored. Processes of the previous version send no `read`, and skip it. */
const newsSchema = z.object({ from: z.string(), users: z.array(z.string()), read: readSchema.optional() });

/** What to do about what other processes tell. */
interface HintReader {
  /** Something was stored for the user. */
  stored(userId: string): void;
  /** The user has read the notification of that id, or all of them: null. */
  read(userId: string, id: number | null): void;
}

/** The actor that hears the others, and how they are told. */
export class PeerHints implements Part {
  readonly #bus: Bus;
  readonly #reader: HintReader;
  readonly #self = newId();

  /** Among the processes on `bus`. */
  constructor(bus: Bus, reader: HintReader) {
    this.#bus = bus;
    this.#reader = reader;
  }

  start(parent: AnyRef): Promise<AnyRef> {
    const subscription = this.#bus.subscribe(SUBJECT, ({ data }) => {
      const news = newsOf(data, this.#self);
      for (const userId of news?.users ?? []) this.#reader.stored(userId);
      if (news?.read !== undefined) this.#reader.read(news.read.user, news.read.id);
    });
    return ownerActor(parent, 'notify', 'peer-hints', () => subscription.close());
  }

  /** Tells the other processes that something was stored for these users. */
  tell(userIds: Iterable<string>): void {
    const users = [...userIds];
    if (users.length > 0) this.#publish({ from: this.#self, users });
  }

  /** Tells the other processes that the user has read a notification, or all of them: null. */
  tellRead(user: string, id: number | null): void {
    this.#publish({ from: this.#self, users: [], read: { user, id } });
  }

  #publish(news: z.input<typeof newsSchema>): void {
    this.#bus.publish(SUBJECT, Buffer.from(JSON.stringify(news)));
  }
}

/** What another process tells. Anybody on the bus may publish: what is no such message is nothing. */
function newsOf(data: Uint8Array, self: string): z.output<typeof newsSchema> | undefined {
  const { data: news } = newsSchema.safeParse(jsonOf(Buffer.from(data).toString()));
  return news?.from === self ? undefined : news;
}
