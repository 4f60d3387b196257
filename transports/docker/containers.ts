import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { type ContainerSpec, type ContainerState, EngineError } from '../../proto/ports.ts';
import type { DockerClient } from './client.ts';
import { containerConfig, limitsOf } from './container-config.ts';
import { type ContainerView, containerView, stateOf } from './container-view.ts';
import { isReply } from './errors.ts';
import { parseImageReference } from './image-reference.ts';
import { writeAuthorizedKeys } from './keys.ts';
import { checkedMountPaths, type Naming } from './naming.ts';
import { networkEnsurer } from './network.ts';
import { removeVolumes } from './volumes.ts';

const containerList = z.array(
  z.object({ Id: z.string(), Labels: z.record(z.string(), z.string()).nullable().default(null) }),
);
const machineInfo = z.object({ NCPU: z.number().positive() });

/** Most containers asked about at the same time. */
const inspectionsAtOnce = 8;

/** Containers of one installation on one Docker Engine; the calls of `Engine` with the same names (proto/ports.ts). */
export class Containers {
  readonly #client: DockerClient;
  readonly #naming: Naming;
  readonly #baseRepository: string;
  readonly #ensureNetwork: () => Promise<void>;
  readonly #looking = new Map<string, Promise<ContainerView | undefined>>();
  #machineCpus: number | undefined;

  /** `baseImage`: containers made from an earlier build of it are kept when it changes. */
  constructor(client: DockerClient, naming: Naming, baseImage: string) {
    this.#client = client;
    this.#naming = naming;
    this.#baseRepository = parseImageReference(baseImage).repository;
    this.#ensureNetwork = networkEnsurer(client, naming);
  }

