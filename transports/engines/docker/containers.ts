import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import {
  type ContainerSpec,
  type ContainerState,
  EngineError,
  type OnceOutcome,
  ofSuccessor,
  type PrivateNetwork,
  type RunOnceOptions,
  type Workload,
} from '../../../proto/ports/engine.ts';
import { parseImageReference } from '../common/image-reference.ts';
import { type DockerClient, fencedClient, isReply, unlessReply } from './api/client.ts';
import { carryOver, mustHaveData, removeCarried, takeName } from './carry-over.ts';
import { containerConfig, hasLimits, limitsOf } from './container-config.ts';
import { ContainerStarter, type StarterParts } from './container-starter.ts';
import {
  containerView,
  type DockerContainerView,
  foundAs,
  foundIn,
  hasImage,
  hasMounts,
  listedContainer,
  stateOf,
} from './container-view.ts';
import type { HostFirewall } from './host/firewall.ts';
import type { LostTasks } from './host/lost-tasks.ts';
import { missingImage } from './image/missing-image.ts';
import { commandAnew, firstCommand } from './image-commands.ts';
import { removeHelpers } from './keys.ts';
import type { Naming } from './naming.ts';
import type { ContainerNetworks } from './network.ts';
import { Once } from './once.ts';
import { PrivateNetworks } from './private-networks.ts';
import { removeContainer, removeVolumes } from './removal.ts';
import { SharedLooks } from './shared-looks.ts';
import { Successors } from './successors.ts';
import { type ImageCommand, isWrapped } from './workload.ts';

const containerList = z.array(listedContainer);
const machineInfo = z.object({ NCPU: z.number().positive() });

/** Most containers asked about at the same time. */
const INSPECTIONS_AT_ONCE = 8;

/** What `Containers` works with. */
interface DockerContainersOptions extends StarterParts {
  /** Containers made from an earlier build of it are kept when it changes. */
  readonly baseImage: string;
}

/** Containers of one installation on one Docker Engine; calls as those of `Engine` (proto/ports/engine.ts). */
export class Containers {
  readonly #client: DockerClient;
  readonly #naming: Naming;
  readonly #baseRepository: string;
  readonly #networks: ContainerNetworks;
  readonly #privates: PrivateNetworks;
  readonly #firewall: HostFirewall | undefined;
  readonly #lost: LostTasks | undefined;
  readonly #starter: ContainerStarter;
  readonly #successors: Successors;
  readonly #once: Once;
  readonly #looks: SharedLooks<DockerContainerView | undefined>;
  readonly #creating = new Set<string>();
  readonly #starting = new Set<string>();
  readonly #carrying = new Map<string, Promise<void>>();
  #clearing: Promise<void> | undefined;
  /** Since then it is known whether containers have rules of an earlier life of the platform. */
  #firstLook: Promise<void> | undefined;
  #machineCpus: number | undefined;

