import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { type ContainerSpec, type ContainerState, dataGone, EngineError } from '../../../proto/ports/engine.ts';
import { parseImageReference } from '../common/image-reference.ts';
import { checkedMountPaths } from '../common/mount-paths.ts';
import type { DockerClient } from './api/client.ts';
import { isReply } from './api/errors.ts';
import { fencedClient } from './api/fenced-client.ts';
import { carryOver, removeCarried, takeName } from './carry-over.ts';
import { containerConfig, limitsOf } from './container-config.ts';
import { type ContainerView, containerView, foundAs, foundIn, listedContainer, stateOf } from './container-view.ts';
import type { HostFirewall } from './host/firewall.ts';
import type { LostTasks } from './host/lost-tasks.ts';
import { isBuiltIn } from './image/base-image.ts';
import { removeHelpers, writeAuthorizedKeys } from './keys.ts';
import { KEYS_FOLDER, labels, type Naming } from './naming.ts';
import type { ContainerNetworks } from './network.ts';
import { removeVolumes } from './volumes.ts';

const containerList = z.array(listedContainer);
const imageView = z.object({ Id: z.string() });
const machineInfo = z.object({ NCPU: z.number().positive() });

/** Most containers asked about at the same time. */
const INSPECTIONS_AT_ONCE = 8;

/** What `Containers` works with. */
export interface ContainersOptions {
  readonly client: DockerClient;
  readonly naming: Naming;
  readonly networks: ContainerNetworks;
  /** Without it nothing keeps containers from the machine: for those that start none. */
  readonly firewall?: HostFirewall;
  /** Without it nothing ends what dockerd lost track of: for those that start none. */
  readonly lost?: LostTasks;
  /** Containers made from an earlier build of it are kept when it changes. */
  readonly baseImage: string;
}

/**
 * Containers of one installation on one Docker Engine; the calls of `Engine` with the same names
 * (proto/ports/engine.ts).
 */
export class Containers {
  readonly #client: DockerClient;
  readonly #naming: Naming;
  readonly #baseRepository: string;
  readonly #networks: ContainerNetworks;
  readonly #firewall: HostFirewall | undefined;
  readonly #lost: LostTasks | undefined;
  readonly #looking = new Map<string, Promise<ContainerView | undefined>>();
  readonly #creating = new Set<string>();
  readonly #starting = new Set<string>();
  readonly #carrying = new Map<string, Promise<void>>();
  #clearing: Promise<void> | undefined;
  #machineCpus: number | undefined;

  constructor(options: ContainersOptions) {
    this.#client = options.client;
    this.#naming = options.naming;
    this.#networks = options.networks;
    this.#firewall = options.firewall;
    this.#lost = options.lost;
    this.#baseRepository = parseImageReference(options.baseImage).repository;
  }

