/** Two ways for news of transactions: PostgreSQL's NOTIFY, and a message broker. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { z } from 'zod';
import { jsonOf } from '../../lib/input.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Listener } from '../listener.ts';

/** Something that a transaction tells at its commit. */
export interface NewsItem {
  readonly channel: string;
  readonly payload: string;
  /** Whether those who miss it read it later. Otherwise its hearers find out by themselves. */
  readonly isKept: boolean;
}

/** An item as it is heard. `id` is that of its row; undefined without one. */
type HeardNews = (payload: string, id?: string) => void;

/** How news get from a transaction to all processes. */
export interface NewsCarrier {
  /** Statements that belong to the commit, and what to do after it. */
  prepare(news: readonly NewsItem[]): { readonly statements: readonly string[]; readonly committed: () => void };
  /** Calls `handler` with each item of `channel`, and with '' whenever some may have been missed. */
  subscribe(channel: string, handler: HeardNews): Ending;
}

const notifyOf = ({ channel, payload }: NewsItem): string =>
  `select pg_notify(${pg.escapeLiteral(channel)}, ${pg.escapeLiteral(payload)})`;

/**
 * NOTIFY and LISTEN. Each transaction with news holds a lock of the whole database until it is durable, and PostgreSQL
 * wakes every process: for few processes.
 */
export function notifyCarrier(listener: Listener): NewsCarrier {
  return {
    prepare: (news) => ({ statements: news.map(notifyOf), committed: () => {} }),
    subscribe: (channel, handler) => listener.listen(channel, (payload) => handler(payload)),
  };
}

/** Of a bus, what carries news. */
export type NewsBus = Pick<Bus, 'publish' | 'subscribe'>;

const messageSchema = z.union([z.tuple([z.string()]), z.tuple([z.string(), z.string()])]);

const subjectOf = (channel: string): string => `news.${channel}`;

/**
 * A message after the commit, and a row in the transaction for those who do not get it. It listens to the database as
 * well: commands, and processes without the broker, tell by NOTIFY.
 */
export class BrokerCarrier implements NewsCarrier {
  readonly #bus: NewsBus;
  readonly #notices: NewsCarrier;
  readonly #mustNotify: () => boolean;
  readonly #sender = randomBytes(9).toString('base64url');
  #number = 0;

  /** `mustNotify`: whether there are processes that hear nothing but NOTIFY. */
  constructor(bus: NewsBus, notices: NewsCarrier, mustNotify: () => boolean) {
    this.#bus = bus;
    this.#notices = notices;
    this.#mustNotify = mustNotify;
  }

  prepare(news: readonly NewsItem[]) {
    const messages = news.map((item) => ({ item, id: item.isKept ? this.#nextId() : undefined }));
    const rows = messages.flatMap(({ item, id }) =>
      id === undefined ? [] : [`(${[id, item.channel, item.payload].map(pg.escapeLiteral).join(', ')})`],
    );
    const kept = rows.length === 0 ? [] : [`insert into news (id, channel, payload) values ${rows.join(', ')}`];
    const notices = this.#mustNotify() ? this.#notices.prepare(news).statements : [];
    const committed = (): void => {
      for (const { item, id } of messages) this.#publish(item, id);
    };
    return { statements: [...kept, ...notices], committed };
  }

  subscribe(channel: string, handler: HeardNews): Ending {
    const noticed = this.#notices.subscribe(channel, handler);
    const subscription = this.#bus.subscribe(subjectOf(channel), ({ data }) => {
      const [payload = '', id] = messageSchema.safeParse(jsonOf(Buffer.from(data).toString())).data ?? [];
      handler(payload, id);
    });
    return {
      close: async () => {
        await Promise.all([noticed.close(), subscription.close()]);
      },
    };
  }

  #nextId(): string {
    this.#number += 1;
    return `${this.#sender}.${this.#number}`;
  }

  #publish({ channel, payload }: NewsItem, id: string | undefined): void {
    const message = id === undefined ? [payload] : [payload, id];
    try {
      this.#bus.publish(subjectOf(channel), Buffer.from(JSON.stringify(message)));
    } catch {
      // The bus is closed: others read the row.
    }
  }
}
