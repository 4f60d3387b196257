/** What the process of a service adds to it: answers to operators, and problems of its own. */
import { auditEntry } from '../../actors/service/audit.ts';
import { callOf, type handlers, refusalOf } from '../../actors/service/dispatch.ts';
import {
  type ActorProcess,
  type ActorVerb,
  actOnActor,
  listActors,
  runtimeEndpoints,
  showActor,
} from '../../proto/auth/actors.ts';
import type { AnyEndpoint, Call, CallOf, ReplyOf, Service } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { audit } from '../../storage/audit.ts';
import type { Db } from '../../storage/db.ts';
import type { ActorAnswer, ActorPost, HeardAnswers } from './actor-post.ts';

/** Children of one actor that are listed: a tree is for reading. */
const MAX_CHILDREN = 100;
/** Actors of one process, and of all. */
const MAX_ACTORS = 5000;
const MAX_ACTORS_IN_ALL = 20_000;
const MIN_ACTORS = 50;

/** Endpoints that a process answers beside those of its service. */
export interface Operations {
  readonly endpoints: readonly AnyEndpoint[];
  /** One of them. Throws or rejects with Refusal. */
  call(endpoint: AnyEndpoint, call: Call): Promise<unknown>;
}

/** Those that a table of handlers answers. */
export function operationsOf(
  endpoints: readonly AnyEndpoint[],
  table: ReturnType<typeof handlers<undefined>>,
): Operations {
  return {
    endpoints,
    call: async (endpoint, call) => {
      try {
        return await table.get(endpoint.name)?.run(undefined, call);
      } catch (error) {
        throw refusalOf(error);
      }
    },
  };
}

/** The service with operators' endpoints added. */
export function withOperations(service: Service, ...all: readonly Operations[]): Service {
  const byName = new Map(all.flatMap((one) => one.endpoints.map(({ name }) => [name, one])));
  return {
    ...service,
    endpoints: [...service.endpoints, ...all.flatMap(({ endpoints }) => endpoints)],
    call: (endpoint, call) => (byName.get(endpoint.name) ?? service).call(endpoint, call),
  };
}

/** The service, which is not well while there is a `problem`. */
export function withProblem(service: Service, problem: () => string | undefined): Service {
  return {
    ...service,
    health: async () => {
      const health = await service.health();
      const more = problem();
      return more === undefined ? health : { ok: false, problems: [...health.problems, more] };
    },
  };
}

/** Answers operators about the actors of all processes, and acts on one. */
export class ActorOperations implements Operations {
  readonly endpoints = runtimeEndpoints;
  readonly #post: ActorPost;
  readonly #db: Db;

  constructor(post: ActorPost, db: Db) {
    this.#post = post;
    this.#db = db;
  }

  /** One of runtimeEndpoints. Throws Refusal. */
  async call(endpoint: AnyEndpoint, call: Call): Promise<unknown> {
    if (endpoint.name === listActors.name) return this.#list(callOf(listActors, call));
    if (endpoint.name === showActor.name) return this.#show(callOf(showActor, call));
    return this.#act(callOf(actOnActor, call), call);
  }

