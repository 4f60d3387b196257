import { STOP_GRACE_SECONDS } from '../../../proto/compute/workload.ts';
import { type ContainerSpec, EngineError, type Workload } from '../../../proto/ports/engine.ts';
import { type DockerClient, isReply, unlessReply } from './api/client.ts';
import type { ContainerStarter } from './container-starter.ts';
import { containerView, type DockerContainerView } from './container-view.ts';
import type { Naming } from './naming.ts';
import { removeContainer } from './removal.ts';

/** What `Successors` works with. */
interface SuccessorParts {
  readonly client: DockerClient;
  readonly naming: Naming;
  readonly starter: ContainerStarter;
}

/**
 * A second container beside one that runs, in the same network and with the same keys: first its successor, which takes
 * its place, then its predecessor, whose place was taken. Docker renames in one step, so the name says which is which.
 * A platform that is killed between the two names of a promotion leaves a predecessor and no container: then the
 * predecessor still is the container.
 */
export class Successors {
  readonly #parts: SuccessorParts;

  constructor(parts: SuccessorParts) {
    this.#parts = parts;
  }

  /** Docker's description of the successor of a container. */
  find(id: string): Promise<DockerContainerView | undefined> {
    return this.#view(this.#parts.naming.successor(id), id);
  }

  /** Docker's description of a predecessor that still is the container: nothing else has its name. */
  async findHalfPromoted(id: string): Promise<DockerContainerView | undefined> {
    const { naming } = this.#parts;
    if ((await this.#view(naming.container(id), id)) !== undefined) return undefined;
    return this.#view(naming.predecessor(id), id);
  }

  /** As `Engine.beginSuccessor`; `body`: what the new one is created with, `join`: puts it into its private network. */
  async begin(
    { id, stopGraceSeconds = STOP_GRACE_SECONDS }: Pick<ContainerSpec, 'id' | 'stopGraceSeconds'>,
    body: object,
    authorizedKeys: readonly string[],
    workload: Workload | undefined,
    join: (made: DockerContainerView) => Promise<void>,
  ): Promise<void> {
    const { client, naming, starter } = this.#parts;
    await this.end(id, stopGraceSeconds);
    try {
      await client.call('POST', '/containers/create', { query: { name: naming.successor(id) }, body });
    } catch (error) {
      if (isReply(error, 404))
        throw new EngineError('image_not_found', 'The image is not on this machine.', { cause: error });
      if (isReply(error, 409)) throw new EngineError('unavailable', 'Another successor is being made.');
      throw error;
    }
    const made = await this.find(id);
    if (made === undefined) throw new EngineError('not_found', `There is no successor of ${id}.`);
    await join(made);
    await starter.start(id, made, authorizedKeys, workload);
  }

  /** As `Engine.promote`. */
  async promote(id: string): Promise<void> {
    const { naming } = this.#parts;
    const successor = await this.find(id);
    if (successor === undefined) throw new EngineError('not_found', `There is no successor of ${id}.`);
    const present = await this.#view(naming.container(id), id);
    if (present !== undefined) await this.#rename(present, naming.predecessor(id));
    await this.#rename(successor, naming.container(id));
  }

  /** As `Engine.endOthers`. */
  async end(id: string, graceSeconds: number): Promise<void> {
    const { client, naming } = this.#parts;
    const half = await this.findHalfPromoted(id);
    if (half !== undefined) await this.#rename(half, naming.container(id));
    const [successor, predecessor] = [await this.find(id), await this.#view(naming.predecessor(id), id)];
    if (successor !== undefined) await removeContainer(client, successor.Id);
    if (predecessor === undefined) return;
    const seconds = Math.max(0, Math.round(graceSeconds));
    if (predecessor.State.Running && seconds > 0) {
      const options = { query: { t: seconds }, timeoutMs: (seconds + 30) * 1000 };
      await unlessReply(client.call('POST', `/containers/${predecessor.Id}/stop`, options), 404);
    }
    await removeContainer(client, predecessor.Id);
  }

  async #view(name: string, id: string): Promise<DockerContainerView | undefined> {
    const { client, naming } = this.#parts;
    const view = await unlessReply(client.json('GET', `/containers/${name}/json`, containerView), 404);
    // The name alone is anybody's.
    return naming.idOf(view?.Config.Labels) === id ? view : undefined;
  }

  async #rename({ Id }: DockerContainerView, name: string): Promise<void> {
    await this.#parts.client.call('POST', `/containers/${Id}/rename`, { query: { name } });
  }
}
