import { z } from 'zod';
import { jsonLines } from '../../common/calls.ts';
import type { DockerClient } from '../api/client.ts';
import { containerOfEvent, openEvents } from '../events.ts';
import type { Naming } from '../naming.ts';

const event = z.object({
  Action: z.string(),
  timeNano: z.number(),
  Actor: z.object({ Attributes: z.record(z.string(), z.string()).default({}) }),
});

/** What happened to a container since somebody watches. */
interface ContainerLife {
  restarts: number;
  /** Ends that nobody asked for, Unix ms: the last few. */
  crashedAt: number[];
  oomKills: number;
  oomAt: number | undefined;
  /** It was told to end. */
  isTold: boolean;
  hasCrashed: boolean;
}

const ACTIONS = ['start', 'kill', 'die', 'oom', 'destroy'];
const REMEMBERED_CRASHES = 10;
/** More than the engine itself remembers, which are 256. */
const REMEMBERED_EVENTS = 1000;

/** Crashes, restarts and memory kills of the containers of one installation, counted from the engine's events. */
export class ContainerHistory {
  readonly #client: DockerClient;
  readonly #naming: Naming;
  readonly #lives = new Map<string, ContainerLife>();
  readonly #stop = new AbortController();
  /** When the last event was, ns: after a lost connection those since then are asked for, and come again in part. */
  #lastNs = 0;
  /** The last events counted. Not by their times: the clock of the engine's machine may be set back. */
  readonly #counted = new Set<string>();
  #following: Promise<void> | undefined;
  calls = 0;

  constructor(client: DockerClient, naming: Naming) {
    this.#client = client;
    this.#naming = naming;
  }

  of(id: string): ContainerLife | undefined {
    return this.#lives.get(id);
  }

  /** Follows the events unless it does already. A connection that ends is opened again by the next call. */
  ensure(): void {
    if (this.#stop.signal.aborted) return;
    this.#following ??= this.#follow()
      .catch(() => undefined)
      .finally(() => {
        this.#following = undefined;
      });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#following;
  }

  /** Counts one event; those counted before are left out. */
  count(value: unknown): void {
    const parsed = event.safeParse(value);
    if (!parsed.success) return;
    const { Action, timeNano, Actor } = parsed.data;
    const id = containerOfEvent(Actor.Attributes, this.#naming);
    if (id === undefined || !this.#isNew(`${timeNano} ${Action} ${id}`)) return;
    this.#lastNs = timeNano;
    if (Action === 'destroy') {
      this.#lives.delete(id);
      return;
    }
    const at = timeNano / 1e6;
    const life = this.#lives.get(id) ?? newLife();
    this.#lives.set(id, life);
    if (Action === 'kill') life.isTold = true;
    else if (Action === 'oom') {
      life.oomKills += 1;
      life.oomAt = at;
    } else if (Action === 'die' && !life.isTold) {
      life.hasCrashed = true;
      life.crashedAt = [...life.crashedAt, at].slice(-REMEMBERED_CRASHES);
    } else if (Action === 'start') {
      if (life.hasCrashed) life.restarts += 1;
      life.hasCrashed = false;
      life.isTold = false;
    }
  }

  #isNew(event: string): boolean {
    if (this.#counted.has(event)) return false;
    this.#counted.add(event);
    const [oldest] = this.#counted;
    if (oldest !== undefined && this.#counted.size > REMEMBERED_EVENTS) this.#counted.delete(oldest);
    return true;
  }

  async #follow(): Promise<void> {
    this.calls += 1;
    const since = this.#lastNs === 0 ? undefined : (this.#lastNs / 1e9).toFixed(9);
    const stream = await openEvents(this.#client, this.#naming, ACTIONS, this.#stop.signal, since);
    for await (const line of jsonLines(stream)) this.count(line);
  }
}

function newLife(): ContainerLife {
  return { restarts: 0, crashedAt: [], oomKills: 0, oomAt: undefined, isTold: false, hasCrashed: false };
}