  /**
   * Makes the container. One that exists is adopted, with the limits of `spec`; a stopped one with other mount paths or another image
   * is made anew around the same volumes.
   */
  async create(spec: ContainerSpec): Promise<void> {
    const cpus = await this.#cpus();
    const body = containerConfig(spec, this.#naming, cpus);
    await this.#ensureNetwork();
    for (let tries = 1; ; tries += 1) {
      const present = await this.find(spec.id);
      if (present !== undefined) {
        if (present.State.Running) return this.#updateLimits(present, spec, cpus);
        if (this.#sameShape(present, spec)) return this.#updateLimits(present, spec, cpus);
        await this.#removeContainer(present.Id);
      }
      try {
        await this.#client.call('POST', '/containers/create', {
          query: { name: this.#naming.container(spec.id) },
          body,
        });
        return;
      } catch (error) {
        if (isReply(error, 404)) {
          throw new EngineError('image_not_found', `The image ${spec.image} is not on this machine.`, { cause: error });
        }
        if (!isReply(error, 409)) throw error;
        // Another call is making it: Docker holds the name before it shows the container. Unless the name is somebody else's.
        const holder = await this.#view(this.#naming.container(spec.id));
        const foreign = holder !== undefined && this.#naming.idOf(holder.Config.Labels) !== spec.id;
        if (foreign || tries === 100) throw error;
        await delay(100);
      }
    }
  }

  /** Writes the keys, then starts. A paused container goes on, one that runs is left running. */
  async start(id: string, authorizedKeys: readonly string[]): Promise<void> {
    const view = await this.mustFind(id);
    await writeAuthorizedKeys(this.#client, view.Id, authorizedKeys);
    if (view.State.Paused) {
      await this.#client.call('POST', `/containers/${view.Id}/unpause`);
      return;
    }
    await this.#ensureNetwork();
    try {
      await this.#client.call('POST', `/containers/${view.Id}/start`, { timeoutMs: 60_000 });
    } catch (error) {
      if (isReply(error, 404) && /network/i.test(error.reason)) return this.#rejoinNetwork(view.Id);
      // dockerd was killed while it started this: containerd runs what dockerd knows nothing of, and no start ever works again.
      if (isReply(error, 409, 500) && /task \S+ already exists/i.test(error.reason)) {
        await this.#removeContainer(view.Id);
        throw new EngineError('unavailable', 'The container engine lost track of the container: it is made anew.', {
          cause: error,
        });
      }
      // Somebody removes it at this moment: it is made anew later.
      if (isReply(error, 409)) throw new EngineError('unavailable', error.reason, { cause: error });
      // What the image asks to run cannot be run: no retry helps.
      if (isReply(error, 400, 500) && /executable file not found|exec format error|exec: "/i.test(error.reason)) {
        throw new EngineError('refused', error.reason, { cause: error });
      }
      throw error;
    }
  }

  /** A container that is gone counts as stopped. */
  async stop(id: string, graceSeconds: number): Promise<void> {
    const view = await this.find(id);
    if (view === undefined) return;
    const seconds = Math.max(0, Math.round(graceSeconds));
    await this.#client
      .call('POST', `/containers/${view.Id}/stop`, { query: { t: seconds }, timeoutMs: (seconds + 30) * 1000 })
      .catch((error: unknown) => {
        if (!isReply(error, 404)) throw error;
      });
  }

  async remove(id: string, keepData: boolean): Promise<void> {
    const view = await this.find(id);
    if (view !== undefined) await this.#removeContainer(view.Id);
    if (!keepData) await removeVolumes(this.#client, this.#naming, id);
  }

  async inspect(id: string): Promise<ContainerState | undefined> {
    const view = await this.find(id);
    return view === undefined ? undefined : stateOf(id, view, this.#naming.network);
  }

  async list(): Promise<ContainerState[]> {
    const found = await this.#client.json('GET', '/containers/json', containerList, {
      query: { all: true, filters: this.#naming.filters() },
    });
    const ids = found.map((one) => this.#naming.idOf(one.Labels)).filter((id) => id !== undefined);
    const states: ContainerState[] = [];
    const walk = async (): Promise<void> => {
      for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
        const state = await this.inspect(id);
        if (state !== undefined) states.push(state);
      }
    };
    await Promise.all(Array.from({ length: inspectionsAtOnce }, walk));
    return states;
  }

  /** As `find`, but rejects `not_found` when there is none. */
  async mustFind(id: string): Promise<ContainerView> {
    const view = await this.find(id);
    if (view === undefined) throw new EngineError('not_found', `There is no container ${id}.`);
    return view;
  }

  /** Docker's description, found by name or, when it was renamed, by label. Questions at the same time share one answer. */
  find(id: string): Promise<ContainerView | undefined> {
    const running = this.#looking.get(id);
    if (running !== undefined) return running;
    const looking = this.#look(id).finally(() => this.#looking.delete(id));
    this.#looking.set(id, looking);
    return looking;
  }

  async #look(id: string): Promise<ContainerView | undefined> {
    const named = await this.#view(this.#naming.container(id));
    if (named !== undefined && this.#naming.idOf(named.Config.Labels) === id) return named;
    const found = await this.#client.json('GET', '/containers/json', containerList, {
      query: { all: true, filters: this.#naming.filters(id) },
    });
    const first = found[0];
    return first === undefined ? undefined : this.#view(first.Id);
  }

  async #view(nameOrId: string): Promise<ContainerView | undefined> {
    try {
      return await this.#client.json('GET', `/containers/${nameOrId}/json`, containerView);
    } catch (error) {
      if (isReply(error, 404)) return undefined;
      throw error;
    }
  }

  #sameShape(view: ContainerView, spec: ContainerSpec): boolean {
    const wanted = checkedMountPaths(spec.mountPaths).map((path) => this.#naming.volume(spec.id, path));
    const prefix = `${this.#naming.container(spec.id)}-`;
    const mounted = view.Mounts.map((mount) => mount.Name ?? '').filter((name) => name.startsWith(prefix));
    const image = parseImageReference(spec.image);
    // What people installed into a container lives in its own layer: a newer base image is no reason to lose it.
    const sameImage =
      view.Config.Image === image.full ||
      (image.repository === this.#baseRepository && view.Config.Image.startsWith(`${this.#baseRepository}:`));
    return sameImage && wanted.length === mounted.length && wanted.every((name) => mounted.includes(name));
  }

  async #updateLimits(view: ContainerView, spec: ContainerSpec, cpus: number): Promise<void> {
    const limits = limitsOf(spec, cpus);
    const { NanoCpus, Memory } = view.HostConfig;
    if (NanoCpus === limits.NanoCpus && Memory === limits.Memory) return;
    await this.#client.call('POST', `/containers/${view.Id}/update`, { body: limits });
  }

  async #removeContainer(dockerId: string): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        // v: volumes without a name, which the image asked for and nobody kept.
        await this.#client.call('DELETE', `/containers/${dockerId}`, {
          query: { force: true, v: true },
          timeoutMs: 60_000,
        });
        return;
      } catch (error) {
        if (isReply(error, 404)) return;
        const busy = isReply(error, 409, 500) && /already in progress|busy|could not kill/i.test(error.reason);
        if (!busy || tries === 60) throw error;
        await delay(250);
      }
    }
  }

  /** Our network was removed and made anew behind the container's back: it still points to the old one. */
  async #rejoinNetwork(dockerId: string): Promise<void> {
    const network = `/networks/${this.#naming.network}`;
    await this.#client
      .call('POST', `${network}/disconnect`, { body: { Container: dockerId, Force: true } })
      .catch((error: unknown) => {
        if (!isReply(error, 403, 404, 500)) throw error;
      });
    await this.#client.call('POST', `${network}/connect`, { body: { Container: dockerId } });
    await this.#client.call('POST', `/containers/${dockerId}/start`, { timeoutMs: 60_000 });
  }

  async #cpus(): Promise<number> {
    this.#machineCpus ??= (await this.#client.json('GET', '/info', machineInfo)).NCPU;
    return this.#machineCpus;
  }
}
