import type { Socket } from 'node:net';
import { z } from 'zod';
import { errorText } from '../../../lib/errors.ts';
import { builtInName } from '../../../proto/built-in-images.ts';
import type { Ending } from '../../../proto/ports/ending.ts';
import { type ContainerSpec, type Engine, EngineError, SSH_SERVERS } from '../../../proto/ports/engine.ts';
import type { LocalRegistry } from '../../../proto/ports/local-registry.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { connectTcp, dialAddress } from '../common/dial-tcp.ts';
import { endSessionsScript } from '../common/ssh-sessions.ts';
import { DEFAULT_SUBNET_POOL, parsePool } from '../common/subnets.ts';
import { READ_ENVIRONMENT } from '../common/workload.ts';
import { created, DockerClient, isReply } from './api/client.ts';
import { hasOneOf } from './container-starter.ts';
import { madeOf } from './container-view.ts';
import { Containers } from './containers.ts';
import { defaultWatchTimes, type WatchTimes, watchEvents } from './events.ts';
import { execShell, runInContainer } from './exec.ts';
import { dockerFiles } from './files.ts';
import { HostFirewall, systemFirewall } from './host/firewall.ts';
import { LostTasks } from './host/lost-tasks.ts';
import { machineScript } from './host/machine-script.ts';
import { type BaseImage, debianBaseImage } from './image/base-image.ts';
import { BuiltIns } from './image/built-ins.ts';
import { type CatalogImage, debianCatalog } from './image/catalog.ts';
import { Images } from './image/images.ts';
import { readLogs } from './logs.ts';
import { type Naming, namingOf } from './naming.ts';
import { ContainerNetworks } from './network.ts';
import { rootScript } from './run.ts';
import { defaultUsageTimes, UsageSampler, type UsageTimes } from './stats/usage.ts';

/** What a Docker engine is made from. */
export interface DockerEngineOptions {
  /** `unix:///path` or `tcp://host:port`. */
  readonly host: string;
  /** Tells this platform's containers from others' on the same Docker: 1 to 32 of `[a-z0-9-]`. */
  readonly installation: string;
  readonly log: Log;
  /** Default: Debian, built on this machine (base-image.ts, catalog.ts). */
  readonly images?: { readonly base: BaseImage; readonly catalog?: readonly CatalogImage[] };
  /** Private addresses for the networks of containers, eight each: `a.b.c.d/n`. Default 10.192.0.0/10. */
  readonly subnetPool?: string;
  /** Networks that containers may reach although they are closed by default (confinement.ts). */
  readonly egressAllow?: readonly string[];
  /** A registry of the engine's machine, which the engine asks at its address. */
  readonly registry?: LocalRegistry | undefined;
  readonly usageTimes?: UsageTimes;
  readonly watchTimes?: WatchTimes;
}

const versionAnswer = z.object({
  Version: z.string(),
  ApiVersion: z.string(),
  Components: z.array(z.object({ Name: z.string() })).nullish(),
});

/**
 * `Engine` on a Docker Engine of this machine (proto/ports/engine.ts). Does not connect yet: `check` says whether it
 * answers. Calls reject with EngineError. Throws `refused` for a host or an installation name that cannot be.
 */