  /**
   * Makes the container. One that exists is adopted, with the limits of `spec`; a stopped one with another image is
   * made anew around the same volumes, one with other mount paths with all its files. `fence` as in `Engine.create`.
   */
  async create(spec: ContainerSpec, fence: () => void = () => {}): Promise<void> {
    // Work that was given up goes on in Docker: what it makes is looked at when it is done.
    while (this.#carrying.has(spec.id)) await this.#carrying.get(spec.id)?.catch(() => undefined);
    this.#creating.add(spec.id);
    try {
      await this.#create(spec, fence);
    } finally {
      this.#creating.delete(spec.id);
    }
  }

  async #create(spec: ContainerSpec, fence: () => void): Promise<void> {
    const cpus = await this.#cpus();
    const body = (bare: readonly string[] = []) => containerConfig(spec, this.#naming, cpus, bare);
    body();
    await this.#networks.ensure(spec.id);
    for (let tries = 1; ; tries += 1) {
      const present = await this.find(spec.id);
      if (present !== undefined) {
        await takeName(this.#client, this.#naming, spec.id, present);
        if (present.State.Running) return this.#updateLimits(present, spec, cpus);
        const sameImage = await this.#sameImage(present, spec);
        const sameMounts = this.#sameMounts(present, spec);
        if (sameImage && sameMounts) {
          await this.#removeOthers(spec.id, present);
          return this.#updateLimits(present, spec, cpus);
        }
        if (!sameMounts) {
          const [client, naming] = [fencedClient(this.#client, fence), this.#naming];
          const remove = (dockerId: string) => this.#removeContainer(dockerId, fence);
          const carrying = carryOver({ client, naming, old: present, spec, body, sameImage, remove });
          this.#carrying.set(spec.id, carrying);
          await carrying.finally(() => this.#carrying.delete(spec.id));
          // What was made before somebody was killed may be of an earlier wish.
          continue;
        }
        await this.#removeContainer(present.Id, fence);
      } else await this.#mustHaveData(spec);
      try {
        await this.#client.call('POST', '/containers/create', {
          query: { name: this.#naming.container(spec.id) },
          body: body(),
        });
        return;
      } catch (error) {
        if (isReply(error, 404)) {
          throw new EngineError('image_not_found', `The image ${spec.image} is not on this machine.`, { cause: error });
        }
        if (!isReply(error, 409)) throw error;
        // Another call is making it: Docker holds the name before it shows the container. Unless the name is somebody
        // else's.
        const holder = await this.#view(this.#naming.container(spec.id));
        const foreign = holder !== undefined && this.#naming.containerOf(foundAs(holder)) !== spec.id;
        if (foreign || tries === 100) throw error;
        await delay(100);
      }
    }
  }

  /**
   * Removes what was begun to take a container's place, by a platform that was killed, when that is not wanted any
   * more.
   */
  async #removeOthers(id: string, { Id }: ContainerView): Promise<void> {
    const found = await this.#client.json('GET', '/containers/json', containerList, {
      query: { all: true, filters: this.#naming.filters(id) },
    });
    for (const other of found) {
      if (other.Id !== Id && this.#naming.containerOf(foundIn(other)) === id) await this.#removeContainer(other.Id);
    }
  }

  /** Writes the keys, then starts. A paused container goes on, one that runs is left running. */
  async start(id: string, authorizedKeys: readonly string[]): Promise<void> {
    // What is being ended at this moment was lost before: what is started now is not.
    await this.#clearing;
    this.#starting.add(id);
    try {
      await this.#start(id, authorizedKeys);
    } finally {
      this.#starting.delete(id);
    }
  }

  async #start(id: string, authorizedKeys: readonly string[]): Promise<void> {
    const view = await this.mustFind(id);
    await writeAuthorizedKeys(this.#client, this.#naming, view, authorizedKeys);
    if (view.State.Paused) {
      await this.#client.call('POST', `/containers/${view.Id}/unpause`);
      return;
    }
    const network = this.#naming.network(id);
    const joined = Object.keys(view.NetworkSettings.Networks ?? {});
    // Made by a version with one network for all, or connected elsewhere behind our back.
    if (joined.length !== 1 || joined[0] !== network) await this.#join(id, view.Id, joined);
    const bridge = await this.#networks.ensure(id);
    await this.#firewall?.ensure(bridge);
    try {
      await this.#client.call('POST', `/containers/${view.Id}/start`, { timeoutMs: 60_000 });
    } catch (error) {
      if (isReply(error, 404) && /network/i.test(error.reason)) {
        // The network was removed behind the container's back: it still points to the old one.
        await this.#join(id, view.Id, [network]);
        await this.#client.call('POST', `/containers/${view.Id}/start`, { timeoutMs: 60_000 });
        return;
      }
      if (!isLost(error)) throw await this.#explainStart(view, error);
      await this.#lost?.endOf(id, bridge);
      await this.#startLost(view, error);
    }
  }

  /** Starts a container whose lost task has just been ended; when that does not help, it is removed to be made anew. */
  async #startLost(view: ContainerView, lost: unknown): Promise<void> {
    for (let tries = 1; tries <= 10; tries += 1) {
      await delay(100);
      try {
        await this.#client.call('POST', `/containers/${view.Id}/start`, { timeoutMs: 60_000 });
        return;
      } catch (error) {
        if (!isLost(error)) throw await this.#explainStart(view, error);
      }
    }
    if (holdsFiles(view)) throw await this.#explainStart(view, lost);
    await this.#removeContainer(view.Id);
    const message = 'The container engine lost track of the container: it is made anew.';
    throw new EngineError('unavailable', message, { cause: lost });
  }

  /** Why a container did not start, after what helps against it was done. */
  async #explainStart(view: ContainerView, error: unknown): Promise<unknown> {
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
      await this.#removeContainer(view.Id);
    return error;
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
    // More than one while it is made anew.
    for (let view = await this.find(id); view !== undefined; view = await this.find(id))
      await this.#removeContainer(view.Id);
    await this.#lost?.endHere(id);
    // One that a killed dockerd left holds the volume.
    await removeHelpers(this.#client, this.#naming, { olderThanMs: 0, id });
    await this.#networks.remove(id);
    await removeCarried(this.#client, this.#naming, id);
    if (!keepData) await removeVolumes(this.#client, this.#naming, id);
  }

  async inspect(id: string): Promise<ContainerState | undefined> {
    const view = await this.find(id);
    return view === undefined ? undefined : stateOf(id, view, this.#naming.network(id));
  }

  /** Whether a container that runs has one of `paths`. */
  async hasFile(id: string, paths: readonly string[]): Promise<boolean> {
    const view = await this.mustFind(id);
    if (!view.State.Running) throw new EngineError('not_running', 'The container is not running.');
    for (const path of paths) {
      try {
        await this.#client.call('HEAD', `/containers/${view.Id}/archive`, { query: { path } });
        return true;
      } catch (error) {
        // 400: something on the way is no folder.
        if (!isReply(error, 400, 404)) throw error;
      }
    }
    return false;
  }

  async list(): Promise<ContainerState[]> {
    const found = await this.#client.json('GET', '/containers/json', containerList, {
      query: { all: true, filters: this.#naming.filters() },
    });
    // One that is made anew is there twice.
    const ours = new Set(found.map((one) => this.#naming.containerOf(foundIn(one))));
    const ids = [...ours].filter((id) => id !== undefined);
    const states: ContainerState[] = [];
    const walk = async (): Promise<void> => {
      for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
        const state = await this.inspect(id);
        if (state !== undefined) states.push(state);
      }
    };
    await Promise.all(Array.from({ length: INSPECTIONS_AT_ONCE }, walk));
    return states;
  }

  /** Ends what runs of containers that Docker takes for stopped, or knows nothing of any more. */
  clearLost(): Promise<void> {
    this.#clearing ??= this.#clearLost().finally(() => {
      this.#clearing = undefined;
    });
    return this.#clearing;
  }

  async #clearLost(): Promise<void> {
    // Asked before Docker is: a start that ends meanwhile is in this list or in that.
    const starting = [...this.#starting];
    const found = await this.#client.json('GET', '/containers/json', containerList, {
      query: { all: true, filters: this.#naming.filters() },
    });
    const bridge = await this.#networks.anyBridge();
    // Those that only look like ours among them: nothing of theirs is to be ended.
    const running = found.filter(({ State }) => !/^(?:created|exited|dead)$/.test(State)).map(({ Id }) => Id);
    // Nothing of ours was ever there, or a bridge would be.
    if (bridge !== undefined) await this.#lost?.endAllBut(running, starting, bridge);
  }

  /**
   * Looks whether containers that may run already are still kept from the machine: its firewall may have been loaded
   * anew.
   */
  async guard(): Promise<void> {
    const bridge = await this.#networks.anyBridge();
    if (bridge !== undefined) await this.#firewall?.ensure(bridge);
  }

  /** Removes what a platform left that died between two calls: networks without a container, and helpers. */
  async sweep(olderThanMs?: number): Promise<void> {
    const exists = async (id: string): Promise<boolean> =>
      this.#creating.has(id) || (await this.find(id)) !== undefined;
    await this.#networks.sweep(exists, olderThanMs);
    await removeHelpers(this.#client, this.#naming, { olderThanMs });
  }

  /** As `find`, but rejects `not_found` when there is none. */
  async mustFind(id: string): Promise<ContainerView> {
    const view = await this.find(id);
    if (view === undefined) throw new EngineError('not_found', `There is no container ${id}.`);
    return view;
  }

  /**
   * Docker's description, found by name or, when it was renamed, by its volume of keys. Questions at the same time
   * share one answer.
   */
  find(id: string): Promise<ContainerView | undefined> {
    const running = this.#looking.get(id);
    if (running !== undefined) return running;
    const looking = this.#look(id).finally(() => this.#looking.delete(id));
    this.#looking.set(id, looking);
    return looking;
  }

  async #look(id: string): Promise<ContainerView | undefined> {
    const named = await this.#view(this.#naming.container(id));
    if (named !== undefined && this.#naming.containerOf(foundAs(named)) === id) return named;
    const found = await this.#client.json('GET', '/containers/json', containerList, {
      query: { all: true, filters: this.#naming.filters(id) },
    });
    const renamed = found.find((one) => this.#naming.containerOf(foundIn(one)) === id);
    return renamed === undefined ? undefined : this.#view(renamed.Id);
  }

  async #view(nameOrId: string): Promise<ContainerView | undefined> {
    try {
      return await this.#client.json('GET', `/containers/${nameOrId}/json`, containerView);
    } catch (error) {
      if (isReply(error, 404)) return undefined;
      throw error;
    }
  }

  #sameMounts(view: ContainerView, spec: ContainerSpec): boolean {
    const wanted = checkedMountPaths(spec.mountPaths).map((path) => this.#naming.volume(spec.id, path));
    const prefix = `${this.#naming.container(spec.id)}-`;
    const mounted = view.Mounts.filter((mount) => mount.Destination !== KEYS_FOLDER)
      .map((mount) => mount.Name ?? '')
      .filter((name) => name.startsWith(prefix));
    return wanted.length === mounted.length && wanted.every((name) => mounted.includes(name));
  }

  async #sameImage(view: ContainerView, spec: ContainerSpec): Promise<boolean> {
    const image = parseImageReference(spec.image);
    const made = view.Config.Labels?.[labels.image] || view.Config.Image;
    // What people installed into a container lives in its own layer: a newer base image is no reason to lose it.
    const isBase = made.startsWith(`${this.#baseRepository}:`) || isBuiltIn(made);
    const sameImage = made === image.full || (image.repository === this.#baseRepository && isBase);
    if (!sameImage || spec.followImage !== true) return sameImage;
    const madeId = view.Config.Labels?.[labels.imageId] || view.Image;
    return madeId === (await this.#imageId(image.full, madeId));
  }

  /** Rejects `data_gone` when a volume that holds data of the container is not there. */
  async #mustHaveData({ id, mountPaths, dataPaths = [] }: ContainerSpec): Promise<void> {
    const missing: string[] = [];
    for (const path of checkedMountPaths(mountPaths).filter((one) => dataPaths.includes(one))) {
      await this.#client.call('GET', `/volumes/${this.#naming.volume(id, path)}`).catch((error: unknown) => {
        if (!isReply(error, 404)) throw error;
        missing.push(path);
      });
    }
    if (missing.length > 0) throw dataGone(missing);
  }

