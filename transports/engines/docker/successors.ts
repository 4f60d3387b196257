import { STOP_GRACE_SECONDS } from '../../../proto/compute/workload.ts';
import { type ContainerSpec, EngineError, type PrivateNetwork, type Workload } from '../../../proto/ports/engine.ts';
import { type DockerClient, isReply, unlessReply } from './api/client.ts';
import type { ContainerStarter } from './container-starter.ts';
import { containerView, type DockerContainerView } from './container-view.ts';
import { missingImage } from './image/missing-image.ts';
import type { Naming } from './naming.ts';
import type { PrivateNetworks } from './private-networks.ts';
import { removeContainer } from './removal.ts';

/** What `Successors` works with. */
interface SuccessorParts {
  readonly client: DockerClient;
  readonly naming: Naming;
  readonly starter: ContainerStarter;
  readonly privates: Pick<PrivateNetworks, 'membershipOf'>;
  /** Puts a container into a private network, or into none. */
  join(view: DockerContainerView, network: PrivateNetwork | undefined): Promise<void>;
}

/**
 * A second container beside one that runs, in the same network and with the same keys: first its successor, which takes
 * its place, then its predecessor, whose place was taken. Docker renames in one step, so the name says which is which.
 * A platform that is killed between the two names of a promotion leaves a predecessor and no container: then the
 * predecessor still is the container.
 *
 * Docker gives a container its alias only with its way into the network, and answers with all that have it. So a
 * successor comes in without, since it is not ready, and goes out and in again for its alias. Then the predecessor goes
 * out and in again without. Each comes back at its own address a moment later: what it sends and is sent meanwhile is
 * sent again by TCP, so connections last.
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

  /** As `Engine.beginSuccessor`; `body`: what the new one is created with. */
  async begin(
    { id, image, stopGraceSeconds = STOP_GRACE_SECONDS }: Pick<ContainerSpec, 'id' | 'image' | 'stopGraceSeconds'>,
    body: object,
    authorizedKeys: readonly string[],
    workload: Workload | undefined,
    network: PrivateNetwork | undefined,
  ): Promise<void> {
    const { client, naming, starter } = this.#parts;
    await this.end(id, stopGraceSeconds);
    try {
      await client.call('POST', '/containers/create', { query: { name: naming.successor(id) }, body });
    } catch (error) {
      if (isReply(error, 404)) throw missingImage(image, error);
      if (isReply(error, 409)) throw new EngineError('unavailable', 'Another successor is being made.');
      throw error;
    }
    const made = await this.find(id);
    if (made === undefined) throw new EngineError('not_found', `There is no successor of ${id}.`);
    await this.#parts.join(made, network && { ...network, alias: null });
    await starter.start(id, made, authorizedKeys, workload);
  }

  /** As `Engine.promote`. */
  async promote(id: string, network: PrivateNetwork | undefined): Promise<void> {
    const { naming } = this.#parts;
    const successor = await this.find(id);
    if (successor === undefined) throw new EngineError('not_found', `There is no successor of ${id}.`);
    if (network !== undefined && network.alias !== null) await this.#parts.join(successor, network);
    const present = await this.#view(naming.container(id), id);
    if (present !== undefined) await this.#rename(present, naming.predecessor(id));
    await this.#rename(successor, naming.container(id));
    // It is the container now, whatever follows; until the predecessor is ended, the alias leads to one that serves.
    if (present !== undefined) await this.#takeAlias(present).catch(() => undefined);
  }

  /** As `Engine.endOthers`. */
  async end(id: string, graceSeconds: number): Promise<void> {
    const { client, naming } = this.#parts;
    const half = await this.findHalfPromoted(id);
    if (half !== undefined) await this.#rename(half, naming.container(id));
    const [successor, predecessor] = [await this.find(id), await this.#view(naming.predecessor(id), id)];
    if (successor !== undefined) await removeContainer(client, successor.Id);
    if (predecessor === undefined) return;
    // A platform that was killed in a promotion left it, and whoever asks would meet one that ends.
    await this.#takeAlias(predecessor).catch(() => undefined);
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

  /** Takes the alias from one that the alias is not to lead to any more. */
  async #takeAlias(view: DockerContainerView): Promise<void> {
    const { privates, join } = this.#parts;
    const membership = privates.membershipOf(view);
    if (view.State.Running && membership !== undefined && membership.alias !== null)
      await join(view, { ...membership, alias: null });
  }

  async #rename({ Id }: DockerContainerView, name: string): Promise<void> {
    await this.#parts.client.call('POST', `/containers/${Id}/rename`, { query: { name } });
  }
}
