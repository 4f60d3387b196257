import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import type { PrivateNetwork } from '../../../proto/ports/engine.ts';
import { listOf } from '../common/calls.ts';
import type { ClusterCache } from './cache.ts';
import type { KubeClient } from './client.ts';
import { type KubeNaming, labels, POD_ANNOTATION, podNameOf, RUN_ANNOTATION, SPEC_ANNOTATION } from './naming.ts';
import { membershipOf, membershipTextOf } from './network-objects.ts';
import { type KeptSpec, keptSpecView, type NamespaceView, objectView, type Run, runView } from './views.ts';

const PAGE_SIZE = 500;
/** Names that are remembered: about 100 bytes each. */
const MOST_NAMES = 20_000;

/** All objects of a list, page by page. */
export async function listAll<T>(
  client: KubeClient,
  path: string,
  item: z.ZodType<T>,
  query: Readonly<Record<string, string>>,
): Promise<T[]> {
  const page = z.object({ items: listOf(item), metadata: z.object({ continue: z.string().default('') }) });
  const all: T[] = [];
  let next = '';
  do {
    const more = next === '' ? {} : { continue: next };
    const { items, metadata } = await client.json('GET', path, page, {
      query: { ...query, limit: PAGE_SIZE, ...more },
    });
    all.push(...items);
    next = metadata.continue;
  } while (next !== '');
  return all;
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
  readonly #names = new Map<string, string>();
  #asking = new Set<string>();
  #next: Promise<Map<string, NamespaceView>> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: KubeClient, naming: KubeNaming, cache: () => ClusterCache | undefined) {
    this.#client = client;
    this.#naming = naming;
    this.#cache = cache;
  }

  /** Remembers the name of a container's namespace: it never changes. */
  note(id: string, name: string): void {
    this.#names.delete(id);
    this.#names.set(id, name);
    const [oldest] = this.#names.keys();
    if (this.#names.size > MOST_NAMES && oldest !== undefined) this.#names.delete(oldest);
  }

  /** The container's namespace, also one that is on its way out; undefined when there is none. */
  async find(id: string): Promise<NamespaceView | undefined> {
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
  #search(id: string): Promise<Map<string, NamespaceView>> {
    this.#asking.add(id);
    if (this.#next !== undefined) return this.#next;
    const next = this.#last.then(async () => {
      const [only = '', ...others] = this.#asking;
      this.#asking = new Set();
      this.#next = undefined;
      const labelSelector = this.#naming.selector(others.length === 0 ? only : undefined);
      const all = await listAll(this.#client, '/api/v1/namespaces', objectView, { labelSelector });
      const found = new Map<string, NamespaceView>();
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
  /** The name of the pod that is the container, or would be. */
  readonly pod: string;
  /** Its namespace names its pod: it had a successor once. */
  readonly isMarked: boolean;
  readonly spec: KeptSpec;
  /** As it is written. */
  readonly specText: string;
  /** How far it was when it was last told to start or to stop; undefined: it never ran, or is being started. */
  readonly run: Run | undefined;
  /** As `ContainerState.network`. */
  readonly network: PrivateNetwork | null;
  /** As it is written; absent: nothing is. */
  readonly membershipText?: string;
  /** Only its data is left. */
  readonly isKept: boolean;
}

/** What a namespace says of its container; undefined when it is not of this installation, or on its way out. */
export function foundOf(naming: KubeNaming, namespace: NamespaceView): Found | undefined {
  const { metadata } = namespace;
  const id = naming.idOf(metadata.labels);
  const specText = metadata.annotations[SPEC_ANNOTATION] ?? '';
  const spec = parseJson(specText, keptSpecView);
  if (id === undefined || spec === undefined || metadata.deletionTimestamp != null) return undefined;
  const userId = metadata.labels[labels.user] ?? '';
  const run = parseJson(metadata.annotations[RUN_ANNOTATION], runView);
  const isKept = metadata.labels[labels.state] === 'kept';
  const isMarked = metadata.annotations[POD_ANNOTATION] !== undefined;
  const at = { namespace: metadata.name, pod: podNameOf(metadata.annotations), isMarked };
  const membershipText = membershipTextOf(namespace);
  const membership = {
    network: membershipOf(namespace),
    ...(membershipText === undefined ? {} : { membershipText }),
  };
  return { id, userId, ...at, spec, specText, run, ...membership, isKept };
}

/** JSON of that shape; undefined for anything else. */
export function parseJson<T>(text: string | undefined, schema: z.ZodType<T>): T | undefined {
  return text === undefined ? undefined : schema.safeParse(jsonOf(text)).data;
}