  /** The id of what a reference names now; `otherwise` when it names nothing any more. */
  async #imageId(reference: string, otherwise: string): Promise<string> {
    try {
      return (await this.#client.json('GET', `/images/${reference}/json`, imageView)).Id;
    } catch (error) {
      if (isReply(error, 404)) return otherwise;
      throw error;
    }
  }

  async #updateLimits(view: ContainerView, spec: ContainerSpec, cpus: number): Promise<void> {
    const limits = limitsOf(spec, cpus);
    const { NanoCpus, CpuShares, Memory, PidsLimit } = view.HostConfig;
    const same =
      NanoCpus === limits.NanoCpus &&
      CpuShares === limits.CpuShares &&
      Memory === limits.Memory &&
      PidsLimit === limits.PidsLimit;
    if (same) return;
    await this.#client.call('POST', `/containers/${view.Id}/update`, { body: limits });
  }

  async #removeContainer(dockerId: string, fence: () => void = () => {}): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      fence();
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

  /** Connects a container that does not run to its own network, and to no other. */
  async #join(id: string, dockerId: string, joined: readonly string[]): Promise<void> {
    await this.#networks.ensure(id);
    for (const network of joined) {
      await this.#client
        .call('POST', `/networks/${encodeURIComponent(network)}/disconnect`, {
          body: { Container: dockerId, Force: true },
        })
        .catch((error: unknown) => {
          if (!isReply(error, 403, 404, 500)) throw error;
        });
    }
    await this.#client.call('POST', `/networks/${this.#naming.network(id)}/connect`, { body: { Container: dockerId } });
  }

  async #cpus(): Promise<number> {
    this.#machineCpus ??= (await this.#client.json('GET', '/info', machineInfo)).NCPU;
    return this.#machineCpus;
  }
}

/**
 * dockerd was killed while it started the container: containerd runs what dockerd knows nothing of, and no start works
 * again.
 */
function isLost(error: unknown): boolean {
  return isReply(error, 409, 500) && /task \S+ already exists|id already in use/i.test(error.reason);
}

/**
 * Whether it never ran and yet is the only one that has files: those of the container it was made from (carry-over.ts).
 */
function holdsFiles(view: ContainerView): boolean {
  return view.State.Status === 'created' && Boolean(view.Config.Labels?.[labels.filledFrom]);
}
