import { setTimeout as delay } from 'node:timers/promises';
import { tar } from '../../../lib/tar.ts';
import {
  type ContainerSpec,
  EngineError,
  type OnceOutcome,
  type PrivateNetwork,
  type RunOnceOptions,
  type Workload,
} from '../../../proto/ports/engine.ts';
import { type DockerClient, isReply, unlessReply } from './api/client.ts';
import { onceConfig } from './container-config.ts';
import { type ContainerStarter, hasPath } from './container-starter.ts';
import { containerView, type DockerContainerView, mountPathsOf } from './container-view.ts';
import { missingImage } from './image/missing-image.ts';
import { firstCommand } from './image-commands.ts';
import { linesOf } from './logs.ts';
import type { Naming } from './naming.ts';
import type { PrivateNetworks } from './private-networks.ts';
import { removeContainer } from './removal.ts';
import { unwrapped, workloadFiles } from './workload.ts';

/** How often Docker is asked whether a command has ended. */
const LOOK_EVERY_MS = 250;
const LAST_LINES = 20;

/** What `Once` works with. */
interface OnceParts {
  readonly client: DockerClient;
  readonly naming: Naming;
  readonly starter: ContainerStarter;
  readonly privates: Pick<PrivateNetworks, 'joinedBy' | 'removeEmpty'>;
  /** Puts a container into a private network, or into none. */
  join(view: DockerContainerView, network: PrivateNetwork | undefined): Promise<void>;
}

/**
 * Commands that run once, each in a container of its own beside that of the same id, in the same network. Its settings
 * are written into its own files, which go with it: the volume of keys is that of the container which runs on.
 */
export class Once {
  readonly #parts: OnceParts;
  /** Of these, what is there is no leftover. Whether it was ended before its time. */
  readonly #running = new Map<string, { isEnded: boolean }>();

  constructor(parts: OnceParts) {
    this.#parts = parts;
  }

  /** As `Engine.runOnce`, where what it may reach is so already. */
  async run(
    spec: ContainerSpec,
    cpus: number,
    workload: Workload,
    network: PrivateNetwork | undefined,
    options: RunOnceOptions,
  ): Promise<OnceOutcome> {
    const { id } = spec;
    await this.end(id);
    options.signal.throwIfAborted();
    const running = { isEnded: false };
    this.#running.set(id, running);
    try {
      const made = await this.#make(spec, cpus);
      await this.#parts.join(made, network && { ...network, alias: null });
      await this.#tell(made, workload);
      await this.#start(id, made);
      const outcome = await this.#ended(made.Id, options);
      if (running.isEnded) throw isGone();
      return outcome;
    } catch (error) {
      // Whatever it came upon then, also when another platform ended it.
      const isOver = (running.isEnded && error instanceof EngineError) || isReply(error, 404, 409);
      throw isOver ? isGone(error) : error;
    } finally {
      this.#running.delete(id);
      // What cannot be removed now is a leftover.
      await this.end(id).catch(() => undefined);
    }
  }

  /** Whether one was left that nobody waits for. */
  async isLeft(id: string): Promise<boolean> {
    return !this.#running.has(id) && (await this.#find(id)) !== undefined;
  }

  /** Ends what was left; without `which`, what is waited for, too. */
  async end(id: string, which: 'left' | 'running' = 'running'): Promise<void> {
    if (which === 'left' && this.#running.has(id)) return;
    const { client, privates } = this.#parts;
    const running = this.#running.get(id);
    if (running !== undefined) running.isEnded = true;
    const found = await this.#find(id);
    if (found === undefined) return;
    await removeContainer(client, found.Id);
    for (const name of privates.joinedBy(found)) await privates.removeEmpty(name);
  }

  async #find(id: string): Promise<DockerContainerView | undefined> {
    const { client, naming } = this.#parts;
    const path = `/containers/${naming.once(id)}/json`;
    const view = await unlessReply(client.json('GET', path, containerView), 404);
    // The name alone is anybody's.
    return naming.idOf(view?.Config.Labels) === id ? view : undefined;
  }

  async #make(spec: ContainerSpec, cpus: number): Promise<DockerContainerView> {
    const { client, naming } = this.#parts;
    const command = await firstCommand(client, { image: spec.image, isConfigured: true });
    // Where it is not given the files at the mount paths, it has what the image has there.
    const beside = await unlessReply(
      client.json('GET', `/containers/${naming.container(spec.id)}/json`, containerView),
      404,
    );
    const unnamed = beside === undefined ? [] : mountPathsOf(beside);
    try {
      const body = onceConfig(spec, naming, cpus, command, unnamed);
      await client.call('POST', '/containers/create', { query: { name: naming.once(spec.id) }, body });
    } catch (error) {
      if (isReply(error, 404)) throw missingImage(spec.image, error);
      if (isReply(error, 409)) throw new EngineError('unavailable', 'Another command is being run.', { cause: error });
      throw error;
    }
    const made = await this.#find(spec.id);
    if (made === undefined) throw isGone();
    return made;
  }

  /** Writes what it runs, and with which settings. */
  async #tell({ Id, Config }: DockerContainerView, workload: Workload): Promise<void> {
    const { client } = this.#parts;
    if (!(await hasPath(client, Id, '/bin/sh')))
      throw new EngineError('refused', 'The image has no /bin/sh, which a command that is run once needs.');
    // So that it is run alone, and not beside the SSH server of an image that has one.
    const entrypoint = workload.entrypoint ?? unwrapped(Config).Entrypoint ?? [];
    const files = workloadFiles(Config, Config.User, { ...workload, entrypoint });
    const folders = ['etc', 'etc/troupe'].map((path) => ({ kind: 'directory', path, mode: 0o755 }) as const);
    const archive = tar([...folders, ...files], Math.floor(Date.now() / 1000));
    await client.call('PUT', `/containers/${Id}/archive`, { query: { path: '/' }, archive });
  }

  async #start(id: string, { Id }: DockerContainerView): Promise<void> {
    await this.#parts.starter.guarded(id);
    try {
      await this.#parts.client.call('POST', `/containers/${Id}/start`, { timeoutMs: 60_000 });
    } catch (error) {
      if (isReply(error, 400)) throw new EngineError('refused', error.reason, { cause: error });
      // Who had its place in the private network has not left yet.
      if (isReply(error, 403)) throw new EngineError('unavailable', error.reason, { cause: error });
      throw error;
    }
  }

  /** Waits for its end, and reads what it said. */
  async #ended(dockerId: string, { timeoutMs, signal }: RunOnceOptions): Promise<OnceOutcome> {
    const { client } = this.#parts;
    const until = performance.now() + timeoutMs;
    for (;;) {
      const path = `/containers/${dockerId}/json`;
      const view = await unlessReply(client.json('GET', path, containerView, { signal }), 404);
      if (view === undefined) throw isGone();
      const { Running, ExitCode, OOMKilled } = view.State;
      const isLate = performance.now() > until;
      if (Running && !isLate) {
        await delay(LOOK_EVERY_MS, undefined, { signal });
        continue;
      }
      if (Running) await unlessReply(client.call('POST', `/containers/${dockerId}/kill`), 404, 409);
      const lines: string[] = [];
      for await (const batch of linesOf(client, view, { tail: LAST_LINES, follow: false, signal }))
        lines.push(...batch);
      return { exitCode: Running ? null : ExitCode, oomKilled: OOMKilled, lines: lines.slice(-LAST_LINES) };
    }
  }
}

function isGone(cause?: unknown): EngineError {
  return new EngineError('unavailable', 'It was removed meanwhile.', { cause });
}
