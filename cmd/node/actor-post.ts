/** What processes ask each other about their actors, over the bus. */
import { hostname } from 'node:os';
import { z } from 'zod';
import { errorText } from '../../lib/errors.ts';
import {
  type ActorDetailsView,
  type ActorProcess,
  type ActorView,
  actorDetailsSchema,
  actorSchema,
  actorVerbSchema,
} from '../../proto/auth/actors.ts';
import { newId } from '../../proto/ids.ts';
import { type Bus, BusError } from '../../proto/ports/bus.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { actOnLocalActor, listLocalActors, showLocalActor } from './local-actors.ts';

/** All processes listen here. */
const ASK = 'runtime.ask';
const ANSWERS = 'runtime.answer';
/** Of what is said here. A process that does not know it says nothing, and is named as silent. */
const FORMAT = 1;

const questionSchema = z.discriminatedUnion('what', [
  z.object({ what: z.literal('tree'), maxChildren: z.int(), maxActors: z.int() }),
  z.object({ what: z.literal('actor'), path: z.string() }),
  z.object({ what: z.literal('act'), path: z.string(), verb: actorVerbSchema }),
  // No question: the process ends.
  z.object({ what: z.literal('leave') }),
]);
type ActorQuestion = z.output<typeof questionSchema>;

const askSchema = z.object({
  v: z.literal(FORMAT),
  from: z.string(),
  /** The address of the only process that is meant. */
  to: z.string().optional(),
  replyTo: z.string(),
  question: questionSchema,
});

const answerSchema = z.object({
  v: z.literal(FORMAT),
  address: z.string(),
  name: z.string(),
  actors: z.array(actorSchema).optional(),
  actor: actorDetailsSchema.optional(),
  isDone: z.boolean().optional(),
  problem: z.string().optional(),
});

/** What one process said. All but its address and name are absent where it has nothing to say. */
export interface ActorAnswer {
  readonly address: string;
  readonly name: string;
  readonly actors?: ActorView[] | undefined;
  readonly actor?: ActorDetailsView | undefined;
  readonly isDone?: boolean | undefined;
  /** Why it did not do it, in a sentence. */
  readonly problem?: string | undefined;
}

/** What was heard, and who was not. */
export interface HeardAnswers {
  readonly answers: readonly ActorAnswer[];
  readonly silent: readonly Omit<ActorProcess, 'status'>[];
}

/** Longest wait for other processes, ms: their own waits for an actor included. */
const PATIENCE_MS = 1800;
/** How long those are waited for of whom nobody knows yet: gateways that never answered, ms. */
const GRACE_MS = 300;
/** How long a process is remembered that is in no list of nodes, ms. */
const REMEMBER_MS = 600_000;
const MAX_REMEMBERED = 2000;
/** Largest answer, bytes: NATS takes a megabyte. */
const MAX_BYTES = 700_000;

/** What a process needs for it. */
interface ActorPostOptions {
  readonly system: SystemRef;
  readonly bus: Bus;
  /** Whether the bus reaches other processes. */
  readonly isShared: boolean;
  readonly name: string;
  readonly log: Log;
  /** The nodes that live. */
  readonly nodes: () => Promise<readonly { readonly id: string; readonly address: string }[]>;
}

/** The post of one process: answers others about its actors, and asks them. */
export class ActorPost {
  /** Of this process, as `troupe nodes` shows it. */
  readonly address = `${hostname()}:${process.pid}`;
  readonly isShared: boolean;
  readonly #options: ActorPostOptions;
  readonly #subscription: Ending | undefined;
  /** Processes that are no nodes, such as gateways, by address; the one heard of last is last. */
  readonly #others = new Map<string, { readonly name: string; readonly at: number }>();

  constructor(options: ActorPostOptions) {
    this.#options = options;
    this.isShared = options.isShared;
    if (options.isShared) this.#subscription = options.bus.subscribe(ASK, ({ data }) => void this.#answer(data));
  }

