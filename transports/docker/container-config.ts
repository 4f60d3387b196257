import type { ContainerSpec } from '../../proto/ports.ts';
import { parseImageReference } from './image-reference.ts';
import { checkedMountPaths, labels, type Naming } from './naming.ts';

/** The limits of a container in Docker's units. */
export interface DockerLimits {
  readonly NanoCpus: number;
  readonly Memory: number;
  readonly MemorySwap: number;
  readonly PidsLimit: number;
}

/**
 * What sshd (SYS_CHROOT, SETUID, SETGID, KILL, AUDIT_WRITE, CHOWN for terminals) and a package manager (CHOWN, DAC_OVERRIDE, FOWNER,
 * FSETID, SETFCAP for packages with file capabilities) need, and ports below 1024. Everything else is dropped.
 */
export const keptCapabilities: readonly string[] = [
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETUID',
  'SYS_CHROOT',
];

/** Processes and threads a container may have. */
const maxProcesses = 2048;

/** The limits of `spec` on a machine with `machineCpus` processors; Docker refuses a share of more than there are. */
export function limitsOf(spec: ContainerSpec, machineCpus: number): DockerLimits {
  const memory = spec.memoryMb * 1024 * 1024;
  return {
    NanoCpus: Math.round(Math.max(0.01, Math.min(spec.cpus, machineCpus)) * 1e9),
    Memory: memory,
    // Memory and swap together: the same figure means no swap.
    MemorySwap: memory,
    PidsLimit: maxProcesses,
  };
}

/**
 * The body of `POST /containers/create` for `spec`. Never restarted by Docker: the platform decides. Throws EngineError `refused` or
 * `image_not_found` for mount paths and images that cannot be.
 */
export function containerConfig(spec: ContainerSpec, naming: Naming, machineCpus: number): object {
  const own = { [labels.installation]: naming.installation, [labels.container]: spec.id, [labels.user]: spec.userId };
  return {
    Image: parseImageReference(spec.image).full,
    Hostname: spec.hostname,
    Labels: own,
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
      NetworkMode: naming.network,
      LogConfig: { Type: 'json-file', Config: { 'max-size': '10m', 'max-file': '3' } },
      Mounts: checkedMountPaths(spec.mountPaths).map((path) => ({
        Type: 'volume',
        Source: naming.volume(spec.id, path),
        Target: path,
        // NoCopy false: Docker fills a new volume with what the image has at the path.
        VolumeOptions: { NoCopy: false, Labels: { ...own, [labels.path]: path } },
      })),
    },
  };
}
