/**
 * What is known of each part of the cluster, from this monitor's sources and from other monitors, and since when a
 * source is silent. One that hangs is not asked until it has answered.
 */
import { errorText } from '../../lib/errors.ts';
import { withTimeout } from '../../lib/waiting.ts';
import type { ClusterSample, MetricsSource, NodeSample, PodSample } from '../../proto/ports/metrics-source.ts';
import type { SharedSample, Shares } from './shares.ts';

interface Reading {
  readonly source: MetricsSource;
  /** What it measures, once that is known. */
  part: string | undefined;
  /** When that was last measured by whomever, Unix ms; 0: never. */
  at: number;
  isBusy: boolean;
  problem: string | undefined;
  /** Reads in a row that failed. */
  failures: number;
  /** Since when this monitor measures it, of the process's own clock; undefined: another does. */
  mineSince: number | undefined;
}

/** What was measured last of a part. */
interface HeardSample extends SharedSample {
  readonly isOwn: boolean;
  /** Of the process's own clock: those of other machines differ. */
  readonly heardAt: number;
}

/** What all parts say of one thing together. */
interface Whole<T> {
  /** When the oldest of what is fresh was measured, Unix ms. */
  readonly at: number;
  /** When to expect the next, ms. */
  readonly refreshMs: number;
  readonly items: T[];
}

/** What is told during a refresh. */
interface RefreshListener {
  /** There is something new about nodes. */
  onNodes(): void;
  /** There is something new about pods. */
  onPods(): void;
  /** A source did not answer. */
  onFailure(source: string, reason: string): void;
}

/** Refreshes that a part may miss, and time besides in which another monitor takes over, ms. */
const PATIENCE = 3;
const TAKE_OVER_MS = 5000;
/** What nobody measured for so long is forgotten, ms. */
const FORGET_MS = 600_000;
/** Failures in a row after which another monitor is given the part. */
const GIVE_UP = 2;
/** How long a source may need until it knows all, ms: what the monitor before knew counts meanwhile. */
const WARM_UP_MS = 3000;

export class Readings {
  readonly #readings: readonly Reading[];
  readonly #refreshMs: number;
  readonly #shares: Shares | undefined;
  readonly #known = new Map<string, HeardSample>();
  /** What came from others, or grew stale, since the listener was told. */
  readonly #news = { nodes: false, pods: false };
  #stale = '';

