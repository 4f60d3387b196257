import type { ContainerSpec } from '../../../proto/ports/engine.ts';
import { checkedMountPaths, keptCapabilities } from '../common/confinement.ts';
import { parseImageReference } from '../common/image-reference.ts';
import { KEYS_FOLDER, labels, type Naming, noHealthcheck } from './naming.ts';
import type { ImageCommand } from './workload.ts';

/** The limits of a container in Docker's units. */
interface DockerLimits {
  readonly NanoCpus: number;
  /** Weight while the machine has more to do than processors: 1024 a processor. */
  readonly CpuShares: number;
  readonly Memory: number;
  readonly MemorySwap: number;
  readonly PidsLimit: number;
}

/** Processes and threads a container may have. */
const MAX_PROCESSES = 2048;
/** Files a process may have open, and no core files: they would fill the disk of everybody. */
const fileLimits = [
  { Name: 'nofile', Soft: 16_384, Hard: 16_384 },
  { Name: 'core', Soft: 0, Hard: 0 },
];
/** Short of memory, containers end before the platform does (0 is a process like any other, 1000 goes first). */
const OOM_SCORE = 500;
/** What Docker keeps of a container's output: three files of 10 MB. */
const logLimits = { 'max-size': '10m', 'max-file': '3' };

/** The limits of `spec` on a machine with `machineCpus` processors; Docker refuses a share of more than there are. */
export function limitsOf(spec: ContainerSpec, machineCpus: number): DockerLimits {
  const memory = spec.memoryMb * 1024 * 1024;
  return {
    NanoCpus: Math.round(Math.max(0.01, Math.min(spec.cpus, machineCpus)) * 1e9),
    CpuShares: Math.max(2, Math.min(262_144, Math.round(spec.cpus * 1024))),
    Memory: memory,
    // Memory and swap together: the same figure means no swap.
    MemorySwap: memory,
    PidsLimit: MAX_PROCESSES,
  };
}

/** Whether a container has these limits. */
export function hasLimits(
  present: Readonly<Record<keyof Omit<DockerLimits, 'MemorySwap'>, number | null>>,
  limits: DockerLimits,
): boolean {
  const { NanoCpus, CpuShares, Memory, PidsLimit } = limits;
  return (
    present.NanoCpus === NanoCpus &&
    present.CpuShares === CpuShares &&
    present.Memory === Memory &&
    present.PidsLimit === PidsLimit
  );
}

/**
 * The body of `POST /containers/create` for `spec`. Never restarted by Docker: the platform decides. Throws EngineError
 * `refused` or `image_not_found` for mount paths and images that cannot be. Of `bare`, the volumes at mount paths and
 * those that the image asks for begin empty. `command`: what it runs; without it, what its image says.
 */
export function containerConfig(
  spec: ContainerSpec,
  naming: Naming,
  machineCpus: number,
  bare: readonly string[] = [],
  command?: ImageCommand,
): object {
  return configOf(spec, naming, machineCpus, { bare, command, hasKeys: true });
}

/** As `containerConfig`, for a container in which a command runs once: without the volume of keys. */
export function onceConfig(
  spec: ContainerSpec,
  naming: Naming,
  machineCpus: number,
  command: ImageCommand | undefined,
  unnamed: readonly string[],
): object {
  return configOf(spec, naming, machineCpus, { bare: [], unnamed, command, hasKeys: false });
}

function configOf(
  spec: ContainerSpec,
  naming: Naming,
  machineCpus: number,
  given: {
    readonly bare: readonly string[];
    readonly unnamed?: readonly string[];
    readonly command: ImageCommand | undefined;
    readonly hasKeys: boolean;
  },
): object {
  const { bare, unnamed = [], command, hasKeys } = given;
  const paths = checkedMountPaths(spec.mountPaths);
  const own = { [labels.installation]: naming.installation, [labels.container]: spec.id, [labels.user]: spec.userId };
  const volume = (path: string): object => ({
    Type: 'volume',
    Source: naming.volume(spec.id, path),
    Target: path,
    // NoCopy false: Docker fills a new volume with what the image has at the path.
    VolumeOptions: { NoCopy: bare.includes(path), Labels: { ...own, [labels.path]: path } },
  });
  return {
    Image: parseImageReference(spec.image).full,
    ...(command === undefined ? {} : { Entrypoint: command.Entrypoint ?? [], Cmd: command.Cmd ?? [] }),
    Hostname: spec.hostname,
    Labels: naming.containerLabels(spec.id, spec.userId),
    Healthcheck: noHealthcheck,
    Tty: false,
    OpenStdin: false,
    HostConfig: {
      ...limitsOf(spec, machineCpus),
      CapDrop: ['ALL'],
      CapAdd: keptCapabilities,
      SecurityOpt: ['no-new-privileges'],
      Privileged: false,
      Init: true,
      RestartPolicy: { Name: 'no' },
      // Of all its namespaces none is the machine's or another container's.
      NetworkMode: naming.network(spec.id),
      IpcMode: 'private',
      CgroupnsMode: 'private',
      Ulimits: fileLimits,
      OomScoreAdj: OOM_SCORE,
      LogConfig: { Type: 'json-file', Config: logLimits },
      Mounts: [
        ...paths.map(volume),
        ...bare
          .filter((path) => !paths.includes(path))
          .map((Target) => ({ Type: 'volume', Target, VolumeOptions: { NoCopy: true } })),
        ...unnamed.filter((path) => !paths.includes(path)).map((Target) => ({ Type: 'volume', Target })),
        // Not even the container's root can write there: it would need the right to mount.
        ...(hasKeys ? [{ ...volume(KEYS_FOLDER), ReadOnly: true }] : []),
      ],
    },
  };
}
