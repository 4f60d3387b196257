import { z } from 'zod';
import { BASE_NAME, builtInName } from '../../../proto/built-in-images.ts';
import type { ContainerSpec, ContainerState } from '../../../proto/ports/engine.ts';
import { listOf } from '../common/calls.ts';
import { checkedMountPaths } from '../common/confinement.ts';
import { parseImageReference } from '../common/image-reference.ts';
import { type DockerClient, unlessReply } from './api/client.ts';
import { isFixed } from './image/fixed-tag.ts';
import { type FoundContainer, KEYS_FOLDER, labels, type Naming } from './naming.ts';
import type { ImageCommand } from './workload.ts';

/** What we read of `GET /containers/{id}/json`. */
export const containerView = z.object({
  Id: z.string(),
  /** With a slash in front. */
  Name: z.string().default(''),
  /** The image's id, whatever its tag names by now. */
  Image: z.string().default(''),
  State: z.object({
    Status: z.string(),
    Running: z.boolean(),
    Paused: z.boolean().default(false),
    OOMKilled: z.boolean().default(false),
    ExitCode: z.number(),
    StartedAt: z.string(),
    FinishedAt: z.string().default(''),
  }),
  RestartCount: z.number().default(0),
  Config: z.object({
    Image: z.string().default(''),
    Hostname: z.string().default(''),
    Tty: z.boolean().default(false),
    Labels: z.record(z.string(), z.string()).nullable().default(null),
    /** Paths of the volumes that its image asks for. */
    Volumes: z.record(z.string(), z.unknown()).nullable().default(null),
    Entrypoint: z.array(z.string()).nullable().default(null),
    Cmd: z.array(z.string()).nullable().default(null),
    User: z.string().default(''),
  }),
  HostConfig: z.object({
    NanoCpus: z.number().default(0),
    Memory: z.number().default(0),
    CpuShares: z.number().default(0),
    PidsLimit: z.number().nullable().default(null),
  }),
  Mounts: listOf(
    z.object({
      Type: z.string().default(''),
      Name: z.string().optional(),
      Destination: z.string(),
      RW: z.boolean().default(true),
    }),
  ),
  NetworkSettings: z.object({
    Networks: z
      .record(
        z.string(),
        z
          .object({
            IPAddress: z.string().default(''),
            NetworkID: z.string().default(''),
            Aliases: z.array(z.string()).nullable().default(null),
            IPAMConfig: z
              .object({ IPv4Address: z.string().default('') })
              .nullable()
              .default(null),
          })
          .nullable(),
      )
      .nullable()
      .default(null),
  }),
});

/** A container as Docker describes it. */
export type DockerContainerView = z.infer<typeof containerView>;

/** What we read of each container in `GET /containers/json`, and of `GET /system/df`. */
export const listedContainer = z.object({
  Id: z.string(),
  Names: listOf(z.string()),
  State: z.string().default(''),
  Labels: z.record(z.string(), z.string()).nullable().default(null),
  Mounts: listOf(z.object({ Name: z.string().optional() })),
});

/** What a list says of whose container it is. */
export function foundIn(listed: z.infer<typeof listedContainer>): FoundContainer {
  return { labels: listed.Labels, names: listed.Names, mounts: listed.Mounts };
}

/** What a description says of whose container it is. */
export function foundAs(view: DockerContainerView): FoundContainer {
  return { labels: view.Config.Labels, names: [view.Name], mounts: view.Mounts };
}

