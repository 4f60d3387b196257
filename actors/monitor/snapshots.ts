/**
 * The last snapshot of nodes and of pods, and its bytes: made once for each audience (the administrator, each user),
 * however many clients it has, and only when somebody of it asks.
 */
import { randomBytes } from 'node:crypto';
import type { Caller } from '../../proto/endpoint.ts';
import { CORE_NAMESPACE, type NodeMetrics, type PodMetrics } from '../../proto/monitor/endpoints.ts';
import type { NodeSample, PodSample } from '../../proto/ports/metrics-source.ts';
import { nodeView, podView } from './views.ts';

/** What there are snapshots of. */
export type SnapshotKind = 'cluster' | 'pods';
/** Who sees the same: everything, or the containers of one user. */
export type Audience = 'admin' | { readonly userId: string };

/** Which snapshot a caller is shown. */
export function audienceOf(caller: Pick<Caller, 'isAdmin' | 'kind' | 'userId'>): Audience {
  // The caller itself, which its stream's guard holds anyhow: there are many.
  return caller.isAdmin && caller.kind === 'session' ? 'admin' : caller;
}

/** A snapshot as one audience sees it, in all the forms it is sent in. */
export interface Encoded {
  /** Names it for `Last-Event-ID`; another process never gives the same. */
  readonly id: string;
  /** The object, as text of a WebSocket frame. */
  readonly text: string;
  /** The object as an event, and wrapped in `{type, payload}` as an event. */
  readonly event: Uint8Array;
  readonly combined: Uint8Array;
}

interface Taken<T> {
  readonly seq: number;
  readonly at: number;
  readonly items: readonly T[];
}

/** Keeps them. */
export class Snapshots {
  readonly #run = randomBytes(6).toString('hex');
  #seq = 0;
  #nodes: Taken<NodeMetrics> | undefined;
  #pods: Taken<PodMetrics> | undefined;
  #podsOfUser = new Map<string, PodMetrics[]>();
  readonly #encoded = { cluster: new Map<string, Encoded>(), pods: new Map<string, Encoded>() };
  /** How often a snapshot was encoded. */
  encodings = 0;

  setNodes(samples: readonly NodeSample[], at: number): void {
    this.#nodes = { seq: ++this.#seq, at, items: samples.map(nodeView) };
    this.#encoded.cluster.clear();
  }

  setPods(samples: readonly PodSample[], at: number): void {
    const items = samples.map(podView);
    this.#podsOfUser = new Map();
    samples.forEach(({ userId, namespace }, index) => {
      const view = items[index];
      if (userId === undefined || namespace === CORE_NAMESPACE || view === undefined) return;
      const own = this.#podsOfUser.get(userId);
      if (own === undefined) this.#podsOfUser.set(userId, [view]);
      else own.push(view);
    });
    this.#pods = { seq: ++this.#seq, at, items };
    this.#encoded.pods.clear();
  }

  /** 2.13's enclosing object; undefined before the first measurement. */
  nodes() {
    const taken = this.#nodes;
    return taken && { timestamp: new Date(taken.at).toISOString(), nodes: [...taken.items] };
  }

  /**
   * 2.14's enclosing object as `audience` sees it; undefined before the first measurement. `namespace` narrows it if it
   * is one the audience may see; else it is as if it were not there.
   */
  pods(audience: Audience, namespace?: string) {
    const taken = this.#pods;
    if (taken === undefined) return undefined;
    const visible = audience === 'admin' ? taken.items : (this.#podsOfUser.get(audience.userId) ?? []);
    const isOwn = audience === 'admin' || namespace?.startsWith(`compute-${audience.userId}-`) === true;
    const pods =
      namespace === undefined || !isOwn ? [...visible] : visible.filter((pod) => pod.namespace === namespace);
    return { timestamp: new Date(taken.at).toISOString(), pods };
  }

  /** The bytes for an audience; undefined before the first measurement. Nodes look the same to all. */
  encoded(kind: SnapshotKind, audience: Audience): Encoded | undefined {
    const key = kind === 'cluster' || audience === 'admin' ? '' : audience.userId;
    const known = this.#encoded[kind].get(key);
    if (known !== undefined) return known;
    const payload = kind === 'cluster' ? this.nodes() : this.pods(audience);
    const seq = (kind === 'cluster' ? this.#nodes : this.#pods)?.seq;
    if (payload === undefined || seq === undefined) return undefined;
    this.encodings += 1;
    const id = `${this.#run}.${seq}.${kind}`;
    const text = JSON.stringify(payload);
    const made: Encoded = {
      id,
      text,
      event: Buffer.from(`id: ${id}\ndata: ${text}\n\n`),
      combined: Buffer.from(`id: ${id}\ndata: {"type":"${kind}","payload":${text}}\n\n`),
    };
    this.#encoded[kind].set(key, made);
    return made;
  }
}
