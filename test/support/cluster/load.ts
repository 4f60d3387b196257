/** Clients of a cluster: users whose display names are written and read all the time, with everything that was answered. */
import { z } from 'zod';
import { addUser } from '../../../actors/auth/users/users.ts';
import type { Db } from '../../../storage/db.ts';
import { pause } from '../pause.ts';
import { type Front, type FrontReply, type FrontRequest, NoAnswer, type Target } from './balancing-client.ts';
import type { Chronicle } from './chronicle.ts';
import { type History, judge, type Operation, type Verdict } from './history.ts';

const PASSWORD = 'a long enough password';
const profileSchema = z.object({ display_name: z.string() });

/** Who uses the cluster. */
export interface Client {
  readonly userId: string;
  readonly shard: number;
  readonly token: string;
}

/** Adds users and logs them in; they are looked at from now on. */
export async function addClients(db: Db, front: Front, chronicle: Chronicle, count: number): Promise<Client[]> {
  const clients: Client[] = [];
  for (let n = 0; n < count; n++) {
    const username = `user-${n}`;
    const { id: userId } = await addUser(db, username, PASSWORD);
    const shard = await chronicle.follow(userId);
    const { status, json } = await front.request('POST', '/api/login', { body: { username, password: PASSWORD } });
    if (status !== 200) throw new Error(`${username} could not log in: ${status} ${JSON.stringify(json)}`);
    clients.push({ userId, shard, token: z.string().parse(json.token) });
  }
  return clients;
}

export interface CallOptions {
  /** Who is asked; default: all. */
  readonly among?: readonly Target[];
  readonly timeoutMs?: number;
}

export interface LoadOptions {
  readonly front: Front;
  readonly chronicle: Chronicle;
  readonly clients: readonly Client[];
  /** Requests that are under way for each client at once. Default 2. */
  readonly lanes?: number;
  /** Longest pause between two requests of a lane, ms. Default 400. */
  readonly pauseMs?: number;
  /** Default 4,000. */
  readonly timeoutMs?: number;
  /** Requests whose connection was reset are sent again, as HTTP clients do. Default false: their end is unknown. */
  readonly retries?: boolean;
}

/** Users at work. Unless told otherwise nothing is tried again: each request is an operation of its own, whose end may be unknown. */
export class Load {
  readonly clients: readonly Client[];
  readonly operations: Operation[] = [];
  /** What came instead of a good answer. */
  readonly failures: string[] = [];
  /** Requests that were sent again. */
  resets = 0;
  readonly #options: LoadOptions;
  readonly #initial: ReadonlyMap<string, string>;
  readonly #lanes: Promise<void>[] = [];
  #values = 0;
  #running = false;

  private constructor(options: LoadOptions, initial: ReadonlyMap<string, string>) {
    this.#options = options;
    this.clients = options.clients;
    this.#initial = initial;
  }

  /** Prepares it; `start` begins. */
  static async over(options: LoadOptions): Promise<Load> {
    return new Load(options, await options.chronicle.names());
  }

  start(): void {
    const { lanes = 2, pauseMs = 400 } = this.#options;
    this.#running = true;
    for (const client of this.clients) {
      for (let lane = 0; lane < lanes; lane++) this.#lanes.push(this.#work(client, pauseMs));
    }
  }

  /** Resolves once nothing is under way. */
  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#lanes);
  }

  /** Sets a name that nobody else sets. */
  write({ userId, token }: Client, options: CallOptions = {}): Promise<Operation> {
    this.#values += 1;
    const value = `name ${this.#values}`;
    return this.#call('write', userId, value, options, async (call) => {
      return this.#options.front.request('PUT', '/api/settings/profile', {
        ...call,
        token,
        body: { display_name: value },
      });
    });
  }

  read({ userId, token }: Client, options: CallOptions = {}): Promise<Operation> {
    return this.#call('read', userId, undefined, options, (call) =>
      this.#options.front.request('GET', '/api/session', { ...call, token }),
    );
  }

  /** Everything, judged. Nothing may be under way. */
  async verdict(): Promise<Verdict> {
    return judge(await this.history());
  }

  async history(): Promise<History> {
    const { chronicle } = this.#options;
    const [effects, reigns, final] = await Promise.all([chronicle.effects(), chronicle.reigns(), chronicle.names()]);
    return { initial: this.#initial, operations: this.operations, effects, reigns, final };
  }

  async #work(client: Client, pauseMs: number): Promise<void> {
    while (this.#running) {
      await pause(Math.random() * pauseMs, 'pace');
      await (Math.random() < 0.5 ? this.write(client) : this.read(client));
    }
  }

  async #call(
    type: Operation['type'],
    entity: string,
    written: string | undefined,
    { among, timeoutMs = this.#options.timeoutMs ?? 4000 }: CallOptions,
    send: (call: Pick<FrontRequest, 'timeoutMs' | 'retries' | 'among'>) => Promise<FrontReply>,
  ): Promise<Operation> {
    const called = performance.now();
    let outcome: Operation['outcome'] = 'unknown';
    let value = written;
    try {
      const retries = this.#options.retries ?? false;
      const { status, json, resets } = await send({ timeoutMs, retries, ...(among === undefined ? {} : { among }) });
      this.resets += resets;
      if (status !== 200) this.failures.push(`${type}: ${status} ${JSON.stringify(json)}`);
      if (status === 200) outcome = 'ok';
      else if (status >= 400 && status < 500) outcome = 'refused';
      if (type === 'read' && status === 200) value = profileSchema.parse(json).display_name;
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      if (error.unsent) outcome = 'refused';
      this.failures.push(`${type}: ${error.message}`);
    }
    const operation: Operation = { entity, type, value, called, returned: performance.now(), outcome };
    this.operations.push(operation);
    return operation;
  }
}