  constructor(options: DockerContainersOptions) {
    this.#client = options.client;
    this.#looks = new SharedLooks(options.client);
    this.#naming = options.naming;
    this.#networks = options.networks;
    this.#privates = new PrivateNetworks(options.client, options.naming, options.networks);
    this.#firewall = options.firewall;
    this.#lost = options.lost;
    this.#starter = new ContainerStarter(options);
    const { client, naming } = options;
    const [starter, privates] = [this.#starter, this.#privates];
    const join = this.#join.bind(this);
    this.#successors = new Successors({ client, naming, starter, privates, join });
    this.#once = new Once({ client, naming, starter, privates, join });
    this.#baseRepository = parseImageReference(options.baseImage).repository;
  }

  /**
   * Makes the container. One that exists is adopted, with the limits of `spec`; a stopped one with another image is
   * made anew around the same volumes, one with other mount paths, or its first settings, with all its files. `fence`
   * as in `Engine.create`.
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
    const body = (command?: ImageCommand, bare: readonly string[] = []) =>
      containerConfig(spec, this.#naming, cpus, bare, command);
    body();
    await this.#confine(spec);
    for (let tries = 1; ; tries += 1) {
      const present = await this.find(spec.id);
      if (present !== undefined) {
        await takeName(this.#client, this.#naming, spec.id, present);
        if (present.State.Running) return this.#updateLimits(present, spec, cpus);
        const sameImage = await hasImage({ client: this.#client, baseRepository: this.#baseRepository }, present, spec);
        const sameMounts = hasMounts(this.#naming, present, spec);
        const command = sameImage
          ? await commandAnew(this.#client, present, spec)
          : await firstCommand(this.#client, spec);
        const sameCommand = !sameImage || command === undefined || isWrapped(command) === isWrapped(present.Config);
        if (sameImage && sameMounts && sameCommand) {
          await this.#removeOthers(spec.id, present);
          return this.#updateLimits(present, spec, cpus);
        }
        if (!sameMounts || !sameCommand) {
          const [client, naming] = [fencedClient(this.#client, fence), this.#naming];
          const remove = (dockerId: string) => removeContainer(this.#client, dockerId, fence);
          const carried = (bare: readonly string[]) => body(command, bare);
          const carrying = carryOver({ client, naming, old: present, spec, body: carried, sameImage, remove });
          this.#carrying.set(spec.id, carrying);
          await carrying.finally(() => this.#carrying.delete(spec.id));
          // What was made before somebody was killed may be of an earlier wish.
          continue;
        }
        await removeContainer(this.#client, present.Id, fence);
      } else await mustHaveData(this.#client, this.#naming, spec);
      try {
        await this.#client.call('POST', '/containers/create', {
          query: { name: this.#naming.container(spec.id) },
          body: body(await firstCommand(this.#client, spec)),
        });
        return;
      } catch (error) {
        if (isReply(error, 404)) {
          throw missingImage(spec.image, error);
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

  /** What it may reach is so from now on: nothing of it starts before. */
  async #confine({ id, egress }: ContainerSpec): Promise<void> {
    const bridge = await this.#networks.ensure(id);
    await this.#firewall?.confine(this.#naming.network(id), bridge, egress);
  }