export async function dockerEngine(options: DockerEngineOptions): Promise<Engine> {
  const { log } = options;
  const client = new DockerClient(options.host);
  const naming = namingOf(options.installation);
  const { base, catalog = [] } = options.images ?? { base: await debianBaseImage(), catalog: await debianCatalog() };
  const firewall = firewallOf(client, naming, base, options);
  const containers = containersOn(client, naming, base, options, firewall);
  const builtIns = new BuiltIns(client, base, catalog);
  const images = new Images(client, builtIns, log, options.registry);
  const usage = new UsageSampler(client, containers, naming, log, options.usageTimes ?? defaultUsageTimes);
  const named = async (spec: ContainerSpec) => ({ ...spec, image: images.nameOf(await builtIns.current(spec.image)) });
  const watches = new Set<Ending>();
  let swept = false;
  let looking: Promise<void> | undefined;
  let closed = false;
  /**
   * At the start, and whenever sight of Docker was lost: what Docker lost track of, what holds containers back, and
   * once what an earlier life left behind.
   */
  const lookAfter = async (): Promise<void> => {
    try {
      await containers.clearLost();
      await containers.guard();
      if (!swept) await containers.sweep();
      swept = true;
    } catch (error) {
      if (!closed) log.warn({ reason: errorText(error) }, 'cannot look after what is in the container engine');
    } finally {
      looking = undefined;
    }
  };

  return {
    kind: 'docker',
    keepsFiles: true,
    resizesRunning: true,
    shrinksStorage: true,
    reservedAliases: [],
    hasSuccessors: true,
    sharesMountPaths: true,
    // A connection that is not answered while its target comes back to the network is tried again after 1 s and 3 s.
    aliasLastsMs: 5000,
    fileAccess: dockerFiles(client, containers, (...asked) => runInContainer(client, containers, ...asked)),
    baseImage: base.reference,
    builtIns: catalog.map(({ name, title, reference }) => ({ name, title, reference })),
    isBuilt: (reference) => images.isBuilt(reference),
    check: async () => {
      const answer = await client.json('GET', '/version', versionAnswer);
      const podman = answer.Components?.some((part) => part.Name.startsWith('Podman')) === true;
      return `${podman ? 'Podman' : 'Docker Engine'} ${answer.Version} (API ${answer.ApiVersion})`;
    },
    ensureImage: (image, imageOptions) => images.ensure(image, imageOptions),
    create: async (spec, fence) => {
      const here = await named(spec);
      // What has an older recipe keeps it, as what names no image does.
      const isOurs = builtInName(spec.image) !== undefined;
      await containers.create(isOurs ? { ...here, followImage: false } : here, fence);
    },
    start: async (id, authorizedKeys, workload) => {
      await containers.start(id, authorizedKeys, workload);
      // So that there is a sample by the time somebody asks.
      usage.usage(id);
    },
    join: (id, network) => containers.join(id, network),
    beginSuccessor: async (spec, ...started) => containers.beginSuccessor(await named(spec), ...started),
    runOnce: async (spec, ...told) => containers.runOnce(await named(spec), ...told),
    promote: async (id, network) => {
      await containers.promote(id, network);
      usage.forget(id);
    },
    endOthers: (id, graceSeconds) => containers.endOthers(id, graceSeconds),
    renewKeys: async (id, authorizedKeys, workload) => {
      const { Id } = await containers.mustRun(id);
      await containers.start(id, authorizedKeys, workload);
      await endSessions(client, Id);
    },
    stop: (id, graceSeconds) => containers.stop(id, graceSeconds),
    remove: async (id, { keepData = false } = {}) => {
      await containers.remove(id, keepData);
      usage.forget(id);
    },
    inspect: (id) => containers.inspect(id),
    list: (ids) => containers.list(ids),
    watch: (onChange) => {
      const told = (id: string | undefined): void => {
        if (id === undefined) looking ??= lookAfter();
        onChange(id);
      };
      const events = watchEvents(client, naming, log, told, options.watchTimes ?? defaultWatchTimes);
      const ending: Ending = {
        close: () => {
          watches.delete(ending);
          return events.close();
        },
      };
      watches.add(ending);
      return ending;
    },
    logs: (id, logOptions) => readLogs(client, containers, id, logOptions),
    dial: (id, port, dialOptions) => dialContainer(containers, id, port, dialOptions),
    exec: (id, execOptions, signal) => execShell(client, containers, id, execOptions, signal),
    run: (id, command, signal) => runInContainer(client, containers, id, command, signal, READ_ENVIRONMENT),
    hasSshServer: async (id) => hasOneOf(client, (await containers.mustRun(id)).Id, SSH_SERVERS),
    imageDigest: async (id) => {
      const { imageId, image } = madeOf(await containers.mustFind(id));
      return images.digestOf(imageId, image);
    },
    forgetImages: (given) => images.forget(given),
    usage: (id) => usage.usage(id),
    close: async () => {
      closed = true;
      firewall.close();
      await Promise.all([...[...watches].map((watch) => watch.close()), usage.close(), images.close()]);
      client.close();
      await looking;
    },
  };
}

/** The containers, with all that keeps them from the machine and ends what dockerd lost track of. */
function containersOn(
  client: DockerClient,
  naming: Naming,
  base: BaseImage,
  { subnetPool = DEFAULT_SUBNET_POOL }: DockerEngineOptions,
  firewall: HostFirewall,
): Containers {
  return new Containers({
    client,
    naming,
    networks: new ContainerNetworks(client, naming, parsePool(subnetPool)),
    firewall,
    lost: new LostTasks(naming, {
      direct: rootScript(),
      helper: machineScript(client, naming, base.reference, { seesProcesses: true }),
    }),
    baseImage: base.reference,
  });
}

/** What keeps the containers from the machine. */
function firewallOf(
  client: DockerClient,
  naming: Naming,
  base: BaseImage,
  { log, egressAllow }: DockerEngineOptions,
): HostFirewall {
  return new HostFirewall(
    log,
    { direct: systemFirewall(), helper: machineScript(client, naming, base.reference) },
    egressAllow,
  );
}

/** `Engine.dial` on Docker. */
async function dialContainer(
  containers: Containers,
  id: string,
  port: number,
  { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
): Promise<Socket> {
  const begun = performance.now();
  const address = dialAddress(id, port, await containers.stateOf(id));
  try {
    return await connectTcp(address, port, Math.max(1, timeoutMs - (performance.now() - begun)), signal);
  } catch (error) {
    // A container that stopped in between answers with silence or with "no route".
    const now = error instanceof EngineError && error.code === 'unavailable' ? await containers.find(id) : undefined;
    if (now !== undefined && !now.State.Running) {
      throw new EngineError('not_running', 'The container stopped.', { cause: error });
    }
    throw error;
  }
}

/**
 * Ends the SSH sessions in a running container that no authorized key of it opened. Nothing to do where there is no
 * shell. Rejects with EngineError.
 */
async function endSessions(client: DockerClient, dockerId: string): Promise<void> {
  try {
    const { Id } = await client.json('POST', `/containers/${dockerId}/exec`, created, {
      body: { Cmd: ['/bin/sh', '-c', endSessionsScript], User: '0', AttachStdout: true },
    });
    // Answered when the script is over.
    await client.call('POST', `/exec/${Id}/start`, { body: { Detach: false, Tty: false }, timeoutMs: 10_000 });
  } catch (error) {
    // 409: it ended meanwhile, and its sessions with it. The rest: the image has no shell, hence no SSH server that
    // starts one.
    if (isReply(error, 404, 409)) return;
    if (isReply(error, 400, 500) && /no such file or directory|executable file not found/i.test(error.reason)) return;
    throw error;
  }
}
