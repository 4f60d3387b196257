import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { ClusterCache } from './cache.ts';
import { deleteIfThere, getIfThere, type KubeClient } from './client.ts';
import { type KubeNaming, labels, names, RUN_ANNOTATION, SPEC_ANNOTATION } from './naming.ts';
import {
  hasEnded,
  type KeptSpec,
  keptSpecView,
  listOf,
  objectView,
  type PodView,
  podView,
  type Run,
  runView,
} from './views.ts';

type Namespace = z.output<typeof objectView>;

const PAGE_SIZE = 500;
/** Names that are remembered: about 100 bytes each. */
const MOST_NAMES = 20_000;

/** How a list is asked for. */
interface Listing {
  readonly signal?: AbortSignal;
  /** Each call that is made. */
  readonly onCall?: (() => void) | undefined;
}

/** All objects of a list, page by page, and the version of the list. */
export async function listWhole<T>(
  client: KubeClient,
  path: string,
  item: z.ZodType<T>,
  query: Readonly<Record<string, string>>,
  { onCall, ...options }: Listing = {},
): Promise<{ items: T[]; version: string }> {
  const head = z.object({ resourceVersion: z.string().default(''), continue: z.string().default('') });
  const page = z.object({ items: listOf(item), metadata: head });
  const all: T[] = [];
  for (let next: { continue?: string } = {}; ; ) {
    onCall?.();
    const { items, metadata } = await client.json('GET', path, page, {
      ...options,
      query: { ...query, limit: PAGE_SIZE, ...next },
    });
    all.push(...items);
    if (metadata.continue === '') return { items: all, version: metadata.resourceVersion };
    next = { continue: metadata.continue };
  }
}

/** All objects of a list. */
export async function listAll<T>(...asked: Parameters<typeof listWhole<T>>): Promise<T[]> {
  return (await listWhole(...asked)).items;
}

/**
 * Finds the namespace of a container by its id. The answer is the API server's own and never older than the question. A
 * name that is known, from a watch or from before, makes it one small read; otherwise the server goes through all
 * namespaces, once for all who ask at the same time.
 */
export class NamespaceFinder {
  readonly #client: KubeClient;
  readonly #naming: KubeNaming;
  readonly #cache: () => ClusterCache | undefined;
  readonly #names = new LRUCache<string, string>({ max: MOST_NAMES });
  #asking = new Set<string>();
  #next: Promise<Map<string, Namespace>> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: KubeClient, naming: KubeNaming, cache: () => ClusterCache | undefined) {
    this.#client = client;
    this.#naming = naming;
    this.#cache = cache;
  }

  /** Remembers the name of a container's namespace: it never changes. */
  note(id: string, name: string): void {
    this.#names.set(id, name);
  }

  /** The container's namespace, also one that is on its way out; undefined when there is none. */
  async find(id: string): Promise<Namespace | undefined> {
    const labelSelector = this.#naming.selector(id);
    const name = this.#names.get(id) ?? this.#cache()?.namespaceOf(id);
    if (name !== undefined) {
      const fieldSelector = `metadata.name=${name}`;
      const [found] = await listAll(this.#client, '/api/v1/namespaces', objectView, { labelSelector, fieldSelector });
      if (found === undefined) this.#names.delete(id);
      return found;
    }
    const found = (await this.#search(id)).get(id);
    if (found !== undefined) this.note(id, found.metadata.name);
    return found;
  }

  /** One search at a time; who asks while one runs may know of what it does not see, and so waits for the next. */
  #search(id: string): Promise<Map<string, Namespace>> {
    this.#asking.add(id);
    if (this.#next !== undefined) return this.#next;
    const next = this.#last.then(async () => {
      const [only = '', ...others] = this.#asking;
      this.#asking = new Set();
      this.#next = undefined;
      const labelSelector = this.#naming.selector(others.length === 0 ? only : undefined);
      const all = await listAll(this.#client, '/api/v1/namespaces', objectView, { labelSelector });
      const found = new Map<string, Namespace>();
      for (const one of all) {
        const of = this.#naming.idOf(one.metadata.labels);
        // Labels may have been copied to another namespace, too.
        if (of !== undefined && (!found.has(of) || one.metadata.deletionTimestamp == null)) found.set(of, one);
      }
      return found;
    });
    this.#next = next;
    this.#last = next.catch(() => undefined);
    return next;
  }
}

/** A container that exists: its namespace and what it was asked to be. */
export interface Found {
  readonly id: string;
  readonly userId: string;
  readonly namespace: string;
  readonly spec: KeptSpec;
  /** How far it was when it was last told to start or to stop; undefined: it never ran, or is being started. */
  readonly run: Run | undefined;
  /** Only its data is left. */
  readonly isKept: boolean;
}

