import type { DockerClient } from './api/client.ts';

/**
 * Looks at containers that share an answer: questions about one at a time are one look, unless something was changed in
 * between. Who asks after a change hears of it.
 */
export class SharedLooks<T> {
  readonly #client: Pick<DockerClient, 'changes'>;
  /** Looks under way, with what was changed before they began. */
  readonly #looking = new Map<string, { changes: number; view: Promise<T> }>();

  /** `client`: by which everything is changed. */
  constructor(client: Pick<DockerClient, 'changes'>) {
    this.#client = client;
  }

  /** What `look` finds of `id`, or the one that is under way. */
  share(id: string, look: () => Promise<T>): Promise<T> {
    const { changes } = this.#client;
    const running = this.#looking.get(id);
    if (running?.changes === changes) return running.view;
    const view = look().finally(() => {
      if (this.#looking.get(id)?.view === view) this.#looking.delete(id);
    });
    this.#looking.set(id, { changes, view });
    return view;
  }
}
