/** Clients with open sockets, who come back whenever one ends: of notifications, of statuses, of a log. Each keeps what it saw wrong. */
import { z } from 'zod';
import { computeEventSchema } from '../../../../proto/compute/endpoints.ts';
import type { TestSocket } from '../../clients/websocket.ts';
import { pause } from '../../pause.ts';

/** How a client's sockets ended, by close code; `refused` when one did not open. */
export type Ends = Map<string, number>;

/** Opens a socket, again and again, until it is told to stop. */
abstract class Client {
  readonly problems: string[] = [];
  readonly ends: Ends = new Map();
  readonly #connect: (path: string) => Promise<TestSocket>;
  readonly #ending = new AbortController();
  #done: Promise<void> | undefined;

  constructor(connect: (path: string) => Promise<TestSocket>) {
    this.#connect = connect;
  }

  start(): this {
    this.#done = this.#run();
    return this;
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#done;
  }

  /** Where to go on from what came so far. */
  protected abstract path(): string;
  protected abstract take(text: string): void;

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      try {
        const socket = await this.#connect(this.path());
        const end = () => void socket.close();
        signal.addEventListener('abort', end, { once: true });
        await this.#read(socket);
        signal.removeEventListener('abort', end);
        const { code, reason } = await socket.closed;
        if (!signal.aborted) this.#ended(`${code} ${reason}`.trim());
      } catch (error) {
        if (!signal.aborted) this.#ended(`refused: ${error instanceof Error ? error.message.slice(0, 120) : ''}`);
      }
      await pause(20 + Math.random() * 100, 'retry', signal);
    }
  }

  /** Takes all that comes, until the end. */
  async #read(socket: TestSocket): Promise<void> {
    let isOpen = true;
    const ended = socket.closed.then(() => {
      isOpen = false;
    });
    while (isOpen || socket.queued() > 0) {
      if (socket.queued() > 0) this.take(await socket.text());
      else await Promise.race([ended, new Promise((resolve) => socket.socket.once('message', resolve))]);
    }
  }

  #ended(how: string): void {
    this.ends.set(how, (this.ends.get(how) ?? 0) + 1);
  }
}

const notification = z.object({ id: z.number(), title: z.string(), category: z.string() });
/** Of those that are counted; services send some of their own. */
export const CATEGORY = 'storage';

/** Notifications of one user: each once, in the order of their ids. */
export class Notifications extends Client {
  readonly titles: string[] = [];
  readonly #token: string;
  #last = 0;

  constructor(connect: (path: string) => Promise<TestSocket>, token: string) {
    super(connect);
    this.#token = token;
  }

  protected path(): string {
    return `/ws/notifications?token=${this.#token}&since=${this.#last}`;
  }

  protected take(text: string): void {
    const { id, title, category } = notification.parse(JSON.parse(text));
    if (id <= this.#last) this.problems.push(`notification ${id} (${title}) came after ${this.#last}`);
    this.#last = Math.max(id, this.#last);
    if (category === CATEGORY) this.titles.push(title);
  }
}

/** What `/compute/ws` makes a client believe of its containers. */
export class Statuses extends Client {
  readonly #token: string;
  readonly #known = new Map<string, string>();

  constructor(connect: (path: string) => Promise<TestSocket>, token: string) {
    super(connect);
    this.#token = token;
  }

  of(containerId: string): string | undefined {
    return this.#known.get(containerId);
  }

  protected path(): string {
    return `/compute/ws?token=${this.#token}`;
  }

  protected take(text: string): void {
    const event = computeEventSchema.parse(JSON.parse(text));
    if (event.type === 'container_status') {
      this.#known.set(event.data.container_id, event.data.status);
      return;
    }
    if (event.type !== 'containers') return;
    this.#known.clear();
    for (const { id, status } of event.data) this.#known.set(id, status);
  }
}

/** A log of numbered lines: each once, in order. */
export class Lines extends Client {
  /** The number of the last one. */
  last = 0;
  readonly #path: string;
  #stamp = '';

  /** `path`: of the container's log, with a token. */
  constructor(connect: (path: string) => Promise<TestSocket>, path: string) {
    super(connect);
    this.#path = path;
  }

  protected path(): string {
    return `${this.#path}&${this.#stamp === '' ? 'tail=0' : `since=${encodeURIComponent(this.#stamp)}`}`;
  }

  protected take(text: string): void {
    const [, stamp = '', number] = /^(\S{30}) line (\d+)$/.exec(text) ?? [];
    if (number === undefined) return;
    if (Number(number) !== this.last + 1 && this.last > 0) this.problems.push(`line ${number} came after ${this.last}`);
    this.last = Number(number);
    this.#stamp = stamp;
  }
}