  /** Removes what a platform that was killed began in a container's place, when it is not wanted any more. */
  async #removeOthers(id: string, { Id }: DockerContainerView): Promise<void> {
    const found = await this.#listed(id);
    for (const other of found) {
      if (other.Id !== Id && this.#naming.containerOf(foundIn(other)) === id)
        await removeContainer(this.#client, other.Id);
    }
  }

  /** Writes keys and settings, then starts. A paused container goes on, one that runs is left running. */
  async start(id: string, authorizedKeys: readonly string[], workload?: Workload): Promise<void> {
    // What is being ended at this moment was lost before: what is started now is not.
    await this.#clearing;
    this.#starting.add(id);
    try {
      await this.#starter.start(id, await this.mustFind(id), authorizedKeys, workload);
    } finally {
      this.#starting.delete(id);
    }
  }

  /** Rejects as `Engine.beginSuccessor`. */
  async beginSuccessor(
    spec: ContainerSpec,
    authorizedKeys: readonly string[],
    workload: Workload | undefined,
    network: PrivateNetwork | undefined,
  ): Promise<void> {
    await this.mustRun(spec.id);
    // The two share a network, and so what they may reach.
    await this.#confine(spec);
    const command = await firstCommand(this.#client, spec);
    const body = containerConfig(spec, this.#naming, await this.#cpus(), [], command);
    await this.#successors.begin(spec, body, authorizedKeys, workload, network);
  }

  /** Rejects as `Engine.promote`. */
  promote(id: string, network: PrivateNetwork | undefined): Promise<void> {
    return this.#successors.promote(id, network);
  }

  async endOthers(id: string, graceSeconds: number, once: 'left' | 'running' = 'left'): Promise<void> {
    await this.#once.end(id, once);
    await this.#successors.end(id, graceSeconds);
  }

  /** Rejects as `Engine.runOnce`. */
  async runOnce(
    spec: ContainerSpec,
    ...rest: [workload: Workload, network: PrivateNetwork | undefined, options: RunOnceOptions]
  ): Promise<OnceOutcome> {
    await this.#confine(spec);
    return this.#once.run(spec, await this.#cpus(), ...rest);
  }

  /** Into a private network, or into none. Rejects as `Engine.join`. */
  async join(id: string, network: PrivateNetwork | undefined): Promise<void> {
    await this.#join(await this.mustFind(id), network);
  }

  #join(view: DockerContainerView, network: PrivateNetwork | undefined): Promise<void> {
    return this.#privates.join(view, network, async (bridge) => this.#firewall?.ensure(bridge));
  }

  /** A container that is gone counts as stopped. */
  async stop(id: string, graceSeconds: number): Promise<void> {
    await this.endOthers(id, graceSeconds, 'running');
    const view = await this.find(id);
    if (view === undefined) return;
    const seconds = Math.max(0, Math.round(graceSeconds));
    const options = { query: { t: seconds }, timeoutMs: (seconds + 30) * 1000 };
    await unlessReply(this.#client.call('POST', `/containers/${view.Id}/stop`, options), 404);
  }

  async remove(id: string, keepData: boolean): Promise<void> {
    await this.endOthers(id, 0, 'running');
    // More than one while it is made anew.
    const joined = new Set<string>();
    for (let view = await this.find(id); view !== undefined; view = await this.find(id)) {
      for (const name of this.#privates.joinedBy(view)) joined.add(name);
      await removeContainer(this.#client, view.Id);
    }
    for (const name of joined) await this.#privates.removeEmpty(name);
    await this.#lost?.endHere(id);
    // One that a killed dockerd left holds the volume.
    await removeHelpers(this.#client, this.#naming, { olderThanMs: 0, id });
    await this.#networks.remove(id);
    await this.#firewall?.release(this.#naming.network(id));
    await removeCarried(this.#client, this.#naming, id);
    if (!keepData) await removeVolumes(this.#client, this.#naming, id);
  }

  async inspect(id: string): Promise<ContainerState | undefined> {
    const state = await this.stateOf(id);
    if (state?.phase !== 'running' || ofSuccessor(id) !== undefined) return state;
    return withOthers(state, this.#besides(await this.#listed(id)));
  }

  /** As `inspect`, without a look at what is beside it. */
  async stateOf(id: string): Promise<ContainerState | undefined> {
    const view = await this.find(id);
    if (view === undefined) return undefined;
    this.#firstLook ??= this.guard().catch(() => undefined);
    await this.#firstLook;
    const egress = this.#firewall?.egressOf(this.#naming.network(ofSuccessor(id) ?? id));
    return {
      ...(egress === undefined ? {} : { egress }),
      ...stateOf(id, view, this.#naming.network(ofSuccessor(id) ?? id)),
      network: this.#privates.membershipOf(view) ?? null,
      ...(view.State.Running && !ofSuccessor(id) && (await this.#once.isLeft(id)) ? { hasOthers: true } : {}),
    };
  }

  async list(given?: readonly string[]): Promise<ContainerState[]> {
    if (given?.length === 0) await this.#client.ping();
    // Whoever compares all finds out whether the firewall was loaded anew meanwhile.
    if (this.#firewall?.isDue()) await this.guard().catch(() => undefined);
    const found = given?.length === 0 ? [] : await this.#listed();
    // One that is made anew is there twice.
    const ids = given === undefined ? new Set(found.map((one) => this.#naming.containerOf(foundIn(one)))) : given;
    const left = [...ids].filter((id) => id !== undefined);
    const besides = this.#besides(found);
    const states: ContainerState[] = [];
    const walk = async (): Promise<void> => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) {
        const state = await this.stateOf(id);
        if (state !== undefined) states.push(withOthers(state, besides));
      }
    };
    await Promise.all(Array.from({ length: INSPECTIONS_AT_ONCE }, walk));
    return states;
  }

  /** The containers that have another beside them. A predecessor that still is the container is not beside it. */
  #besides(found: z.output<typeof containerList>): ReadonlySet<string | undefined> {
    const own = new Set(found.map((one) => this.#naming.containerOf(foundIn(one))));
    return new Set(found.map((one) => this.#naming.besideOf(foundIn(one))).filter((id) => own.has(id)));
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
    const found = await this.#listed();
    const bridge = await this.#networks.anyBridge();
    // Those that only look like ours among them: nothing of theirs is to be ended.
    const running = found.filter(({ State }) => !/^(?:created|exited|dead)$/.test(State)).map(({ Id }) => Id);
    // Nothing of ours was ever there, or a bridge would be.
    if (bridge !== undefined) await this.#lost?.endAllBut(running, starting, bridge);
  }

  /** Looks whether containers that run are still kept from the machine: its firewall may have been loaded anew. */
  async guard(): Promise<void> {
    const bridge = await this.#networks.anyBridge();
    if (bridge !== undefined) await this.#firewall?.ensure(bridge);
  }

  /** Removes what a platform left that died between two calls: networks without a container, and helpers. */
  async sweep(olderThanMs?: number): Promise<void> {
    const exists = async (id: string): Promise<boolean> =>
      this.#creating.has(id) || (await this.find(id)) !== undefined;
    await this.#networks.sweep(exists, olderThanMs);
    await this.#privates.sweep(olderThanMs);
    await removeHelpers(this.#client, this.#naming, { olderThanMs });
  }

  /** As `find`, but rejects `not_found` when there is none. */
  async mustFind(id: string): Promise<DockerContainerView> {
    const view = await this.find(id);
    if (view === undefined) throw new EngineError('not_found', `There is no container ${id}.`);
    return view;
  }

  /** As `mustFind`, but rejects `not_running` when it does not run. */
  async mustRun(id: string): Promise<DockerContainerView> {
    const view = await this.mustFind(id);
    if (!view.State.Running) throw new EngineError('not_running', 'The container is not running.');
    return view;
  }

  /** Docker's description, by name or, once renamed, by its volume of keys. */
  find(id: string): Promise<DockerContainerView | undefined> {
    return this.#looks.share(id, () => this.#look(id));
  }

  async #look(id: string): Promise<DockerContainerView | undefined> {
    const of = ofSuccessor(id);
    if (of !== undefined) return this.#successors.find(of);
    const named = await this.#view(this.#naming.container(id));
    if (named !== undefined && this.#naming.containerOf(foundAs(named)) === id) return named;
    const found = await this.#listed(id);
    const renamed = found.find((one) => this.#naming.containerOf(foundIn(one)) === id);
    return renamed === undefined ? this.#successors.findHalfPromoted(id) : this.#view(renamed.Id);
  }

  #view(nameOrId: string): Promise<DockerContainerView | undefined> {
    return unlessReply(this.#client.json('GET', `/containers/${nameOrId}/json`, containerView), 404);
  }

  /** Those of this installation, or of container `id`. */
  #listed(id?: string): Promise<z.output<typeof containerList>> {
    const query = { all: true, filters: this.#naming.filters(id) };
    return this.#client.json('GET', '/containers/json', containerList, { query });
  }

  async #updateLimits(view: DockerContainerView, spec: ContainerSpec, cpus: number): Promise<void> {
    const limits = limitsOf(spec, cpus);
    if (hasLimits(view.HostConfig, limits)) return;
    await this.#client.call('POST', `/containers/${view.Id}/update`, { body: limits });
  }

  async #cpus(): Promise<number> {
    this.#machineCpus ??= (await this.#client.json('GET', '/info', machineInfo)).NCPU;
    return this.#machineCpus;
  }
}

function withOthers(state: ContainerState, besides: ReadonlySet<string | undefined>): ContainerState {
  return state.phase === 'running' && besides.has(state.id) ? { ...state, hasOthers: true } : state;
}
