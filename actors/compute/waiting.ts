/** Replies that wait until a container runs. They wait beside the actors, which go on meanwhile. */

import { createContainer, getContainer, startContainer } from '../../proto/compute/endpoints.ts';
import type { ComputeNews, ComputeNewsSource } from '../../proto/compute/events.ts';
import { type ContainerView, containerSchema } from '../../proto/compute/fields.ts';
import type { AnyEndpoint, Call, Service } from '../../proto/endpoint.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import { callOf } from '../service/dispatch.ts';

/** Whether it runs, and is well or known not to be; or will not run. */
function hasCome({ status, health }: ContainerView): boolean {
  return status !== 'pending' && status !== 'initializing' && !(status === 'running' && health === 'starting');
}

/** Why one looks again. */
type Wake = () => void;

/** Calls of the service, of which some are answered when a container has got somewhere. */
export class WaitingCalls {
  readonly #service: Pick<Service, 'call'>;
  readonly #source: ComputeNewsSource;
  /** Those who wait, by container. */
  readonly #waiting = new Map<string, Set<Wake>>();
  #listening: Ending | undefined;

  constructor(service: Pick<Service, 'call'>, source: ComputeNewsSource) {
    this.#service = service;
    this.#source = source;
  }

  /** As `Service.call`. Not async: it carries every request. */
  call(endpoint: AnyEndpoint, call: Call): Promise<unknown> {
    const answered = this.#service.call(endpoint, call);
    if (endpoint !== createContainer && endpoint !== startContainer) return answered;
    const { wait, timeout } = callOf(createContainer, call).query;
    if (wait === undefined) return answered;
    return answered.then((reply) => this.#running(containerSchema.pick({ id: true }).parse(reply).id, call, timeout));
  }

  /** The container once it runs, or will not, or when the time is over. */
  async #running(id: string, call: Call, seconds: number): Promise<ContainerView> {
    let isOver = false;
    let isNews = false;
    let wake: Wake = () => {};
    const onNews = () => {
      isNews = true;
      wake();
    };
    const timer = setTimeout(() => {
      isOver = true;
      wake();
    }, seconds * 1000);
    // A process that ends has no reply to give.
    timer.unref();
    this.#enter(id, onNews);
    try {
      for (;;) {
        isNews = false;
        // What is said of it from here on is heard.
        const view = await this.#look(id, call);
        if (isOver || hasCome(view)) return view;
        if (!isNews)
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        if (isOver) return await this.#look(id, call);
      }
    } finally {
      clearTimeout(timer);
      this.#leave(id, onNews);
    }
  }

  async #look(id: string, { caller, address, requestId }: Call): Promise<ContainerView> {
    const look = { caller, address, requestId, params: { id }, query: undefined, body: undefined };
    return containerSchema.parse(await this.#service.call(getContainer, look));
  }

  #enter(id: string, wake: Wake): void {
    const all = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, all.add(wake));
    this.#listening ??= this.#source.onNews((news) => this.#tell(news));
  }

  #leave(id: string, wake: Wake): void {
    const all = this.#waiting.get(id);
    all?.delete(wake);
    if (all?.size === 0) this.#waiting.delete(id);
    if (this.#waiting.size > 0) return;
    void this.#listening?.close();
    this.#listening = undefined;
  }

  #tell(news: ComputeNews): void {
    if (news.kind === 'all') for (const all of this.#waiting.values()) for (const wake of all) wake();
    else if ('containerId' in news) for (const wake of this.#waiting.get(news.containerId) ?? []) wake();
  }
}