/** What a namespace says of its container; undefined when it is not of this installation, or on its way out. */
export function foundOf(naming: KubeNaming, { metadata }: z.output<typeof objectView>): Found | undefined {
  const id = naming.idOf(metadata.labels);
  const spec = parseJson(metadata.annotations[SPEC_ANNOTATION], keptSpecView);
  if (id === undefined || spec === undefined || metadata.deletionTimestamp != null) return undefined;
  const userId = metadata.labels[labels.user] ?? '';
  const run = parseJson(metadata.annotations[RUN_ANNOTATION], runView);
  return { id, userId, namespace: metadata.name, spec, run, isKept: metadata.labels[labels.state] === 'kept' };
}

/** JSON of that shape; undefined for anything else. */
export function parseJson<T>(text: string | undefined, schema: z.ZodType<T>): T | undefined {
  return text === undefined ? undefined : schema.safeParse(jsonOf(text)).data;
}

/** How long a pod may take to go after its grace, ms. */
const GONE_MS = 90_000;

/** The pods of one installation: one in each container's namespace, or none. */
export class Pods {
  readonly #client: KubeClient;
  readonly #naming: KubeNaming;
  readonly #cache: () => ClusterCache | undefined;

  /** `cache`: what a watch knows of the cluster, while one stands. */
  constructor(client: KubeClient, naming: KubeNaming, cache: () => ClusterCache | undefined) {
    this.#client = client;
    this.#naming = naming;
    this.#cache = cache;
  }

  /** All pods of this installation. */
  list(): Promise<PodView[]> {
    return listAll(this.#client, '/api/v1/pods', podView, { labelSelector: this.#naming.selector() });
  }

  /** The pod of a container's namespace. */
  of(namespace: string): Promise<PodView | undefined> {
    return getIfThere(this.#client, `/api/v1/namespaces/${namespace}/pods/${names.pod}`, podView);
  }

  /** Follows what becomes of a pod. */
  follow(pod: PodView): PodFollower {
    return new PodFollower({ cache: this.#cache, ask: (namespace) => this.of(namespace) }, pod);
  }

  /** Deletes the pod and waits until it is gone. Resolves with what was seen of it last; undefined: there was none. */
  async delete(namespace: string, graceSeconds = 1): Promise<PodView | undefined> {
    const path = `/api/v1/namespaces/${namespace}/pods/${names.pod}`;
    let last = await this.of(namespace);
    if (last === undefined) return undefined;
    const { uid } = last.metadata;
    const ask = (gracePeriodSeconds: number): Promise<void> =>
      deleteIfThere(this.#client, path, { gracePeriodSeconds, preconditions: { uid } });
    // No grace at all would take the pod from the books while it still runs.
    await ask(Math.max(1, Math.round(graceSeconds)));
    const deadline = Date.now() + graceSeconds * 1000 + GONE_MS;
    const follower = this.follow(last);
    for (;;) {
      const now = await follower.next();
      if (now === undefined) return last;
      last = now;
      // Its node has said that all of it ended; to tidy up it may take many seconds more.
      if (now.metadata.deletionTimestamp != null && hasEnded(now)) await ask(0);
      if (Date.now() > deadline) {
        throw new EngineError('unavailable', 'The container does not go: its node may be away.');
      }
    }
  }
}

/** A pod that a watch knows is asked for once in so long, ms: the watch may be silent, and nobody has noticed yet. */
const DOUBT_MS = 15_000;
/** Who follows is told at least so often, changed or not: it counts time. ms */
const TICK_MS = 1000;

/** Where pods are known from. */
interface PodSources {
  /** What a watch knows; undefined while none stands. */
  readonly cache: () => ClusterCache | undefined;
  /** Asks the API server. */
  readonly ask: (namespace: string) => Promise<PodView | undefined>;
}

/**
 * Follows one pod through its changes: by a watch where one stands, so that waiting for many pods costs the API server
 * nothing, else by asking again and again, less and less often.
 */
export class PodFollower {
  readonly #sources: PodSources;
  readonly #namespace: string;
  readonly #uid: string;
  #askedAt = Date.now();
  #pauseMs = 50;

  /** Begins with the pod as the API server just told it. */
  constructor(sources: PodSources, { metadata }: PodView) {
    this.#sources = sources;
    this.#namespace = metadata.namespace;
    this.#uid = metadata.uid;
  }

  /** Waits for a change, or a moment. Resolves with the pod; undefined: it is gone. Rejects as the API server does. */
  async next(): Promise<PodView | undefined> {
    const cache = this.#sources.cache();
    if (cache?.isCurrent('pods') !== true) {
      await delay(this.#pauseMs);
      this.#pauseMs = Math.min(1000, this.#pauseMs * 1.3);
    } else {
      await cache.podChange(this.#namespace, names.pod, TICK_MS);
    }
    const known = this.#sources.cache()?.pod(this.#namespace, names.pod);
    // What is not known yet, or not any more, only the API server knows for sure.
    if (known?.metadata.uid === this.#uid && Date.now() - this.#askedAt < DOUBT_MS) return known;
    const pod = await this.#sources.ask(this.#namespace);
    this.#askedAt = Date.now();
    return pod?.metadata.uid === this.#uid ? pod : undefined;
  }
}
