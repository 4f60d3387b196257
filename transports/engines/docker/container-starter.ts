import { setTimeout as delay } from 'node:timers/promises';
import { EngineError, type Workload } from '../../../proto/ports/engine.ts';
import { type DockerClient, isReply, unlessReply } from './api/client.ts';
import type { DockerContainerView } from './container-view.ts';
import type { HostFirewall } from './host/firewall.ts';
import type { LostTasks } from './host/lost-tasks.ts';
import { writeAuthorizedKeys } from './keys.ts';
import { labels, type Naming } from './naming.ts';
import type { ContainerNetworks } from './network.ts';
import { removeContainer } from './removal.ts';
import { isWrapped, needsShell, noEnvironment, workloadFiles } from './workload.ts';

/** What a `ContainerStarter` works with. */
export interface StarterParts {
  readonly client: DockerClient;
  readonly naming: Naming;
  readonly networks: ContainerNetworks;
  /** Without it nothing keeps containers from the machine: for those that start none. */
  readonly firewall?: HostFirewall;
  /** Without it nothing ends what dockerd lost track of: for those that start none. */
  readonly lost?: LostTasks;
}

/** Starts containers that are there, and helps those that do not start by themselves. */
export class ContainerStarter {
  readonly #parts: StarterParts;

  constructor(parts: StarterParts) {
    this.#parts = parts;
  }

  /** Writes keys and settings, then starts. A paused container goes on, one that runs is left running. */
  async start(
    id: string,
    view: DockerContainerView,
    authorizedKeys: readonly string[],
    workload: Workload | undefined,
  ): Promise<void> {
    const isTold = workload !== undefined && isWrapped(view.Config);
    if (isTold && !(await hasPath(this.#parts.client, view.Id, '/bin/sh'))) throw needsShell();
    // Beside one that runs without settings another may have left its own.
    const isBare = workload !== undefined && !isTold && view.State.Running;
    const files = isTold ? workloadFiles(view.Config, view.Config.User, workload) : isBare ? [noEnvironment()] : [];
    await writeAuthorizedKeys(this.#parts.client, this.#parts.naming, view, authorizedKeys, files);
    if (view.State.Paused) {
      await this.#parts.client.call('POST', `/containers/${view.Id}/unpause`);
      return;
    }
    const network = this.#parts.naming.network(id);
    const joined = Object.keys(view.NetworkSettings.Networks ?? {}).filter(
      (name) => this.#parts.naming.privateNetworkOf(name) === undefined,
    );
    // Made by a version with one network for all, or connected elsewhere behind our back.
    if (joined.length !== 1 || joined[0] !== network) await this.#join(id, view.Id, joined);
    const bridge = await this.guarded(id);
    try {
      await this.#parts.client.call('POST', `/containers/${view.Id}/start`, { timeoutMs: 60_000 });
    } catch (error) {
      if (isReply(error, 404) && /network/i.test(error.reason)) {
        // The network was removed behind the container's back: it still points to the old one.
        await this.#join(id, view.Id, [network]);
        await this.guarded(id);
        await this.#parts.client.call('POST', `/containers/${view.Id}/start`, { timeoutMs: 60_000 });
        return;
      }
      if (!isLost(error)) throw await this.#explainStart(view, error);
      await this.#parts.lost?.endOf(id, bridge);
      await this.#startLost(view, error);
    }
  }

  /** Resolves with the bridge of its own network, once nothing leads out of that which should not. */
  async guarded(id: string): Promise<string> {
    const bridge = await this.#parts.networks.ensure(id);
    await this.#parts.firewall?.guard(this.#parts.naming.network(id), bridge);
    return bridge;
  }

  /** Starts a container whose lost task has just been ended; when that does not help, it is removed to be made anew. */
  async #startLost(view: DockerContainerView, lost: unknown): Promise<void> {
    for (let tries = 1; tries <= 10; tries += 1) {
      await delay(100);
      try {
        await this.#parts.client.call('POST', `/containers/${view.Id}/start`, { timeoutMs: 60_000 });
        return;
      } catch (error) {
        if (!isLost(error)) throw await this.#explainStart(view, error);
      }
    }
    if (holdsFiles(view)) throw await this.#explainStart(view, lost);
    await removeContainer(this.#parts.client, view.Id);
    const message = 'The container engine lost track of the container: it is made anew.';
    throw new EngineError('unavailable', message, { cause: lost });
  }

  /** Why a container did not start, after what helps against it was done. */
  async #explainStart(view: DockerContainerView, error: unknown): Promise<unknown> {
    if (!isReply(error, 400, 409, 500)) return error;
    const { reason } = error;
    // What the image asks to run cannot be run: no retry helps.
    if (/executable file not found|exec format error|exec: "/i.test(reason)) {
      return new EngineError('refused', reason, { cause: error });
    }
    // A link in the image leads from a mount path to where the kernel keeps its own. Docker's sentence names folders of
    // the machine.
    if (/error mounting .* cannot be mounted/i.test(reason)) {
      const message = 'Cannot keep data at a mount path: the image has a link there that leads into /proc.';
      return new EngineError('refused', message, { cause: error });
    }
    // Somebody removes it at this moment: it is made anew later.
    if (error.status === 409) return new EngineError('unavailable', reason, { cause: error });
    // What never ran has nothing to lose when it is made anew, whatever is the matter with it.
    if (error.status === 500 && view.State.Status === 'created' && !holdsFiles(view))
      await removeContainer(this.#parts.client, view.Id);
    return error;
  }

  /** Connects a container that does not run to its own network, and to no other but private ones. */
  async #join(id: string, dockerId: string, joined: readonly string[]): Promise<void> {
    await this.#parts.networks.ensure(id);
    for (const network of joined) {
      const path = `/networks/${encodeURIComponent(network)}/disconnect`;
      const body = { Container: dockerId, Force: true };
      await unlessReply(this.#parts.client.call('POST', path, { body }), 403, 404, 500);
    }
    await this.#parts.client.call('POST', `/networks/${this.#parts.naming.network(id)}/connect`, {
      body: { Container: dockerId },
    });
  }
}

/** dockerd was killed while it started one: containerd runs what dockerd does not know, and no start works again. */
function isLost(error: unknown): boolean {
  return isReply(error, 409, 500) && /task \S+ already exists|id already in use/i.test(error.reason);
}

/** Whether it never ran and alone has files: those of the container it was made from (carry-over.ts). */
function holdsFiles(view: DockerContainerView): boolean {
  return view.State.Status === 'created' && Boolean(view.Config.Labels?.[labels.filledFrom]);
}

/** Whether a container, running or not, has something at one of `paths`. */
export async function hasOneOf(client: DockerClient, dockerId: string, paths: readonly string[]): Promise<boolean> {
  for (const path of paths) if (await hasPath(client, dockerId, path)) return true;
  return false;
}

/** Whether a container, running or not, has something at a path. */
export async function hasPath(client: DockerClient, dockerId: string, path: string): Promise<boolean> {
  const asking = client.call('HEAD', `/containers/${dockerId}/archive`, { query: { path } });
  // 400: something on the way is no folder.
  return (await unlessReply(asking, 400, 404)) !== undefined;
}