  /** `refreshMs`: between two refreshes. `shares`: other monitors, if there may be some. */
  constructor(sources: readonly MetricsSource[], refreshMs: number, shares?: Shares) {
    this.#readings = sources.map((source) => ({
      source,
      // Alone it measures all, whatever that is.
      part: shares === undefined || source.identify === undefined ? source.name : undefined,
      at: 0,
      isBusy: false,
      problem: undefined,
      failures: 0,
      mineSince: undefined,
    }));
    this.#refreshMs = refreshMs;
    this.#shares = shares;
  }

  /** Reads this monitor's sources at once, each for at most `deadlineMs`. Resolves once `listener` was told. */
  async refresh(deadlineMs: number, now: () => number, listener: RefreshListener): Promise<void> {
    await Promise.all(
      this.#readings.map(async (reading) => {
        try {
          const sample = await this.#read(reading, deadlineMs, now);
          if (sample?.nodes !== undefined) this.#tellNodes(listener);
          if (sample?.pods !== undefined) this.#tellPods(listener);
        } catch (error) {
          reading.problem = errorText(error);
          reading.failures += 1;
          if (reading.failures >= GIVE_UP && reading.part !== undefined) this.#shares?.giveUp(reading.part);
          listener.onFailure(reading.source.name, reading.problem);
        }
      }),
    );
    this.#age();
    if (this.#news.nodes) this.#tellNodes(listener);
    if (this.#news.pods) this.#tellPods(listener);
  }

  /** Takes what another monitor found. Returns whether nothing was known of that part. */
  heard(shared: SharedSample): boolean {
    const isNew = !this.#known.has(shared.part);
    this.#known.set(shared.part, { ...shared, isOwn: false, heardAt: performance.now() });
    this.#news.nodes ||= shared.sample.nodes !== undefined;
    this.#news.pods ||= shared.sample.pods !== undefined;
    for (const reading of this.#readings) {
      if (reading.part !== shared.part) continue;
      reading.at = shared.at;
      reading.problem = undefined;
      reading.failures = 0;
    }
    return isNew;
  }

  /**
   * All nodes, each once; undefined before any was measured. Those that nobody measures any more are so marked by their
   * conditions, unless that is true of all: then they are as they were.
   */
  nodes(): Whole<NodeSample> | undefined {
    const whole = this.#whole(({ nodes }) => nodes, unmeasured);
    return whole && { ...whole, items: eachOnce(whole.items) };
  }

  /** All pods; undefined before any was measured. Those that nobody measures any more are left out, unless all are. */
  pods(): Whole<PodSample> | undefined {
    return this.#whole(
      ({ pods }) => pods,
      () => undefined,
    );
  }

  /** What this monitor measured itself. */
  own(): { nodes: NodeSample[]; pods: PodSample[] } {
    const samples = [...this.#known.values()].filter(({ isOwn }) => isOwn).map(({ sample }) => sample);
    return { nodes: samples.flatMap(({ nodes = [] }) => nodes), pods: samples.flatMap(({ pods = [] }) => pods) };
  }

  /** Sentences about sources that do not answer; a source is given `patienceMs` after its last word. */
  problems(now: number, patienceMs: number): string[] {
    return this.#readings.flatMap(({ source, at, problem }) => {
      if (problem === undefined || (at !== 0 && now - at < patienceMs)) return [];
      const age = at === 0 ? 'nothing was measured yet' : `last measured ${Math.round((now - at) / 1000)} s ago`;
      return [`${source.name}: ${problem} (${age})`];
    });
  }

  /** Undefined when another monitor measures it. */
  async #read(reading: Reading, deadlineMs: number, now: () => number): Promise<ClusterSample | undefined> {
    const { source } = reading;
    const shares = this.#shares;
    reading.part ??= await within(reading, deadlineMs, (signal) => source.identify?.(signal) ?? source.name);
    const { part } = reading;
    shares?.offer(part);
    if (shares?.isMine(part) === false) {
      source.rest?.();
      reading.mineSince = undefined;
      return undefined;
    }
    reading.mineSince ??= performance.now();
    const read = await within(reading, deadlineMs, (signal) => source.read(signal));
    const { sample, at } = this.#warm(part, reading.mineSince, { sample: read, at: now() });
    this.#known.set(part, { part, sample, at, refreshMs: this.#refreshMs, isOwn: true, heardAt: performance.now() });
    reading.at = at;
    reading.problem = undefined;
    reading.failures = 0;
    shares?.tell(part, sample, at);
    return sample;
  }

  /** What was found, and the pods that the monitor before knew, while the source may not know all of them yet. */
  #warm(part: string, since: number, found: { sample: ClusterSample; at: number }) {
    const before = this.#known.get(part);
    const { pods } = found.sample;
    if (pods === undefined || before?.sample.pods === undefined || performance.now() - since > WARM_UP_MS) return found;
    const present = new Set(pods.map(({ name }) => name));
    const missing = before.sample.pods.filter(({ name }) => !present.has(name));
    if (this.#shares === undefined || missing.length === 0 || isStale(before)) return found;
    return { sample: { ...found.sample, pods: [...pods, ...missing] }, at: before.at };
  }

  #whole<T>(
    part: (sample: ClusterSample) => readonly T[] | undefined,
    stale: (item: T) => T | undefined,
  ): Whole<T> | undefined {
    const all = [...this.#known.values()].filter(({ sample }) => part(sample) !== undefined);
    const fresh = all.filter((known) => !isStale(known));
    const counted = fresh.length > 0 ? fresh : all;
    if (counted.length === 0) return undefined;
    const items = all.flatMap((known) => {
      const found = part(known.sample) ?? [];
      return counted.includes(known) ? found : found.map(stale).filter((item) => item !== undefined);
    });
    return {
      at: Math.min(...counted.map(({ at }) => at)),
      refreshMs: Math.max(...counted.map(({ refreshMs }) => refreshMs)),
      items,
    };
  }

  /** Notes what grew stale, and forgets what has been for long. */
  #age(): void {
    const now = performance.now();
    for (const [part, { heardAt }] of this.#known) if (now - heardAt > FORGET_MS) this.#known.delete(part);
    const stale = [...this.#known.values()].filter(isStale);
    const names = stale.map(({ part }) => part).join('\n');
    if (names === this.#stale) return;
    this.#stale = names;
    this.#news.nodes ||= this.#isTold(({ nodes }) => nodes !== undefined);
    this.#news.pods ||= this.#isTold(({ pods }) => pods !== undefined);
  }

  /** Whether something of that kind is still measured: else the last snapshot stays. */
  #isTold(has: (sample: ClusterSample) => boolean): boolean {
    return [...this.#known.values()].some((known) => has(known.sample) && !isStale(known));
  }

  #tellNodes(listener: RefreshListener): void {
    this.#news.nodes = false;
    listener.onNodes();
  }

  #tellPods(listener: RefreshListener): void {
    this.#news.pods = false;
    listener.onPods();
  }
}

function isStale({ heardAt, refreshMs }: HeardSample): boolean {
  return performance.now() - heardAt > PATIENCE * refreshMs + TAKE_OVER_MS;
}

/** A machine of which nobody tells, as Kubernetes shows one. */
function unmeasured(node: NodeSample): NodeSample {
  return { ...node, conditions: node.conditions.map(({ type }) => ({ type, status: 'Unknown' })) };
}

/** Of one machine, as monitors with other disks see it, the one whose disk is fullest. */
function eachOnce(nodes: readonly NodeSample[]): NodeSample[] {
  const byName = new Map<string, NodeSample>();
  for (const node of nodes) {
    const known = byName.get(node.name);
    const isFuller =
      known === undefined || node.diskBytes * known.diskCapacityBytes > known.diskBytes * node.diskCapacityBytes;
    if (isFuller) byName.set(node.name, node);
  }
  return [...byName.values()];
}

async function within<T>(
  reading: Reading,
  deadlineMs: number,
  work: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  if (reading.isBusy) throw new Error('it does not answer');
  const over = new AbortController();
  reading.isBusy = true;
  const working = (async () => work(over.signal))().finally(() => {
    reading.isBusy = false;
  });
  return withTimeout(working, deadlineMs, () => {
    over.abort();
    throw new Error('it does not answer');
  });
}
