import { errorText } from '../../../lib/errors.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { KubeClient } from './client.ts';
import { type KubeNaming, labels, names } from './naming.ts';
import { hasEnded, objectView, type PodView, podView, workloadOf } from './views.ts';
import { type KubeWatchTimes, ResourceWatch } from './watch.ts';

/** A container's pod as it is now, and what happened to the container since somebody watches. */
interface PodLife {
  readonly id: string;
  readonly userId: string;
  readonly namespace: string;
  /** Undefined while there is none. */
  pod: PodView | undefined;
  restarts: number;
  /** Ends that nobody asked for, Unix ms: the last few. */
  crashedAt: readonly number[];
  oomKills: number;
  oomAt: number | undefined;
  /** Of the last pod. */
  uid: string;
  /** Another pod of it, which takes the place of this one when this one goes. */
  beside: PodView | undefined;
  hasCrashed: boolean;
  isCounted: boolean;
}

const REMEMBERED_CRASHES = 10;
/** A container that crashed and is not made anew was deleted. */
const FORGOTTEN_AFTER_MS = 15 * 60_000;

/** The pods of one installation, kept by one watch: a question about all of them costs the API server nothing. */
export class PodHistory {
  readonly #client: KubeClient;
  readonly #naming: KubeNaming;
  readonly #log: Log;
  readonly #times: KubeWatchTimes;
  readonly #lives = new Map<string, PodLife>();
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #first: Promise<void> | undefined;
  #stands = false;
  #problem: string | undefined;
  calls = 0;

  constructor(client: KubeClient, naming: KubeNaming, log: Log, times: KubeWatchTimes) {
    this.#client = client;
    this.#naming = naming;
    this.#log = log;
    this.#times = times;
  }

  /** Begins to watch; resolves once the pods are known. Rejects with what is wrong when `signal` aborts before. */
  async ready(signal: AbortSignal): Promise<void> {
    this.#first ??= new Promise((resolve) => {
      this.#running = new ResourceWatch(this.#client, {
        path: '/api/v1/pods',
        selector: this.#naming.selector(),
        log: this.#log,
        times: this.#times,
        signal: this.#stop.signal,
        listed: (items) => this.#all(items),
        sees: () => {
          this.#stands = true;
          resolve();
        },
        changed: (type, { object }) => this.#one(object, type === 'DELETED'),
        lost: (reason) => {
          this.#problem = reason;
        },
        onCall: () => {
          this.calls += 1;
        },
      }).run();
    });
    if (this.#stands) return;
    const ended = AbortSignal.any([signal, this.#stop.signal]);
    const problem = (): Error => new Error(this.#problem ?? 'the pods are not known yet', { cause: ended.reason });
    if (ended.aborted) throw problem();
    await Promise.race([
      this.#first,
      new Promise((_, reject) => ended.addEventListener('abort', () => reject(problem()), { once: true })),
    ]);
  }

  /** All that have a pod, and those that crashed and have none at the moment. */
  all(): PodLife[] {
    const before = Date.now() - FORGOTTEN_AFTER_MS;
    for (const [id, life] of this.#lives) {
      if (life.pod === undefined && (life.crashedAt.at(-1) ?? 0) < before) this.#lives.delete(id);
    }
    return [...this.#lives.values()];
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  #all(items: readonly unknown[]): void {
    const present = new Set<string>();
    const uids = new Set<string>();
    for (const item of items) {
      const id = this.#one(item, false);
      if (id !== undefined) present.add(id);
      uids.add(objectView.safeParse(item).data?.metadata.uid ?? '');
    }
    for (const [id, life] of this.#lives) {
      const { beside } = life;
      life.beside = undefined;
      if (!present.has(id)) this.#gone(id, life);
      else if (beside !== undefined && !uids.has(life.uid)) this.#take(life, beside);
      else if (beside !== undefined && uids.has(beside.metadata.uid)) life.beside = beside;
    }
  }

  /** A pod that is there, or was. Returns whose it is. */
  #one(object: unknown, isGone: boolean): string | undefined {
    const parsed = podView.safeParse(object);
    const id = parsed.success ? this.#naming.idOf(parsed.data.metadata.labels) : undefined;
    if (!parsed.success || id === undefined) {
      this.#log.debug({ reason: errorText(parsed.error) }, 'a pod that cannot be read');
      return undefined;
    }
    const pod = parsed.data;
    // A command that runs once is none of the container's lives.
    if (pod.metadata.name === names.once) return undefined;
    const life = this.#lives.get(id) ?? this.#born(id, pod);
    if (life.uid !== pod.metadata.uid) {
      if (isGone) {
        if (life.beside?.metadata.uid === pod.metadata.uid) life.beside = undefined;
        return id;
      }
      if (isBeside(life.pod, pod)) {
        life.beside = pod;
        return id;
      }
      this.#take(life, pod);
    }
    life.pod = pod;
    this.#count(life, pod);
    const { beside } = life;
    const isEnding = isGone || pod.metadata.deletionTimestamp != null;
    if (isEnding && beside !== undefined) {
      life.beside = undefined;
      this.#take(life, beside);
    } else if (isGone) this.#gone(id, life);
    return id;
  }

  /** Another pod is the container's from now on. */
  #take(life: PodLife, pod: PodView): void {
    if (life.hasCrashed) life.restarts += 1;
    life.hasCrashed = false;
    life.isCounted = false;
    life.uid = pod.metadata.uid;
    life.pod = pod;
    this.#count(life, pod);
  }

  #born(id: string, pod: PodView): PodLife {
    const life: PodLife = {
      id,
      userId: pod.metadata.labels[labels.user] ?? '',
      namespace: pod.metadata.namespace,
      pod: undefined,
      uid: pod.metadata.uid,
      beside: undefined,
      isCounted: false,
      hasCrashed: false,
      restarts: 0,
      crashedAt: [],
      oomKills: 0,
      oomAt: undefined,
    };
    this.#lives.set(id, life);
    return life;
  }

  /** An end is a crash when nobody had deleted the pod before. */
  #count(life: PodLife, pod: PodView): void {
    if (!hasEnded(pod) || pod.metadata.deletionTimestamp != null || life.isCounted) return;
    life.isCounted = true;
    life.hasCrashed = true;
    const over = workloadOf(pod)?.state.terminated;
    const at = Date.parse(over?.finishedAt ?? '');
    const when = Number.isFinite(at) ? at : Date.now();
    life.crashedAt = [...life.crashedAt, when].slice(-REMEMBERED_CRASHES);
    if (over?.reason !== 'OOMKilled') return;
    life.oomKills += 1;
    life.oomAt = when;
  }

  /** What crashed is made anew soon, and then its crashes count. */
  #gone(id: string, life: PodLife): void {
    if (life.hasCrashed) life.pod = undefined;
    else this.#lives.delete(id);
  }
}

/** Whether a pod stands beside another, and does not come after its end: names are unique. */
function isBeside(present: PodView | undefined, pod: PodView): boolean {
  if (present === undefined || present.metadata.deletionTimestamp != null) return false;
  return present.metadata.name !== pod.metadata.name;
}
