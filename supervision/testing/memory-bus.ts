/** The bus of a cluster whose nodes are in one process. */
import { BusError, type BusMessage } from '../../proto/ports/bus.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { NodeBus } from '../placement/node-options.ts';

type Receive = (message: BusMessage) => void;

/** Delivers in order, each message in a microtask of its own. Every receiver gets a copy of the bytes. */
export class MemoryBus implements NodeBus {
  /** By subject; those of a subscription that ends with `>` by what comes before. */
  readonly #receivers = new Map<string, Set<Receive>>();
  #nextRequest = 1;

  publish(subject: string, data: Uint8Array): void {
    this.#send({ subject, data });
  }

  subscribe(subject: string, handler: Receive): Ending {
    const key = subject.replace(/>$/, '');
    const receivers = this.#receivers.get(key) ?? new Set();
    this.#receivers.set(key, receivers.add(handler));
    return {
      close: async () => {
        receivers.delete(handler);
        if (receivers.size === 0) this.#receivers.delete(key);
      },
    };
  }

  async request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    const reply = `reply.${this.#nextRequest++}`;
    let timer: NodeJS.Timeout | undefined;
    const answer = new Promise<Uint8Array>((resolve, reject) => {
      this.#receivers.set(reply, new Set([(message) => resolve(message.data)]));
      timer = setTimeout(() => reject(new BusError('timeout', `${subject} did not answer`)), timeoutMs);
    });
    try {
      if (!this.#send({ subject, data, reply })) throw new BusError('no_responders', `nobody receives ${subject}`);
      return await answer;
    } finally {
      clearTimeout(timer);
      this.#receivers.delete(reply);
    }
  }

  /** Whether anybody receives it. */
  #send(message: BusMessage): boolean {
    const { subject } = message;
    const keys = [subject, subject.slice(0, subject.lastIndexOf('.') + 1)];
    const receivers = keys.flatMap((key) => [...(this.#receivers.get(key) ?? [])]);
    for (const receive of receivers) queueMicrotask(() => receive({ ...message, data: message.data.slice() }));
    return receivers.length > 0;
  }
}