  /** The processes that should answer, as far as is known here: this one, all nodes, and others that did lately. */
  async known(): Promise<Omit<ActorProcess, 'status'>[]> {
    const found = new Map<string, Omit<ActorProcess, 'status'>>();
    found.set(this.address, { address: this.address, name: this.#options.name });
    const now = performance.now();
    for (const [address, { name, at }] of this.#others) {
      if (now - at > REMEMBER_MS) this.#others.delete(address);
      else found.set(address, { address, name });
    }
    for (const { id, address } of await this.#options.nodes()) {
      if (this.isShared || address === this.address) found.set(address, { ...found.get(address), address, id });
    }
    return [...found.values()];
  }

  /** Answers by itself. */
  async askSelf(question: ActorQuestion): Promise<ActorAnswer> {
    const { system, name } = this.#options;
    const own = { address: this.address, name };
    switch (question.what) {
      case 'tree':
        return { ...own, actors: listLocalActors(system, question) };
      case 'actor':
        return { ...own, actor: showLocalActor(system, question.path, this.address) };
      case 'act':
        return { ...own, ...(await actOnLocalActor(system, question.path, question.verb)) };
      case 'leave':
        return own;
    }
  }

  /** Asks one other process; undefined when it is silent. */
  async askOne(question: ActorQuestion, to: string): Promise<ActorAnswer | undefined> {
    return (await this.#ask(question, [{ address: to }], to)).answers[0];
  }

  /** Asks all processes, this one among them. */
  async askAll(question: ActorQuestion): Promise<HeardAnswers> {
    const expected = (await this.known()).filter(({ address }) => address !== this.address);
    const [own, heard] = await Promise.all([
      this.askSelf(question),
      this.isShared ? this.#ask(question, expected) : { answers: [], silent: [] },
    ]);
    const answers = heard.answers.toSorted((a, b) => (a.address < b.address ? -1 : 1));
    return { answers: [own, ...answers], silent: heard.silent };
  }

  /** Tells the others that this process ends. */
  async close(): Promise<void> {
    if (this.#subscription === undefined) return;
    this.#publish(ASK, { v: FORMAT, from: this.address, replyTo: '', question: { what: 'leave' } });
    await this.#subscription.close();
  }

  async #ask(question: ActorQuestion, expected: HeardAnswers['silent'], to?: string): Promise<HeardAnswers> {
    const replyTo = `${ANSWERS}.${newId()}`;
    const heard = new Map<string, ActorAnswer>();
    const missing = new Set(expected.map(({ address }) => address));
    let done = (): void => {};
    const complete = new Promise<void>((resolve) => {
      done = resolve;
    });
    const subscription = this.#options.bus.subscribe(replyTo, ({ data }) => {
      const answer = this.#read(answerSchema, data);
      if (answer === undefined) return;
      heard.set(answer.address, answer);
      missing.delete(answer.address);
      const isNode = expected.some(({ address, id }) => address === answer.address && id !== undefined);
      if (to === undefined && !isNode) this.#remember(answer);
      if (missing.size === 0) done();
    });
    const timers = [setTimeout(done, PATIENCE_MS)];
    try {
      this.#publish(ASK, { v: FORMAT, from: this.address, ...(to === undefined ? {} : { to }), replyTo, question });
      const grace = new Promise<void>((resolve) => timers.push(setTimeout(resolve, to === undefined ? GRACE_MS : 0)));
      if (missing.size === 0) done();
      await Promise.all([complete, grace]);
    } finally {
      for (const timer of timers) clearTimeout(timer);
      await subscription.close();
    }
    return { answers: [...heard.values()], silent: expected.filter(({ address }) => missing.has(address)) };
  }

  #remember({ address, name }: ActorAnswer): void {
    this.#others.delete(address);
    this.#others.set(address, { name, at: performance.now() });
    for (const oldest of this.#others.keys()) {
      if (this.#others.size <= MAX_REMEMBERED) break;
      this.#others.delete(oldest);
    }
  }

  async #answer(data: Uint8Array): Promise<void> {
    const ask = this.#read(askSchema, data);
    if (ask === undefined || ask.from === this.address) return;
    const { question, replyTo, to, from } = ask;
    if (question.what === 'leave') this.#others.delete(from);
    if (question.what === 'leave' || (to !== undefined && to !== this.address)) return;
    try {
      if (question.what === 'act') this.#options.log.warn({ ...question, from }, 'told to act on an actor');
      this.#publish(replyTo, { v: FORMAT, ...(await this.#bounded(question)) });
    } catch (error) {
      const code = error instanceof BusError ? error.code : undefined;
      this.#options.log.warn({ from, code, error: errorText(error, 'unknown') }, 'could not answer about actors');
    }
  }

  /** Of a tree whose answer would be too large, fewer actors. */
  async #bounded(question: ActorQuestion): Promise<ActorAnswer> {
    const answer = await this.askSelf(question);
    if (question.what !== 'tree' || Buffer.byteLength(JSON.stringify(answer)) <= MAX_BYTES) return answer;
    const maxActors = Math.floor((answer.actors?.length ?? 0) / 4);
    return this.#bounded({ ...question, maxChildren: Math.floor(question.maxChildren / 4), maxActors });
  }

  #publish(subject: string, content: object): void {
    this.#options.bus.publish(subject, Buffer.from(JSON.stringify(content)));
  }

  /** Undefined for what another version said. */
  #read<T>(schema: z.ZodType<T>, data: Uint8Array): T | undefined {
    try {
      return schema.parse(JSON.parse(Buffer.from(data).toString()));
    } catch (error) {
      this.#options.log.debug({ error: errorText(error, 'unknown') }, 'a message about actors could not be read');
      return undefined;
    }
  }
}