/** Docker's description in the platform's words. `network` is ours: the address is the one there. */
export function stateOf(id: string, view: DockerContainerView, network: string): ContainerState {
  const { State } = view;
  const phase = State.Running ? 'running' : State.Status === 'created' ? 'created' : 'exited';
  const started = Date.parse(State.StartedAt);
  const ended = phase === 'exited' ? Date.parse(State.FinishedAt) : Number.NaN;
  const address = view.NetworkSettings.Networks?.[network]?.IPAddress ?? '';
  return {
    id,
    phase,
    address: phase === 'running' && address !== '' ? address : null,
    exitCode: phase === 'exited' ? State.ExitCode : null,
    oomKilled: State.OOMKilled,
    restarts: view.RestartCount,
    // Docker's "never" is the year 1.
    startedAt: Number.isFinite(started) && started > 0 ? started : null,
    ...(Number.isFinite(ended) && ended > 0 ? { endedAt: ended } : {}),
    paused: State.Paused,
    mountPaths: mountPathsOf(view),
    limits: { cpus: view.HostConfig.NanoCpus / 1e9, memoryMb: view.HostConfig.Memory / 2 ** 20 },
  };
}

/** Paths of its volumes that are kept. */
export function mountPathsOf({ Mounts }: DockerContainerView): string[] {
  return Mounts.filter(({ Name = '' }) => Name.startsWith('troupe-'))
    .map(({ Destination }) => Destination)
    .filter((path) => path !== KEYS_FOLDER);
}

const imageView = z.object({ Id: z.string() });
const imageCommandView = z.object({
  Config: containerView.shape.Config.pick({ Entrypoint: true, Cmd: true }).nullish(),
});

/** Whether a container has the volumes of `spec` at its mount paths, and no other ones of ours. */
export function hasMounts(naming: Naming, view: DockerContainerView, spec: ContainerSpec): boolean {
  const wanted = checkedMountPaths(spec.mountPaths).map((path) => naming.volume(spec.id, path));
  const prefix = `${naming.container(spec.id)}-`;
  const mounted = view.Mounts.filter((mount) => mount.Destination !== KEYS_FOLDER)
    .map((mount) => mount.Name ?? '')
    .filter((name) => name.startsWith(prefix));
  return wanted.length === mounted.length && wanted.every((name) => mounted.includes(name));
}

/** The image that a container was made of, by its name then and by its id: one may hold the files of another since. */
export function madeOf({ Config, Image }: Pick<DockerContainerView, 'Config' | 'Image'>) {
  const { Labels, Image: name } = Config;
  return { image: Labels?.[labels.image] || name, imageId: Labels?.[labels.imageId] || Image };
}

/** Whether a container is of the image of `spec`; a built-in image of another build is the same. */
export async function hasImage(
  { client, baseRepository }: { readonly client: DockerClient; readonly baseRepository: string },
  view: DockerContainerView,
  spec: ContainerSpec,
): Promise<boolean> {
  const image = parseImageReference(spec.image);
  const { image: made, imageId } = madeOf(view);
  // What people installed into a container lives in its own layer: a newer built-in image is no reason to lose it.
  const nameOf = (one: string) => (one.startsWith(`${baseRepository}:`) ? BASE_NAME : builtInName(one));
  const name = nameOf(image.full);
  const sameImage = made === image.full || (name !== undefined && name === nameOf(made));
  // One that is named by its digest may be the very same.
  const mayBeSame = sameImage || (name === undefined && (isFixed(image.full) || isFixed(made)));
  if (!mayBeSame || (sameImage && spec.followImage !== true)) return sameImage;
  return imageId === (await imageIdOf(client, image.full, sameImage ? imageId : ''));
}

/** The id of what a reference names now; `otherwise` when it names nothing any more. */
async function imageIdOf(client: DockerClient, reference: string, otherwise: string): Promise<string> {
  return (await unlessReply(client.json('GET', `/images/${reference}/json`, imageView), 404))?.Id ?? otherwise;
}

/** What an image that is here runs; undefined when it is not. */
export async function imageCommand(client: DockerClient, reference: string): Promise<ImageCommand | undefined> {
  const view = await unlessReply(client.json('GET', `/images/${reference}/json`, imageCommandView), 404);
  return view && (view.Config ?? { Entrypoint: null, Cmd: null });
}
