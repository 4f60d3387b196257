/** People who use all services of a platform all the time, and what they were answered instead of what they should have been. */

import { randomUUID } from 'node:crypto';
import { pause } from '../../pause.ts';
import { publicKey } from '../../ssh/public-key.ts';
import type { Front, FrontReply } from '../balancing-client.ts';
import type { Person } from '../services.ts';

/** One who asks: a few requests that belong together. Throws for an answer that should have been another. */
type Errand = (ask: Ask) => Promise<void>;
type Ask = (method: string, path: string, wanted: number, body?: unknown) => Promise<FrontReply>;

const LONGEST_PAUSE_MS = 300;

/** Several errands at once for each of the people, again and again until `stop`. */
export class Requests {
  /** Answered as they should be, by the first part of the path. */
  readonly answered = new Map<string, number>();
  readonly failures: string[] = [];
  /** Connections that were refused, so that another gateway was asked. */
  refused = 0;
  /** Connections that broke, so that a request was sent again; those that changed something among them. */
  resets = 0;
  resetChanges = 0;
  readonly #front: Front;
  #isOver = false;
  readonly #lanes: Promise<void>[] = [];

  constructor(front: Front, people: readonly Person[]) {
    this.#front = front;
    for (const person of people)
      for (const errand of [profile(), keys(), mutes(), measurements(), mappings()])
        this.#lanes.push(this.#lane(person, errand));
  }

  get count(): number {
    return [...this.answered.values()].reduce((sum, n) => sum + n, 0);
  }

  /** Resolves once nothing is under way. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#lanes);
  }

  async #lane(person: Person, errand: Errand): Promise<void> {
    const ask: Ask = async (method, path, wanted, body) => {
      const began = performance.now();
      const reply = await this.#front.request(method, path, { token: person.token, body, timeoutMs: 60_000 });
      const resets = reply.resets - reply.refused;
      this.refused += reply.refused;
      this.resets += resets;
      if (method !== 'GET') this.resetChanges += resets;
      const { status, json, by } = reply;
      if (status !== wanted)
        throw new Error(
          `${status} ${JSON.stringify(json).slice(0, 300)} by ${by.url} at ${new Date().toISOString()} after ${Math.round(performance.now() - began)} ms, ${resets} resets`,
        );
      const service = path.split('/').slice(1, 3).join('/').split('?')[0] ?? '';
      this.answered.set(service, (this.answered.get(service) ?? 0) + 1);
      return reply;
    };
    while (!this.#isOver) {
      let now = '';
      try {
        await errand((method, path, wanted, body) => {
          now = `${method} ${path}`;
          return ask(method, path, wanted, body);
        });
      } catch (error) {
        this.failures.push(`${now}: ${error instanceof Error ? error.message : 'failed'}`);
      }
      await pause(Math.random() * LONGEST_PAUSE_MS, 'pace');
    }
  }
}

/** auth: what was set is there. */
function profile(): Errand {
  let n = 0;
  return async (ask) => {
    const display_name = `name ${++n}`;
    await ask('PUT', '/api/settings/profile', 200, { display_name });
    const { json } = await ask('GET', '/api/session', 200);
    if (json.display_name !== display_name) throw new Error(`${JSON.stringify(json)} instead of ${display_name}`);
  };
}

/** compute: keys come and go. */
function keys(): Errand {
  return async (ask) => {
    const { json } = await ask('POST', '/compute/ssh-keys', 200, { name: 'laptop', public_key: publicKey() });
    const listed = await ask('GET', '/compute/ssh-keys', 200);
    if (!JSON.stringify(listed.json).includes(`"id":${json.id},`)) throw new Error(`key ${json.id} is not there`);
    await ask('DELETE', `/compute/ssh-keys/${json.id}`, 200);
    await ask('GET', '/compute/containers', 200);
  };
}

/** notify. */
function mutes(): Errand {
  return async (ask) => {
    const mute = { category: 'storage', scope: randomUUID() };
    await ask('PUT', '/api/notifications/mutes', 200, mute);
    await ask('GET', '/api/notifications?limit=5', 200);
    await ask('DELETE', '/api/notifications/mutes', 200, mute);
    await ask('GET', '/api/notifications/unread-count', 200);
  };
}

/** monitor. */
function measurements(): Errand {
  return async (ask) => {
    await ask('GET', '/api/metrics/pods', 200);
    await ask('GET', '/pod-metrics', 200);
  };
}

/** The gateways' own networking API. */
function mappings(): Errand {
  return async (ask) => {
    await ask('GET', '/api/domain-mappings', 200);
    await ask('POST', '/api/domain-mappings', 404, {
      domain: 'a.example.org',
      target_port: 80,
      container_id: 'nobody',
    });
  };
}