  async #list({ query }: CallOf<typeof listActors>): Promise<ReplyOf<typeof listActors>> {
    const wanted = { what: 'tree', maxChildren: MAX_CHILDREN, maxActors: MAX_ACTORS } as const;
    if (query.node !== undefined) {
      const heard = await this.#askNamed(wanted, query.node);
      return { actors: actorsOf(heard), processes: await this.#processesOf(heard) };
    }
    if (query.all === undefined || query.all === 'false') {
      return { actors: (await this.#post.askSelf(wanted)).actors ?? [] };
    }
    const count = (await this.#post.known()).length;
    const share = Math.max(MIN_ACTORS, Math.floor(MAX_ACTORS_IN_ALL / count));
    const heard = await this.#post.askAll({ ...wanted, maxActors: Math.min(MAX_ACTORS, share) });
    return { actors: actorsOf(heard), processes: await this.#processesOf(heard) };
  }

  async #show({ query: { path, node } }: CallOf<typeof showActor>): Promise<ReplyOf<typeof showActor>> {
    const heard = await this.#find(path, node);
    return { actors: actorIn(heard), processes: await this.#processesOf(heard) };
  }

  async #act(
    { body: { verb, path, node, force } }: CallOf<typeof actOnActor>,
    call: Call,
  ): Promise<ReplyOf<typeof actOnActor>> {
    const [actor, ...more] = actorIn(await this.#find(path, node));
    if (actor === undefined) throw notFound(path);
    if (more.length > 0) {
      const nodes = [actor, ...more].map((one) => one.node).join(', ');
      throw new Refusal('conflict', { message: `Several processes have ${path}: say which node, of ${nodes}.` });
    }
    refuseGuarded(actor, verb, force);
    const forced = force ? { forced: true } : {};
    // Before: what was done to an actor is never without its entry, at worst the other way round.
    const entry = auditEntry(call, `actor.${verb}`, actor.path, { node: actor.node, kind: actor.kind, ...forced });
    await audit(this.#db, entry);
    const question = { what: 'act', path: actor.path, verb } as const;
    const isOwn = actor.node === this.#post.address;
    const answer = isOwn ? await this.#post.askSelf(question) : await this.#post.askOne(question, actor.node);
    if (answer === undefined)
      throw new Refusal('unavailable', {
        message: `${actor.node} did not answer in time: look at the actor before you try again.`,
      });
    if (answer.problem !== undefined) throw new Refusal('conflict', { message: answer.problem });
    if (answer.isDone === undefined) throw notFound(path);
    return { path: actor.path, node: actor.node, is_done: answer.isDone };
  }

  /** Throws Refusal `not_found` where no process has it that answers. */
  async #find(path: string, node: string | undefined): Promise<HeardAnswers> {
    const question = { what: 'actor', path } as const;
    const heard = node === undefined ? await this.#post.askAll(question) : await this.#askNamed(question, node);
    if (actorIn(heard).length > 0) return heard;
    const silent = heard.silent.map(({ address }) => address);
    throw notFound(path, silent.length === 0 ? '' : ` ${silent.join(', ')} did not answer.`);
  }

  /** Asks the process of that address, or whose id begins so. Throws Refusal. */
  async #askNamed(question: Parameters<ActorPost['askSelf']>[0], name: string): Promise<HeardAnswers> {
    const nodes = await this.#post.known();
    const exact = nodes.filter((one) => one.id === name || one.address === name);
    const found = exact.length > 0 ? exact : nodes.filter(({ id }) => id?.startsWith(name));
    if (found.length > 1)
      throw new Refusal('conflict', { message: `${name} fits several nodes: give more of the id.` });
    // A gateway that nobody has asked yet is in no list.
    const to = found[0]?.address ?? (name.includes(':') ? name : undefined);
    if (to === undefined) throw new Refusal('not_found', { message: `There is no node ${name}.` });
    if (to === this.#post.address) return { answers: [await this.#post.askSelf(question)], silent: [] };
    const answer = this.#post.isShared ? await this.#post.askOne(question, to) : undefined;
    return answer === undefined
      ? { answers: [], silent: [found[0] ?? { address: to }] }
      : { answers: [answer], silent: [] };
  }

  async #processesOf({ answers, silent }: HeardAnswers): Promise<ActorProcess[]> {
    const ids = new Map((await this.#post.known()).map(({ address, id }) => [address, id]));
    const idOf = (address: string) => {
      const id = ids.get(address);
      return id === undefined ? {} : { id };
    };
    return [
      ...answers.map(({ address, name }) => ({ address, name, ...idOf(address), status: 'answered' as const })),
      ...silent.map((one) => ({ ...one, status: 'silent' as const })),
    ];
  }
}

function actorsOf({ answers }: HeardAnswers) {
  return answers.flatMap(({ address, actors = [] }) => actors.map((actor) => ({ ...actor, node: address })));
}

function actorIn({ answers }: HeardAnswers): NonNullable<ActorAnswer['actor']>[] {
  return answers.flatMap(({ actor }) => actor ?? []);
}

function notFound(path: string, more = ''): Refusal {
  return new Refusal('not_found', { message: `There is no actor ${path}.${more}` });
}

/** Throws Refusal `conflict`. */
function refuseGuarded(actor: NonNullable<ActorAnswer['actor']>, verb: ActorVerb, force: boolean): void {
  if (actor.kind === 'system')
    throw new Refusal('conflict', { message: `${actor.path} is the process itself: end it with SIGTERM.` });
  if (verb === 'release' && !actor.is_entity)
    throw new Refusal('conflict', {
      message: `${actor.path} is no entity, and would not wake again: stop or reset it.`,
    });
  if (actor.is_guarded && !force)
    throw new Refusal('conflict', {
      message: `Other actors depend on ${actor.path} (${actor.kind}) and end with it: use force if that is meant.`,
    });
}
