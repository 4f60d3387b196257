import { z } from 'zod';
import { tar } from '../../../lib/tar.ts';
import { type ContainerSpec, dataGone, EngineError } from '../../../proto/ports/engine.ts';
import { listOf } from '../common/calls.ts';
import { checkedMountPaths } from '../common/confinement.ts';
import { type Calls, created, unlessReply } from './api/client.ts';
import { containerView, type DockerContainerView } from './container-view.ts';
import { KEYS_FOLDER, labels, type Naming } from './naming.ts';

/** Copies of files take as long as they are large, in milliseconds. */
const COPY_MS = 30 * 60_000;
const imageView = z.object({ Id: z.string(), Size: z.number().default(0) });
const imageList = z.array(z.object({ Id: z.string(), RepoTags: listOf(z.string()) }));
const volumeView = z.object({ Labels: z.record(z.string(), z.string()).nullable().default(null) });

/** A stopped container that is to be made anew with other mount paths, or to run something else. */
interface CarryOver {
  /** Makes no change once another node may look after the container (`fencedClient`); nor does `remove`. */
  readonly client: Calls;
  readonly naming: Naming;
  readonly old: DockerContainerView;
  readonly spec: ContainerSpec;
  /** What the new one is created with; of the paths given, volumes begin empty. */
  readonly body: (bare: readonly string[]) => object;
  /** Whether it is of the same image: if not, what it has outside its mount paths goes with the old image. */
  readonly sameImage: boolean;
  readonly remove: (dockerId: string) => Promise<void>;
}

/**
 * Makes a container anew with the mount paths and the command of `spec`, and all its files: what lies outside its
 * mounts is committed to an image of its own, what it has at an added path fills the new volume, and what is in the
 * volume of a dropped path is copied beside it.
 *
 * The new one is named `-next` while it is filled, and `-whole` from the moment at which it counts. Until then the old
 * one has all its data, and whoever comes after a platform that was killed begins again from it. Renaming is one step
 * in Docker, so that two platforms at the same time cannot both go on. Rejects with EngineError.
 */
export async function carryOver(work: CarryOver): Promise<void> {
  const { client, naming, old, spec, remove } = work;
  const { next, whole } = namesOf(naming, spec.id);
  const filledFrom = `${old.Id} ${old.State.StartedAt}`;
  const done = await viewOf(client, whole);
  if (done !== undefined && done.Config.Labels?.[labels.filledFrom] === filledFrom) return finish(work, done);
  // The old one was started again since.
  if (done !== undefined) await remove(done.Id);
  await remove(next);
  const own = naming.containerLabels(spec.id, spec.userId);
  const origin = work.sameImage ? await commit(work) : undefined;
  const paths = checkedMountPaths(spec.mountPaths);
  const before = mountsOf(naming, spec.id, old);
  const added = paths.filter((path) => !before.own.includes(path));
  refuseNested(
    before.others,
    before.own.filter((path) => paths.includes(path)),
  );
  const dropped = before.own.filter((path) => !paths.includes(path));
  // What the image has there was hidden by the volume: some of it may have been deleted since. All there is comes from
  // the old one.
  const hidden = [...before.others, ...dropped];
  const bare = work.sameImage
    ? [
        ...added.filter((path) => hidden.some((one) => path === one || path.startsWith(`${one}/`))),
        ...before.others.filter((path) => !paths.includes(path)),
        ...dropped.filter((path) => old.Config.Volumes?.[path] !== undefined),
      ]
    : [];
  const overlaid = await prepareVolumes(work, own, added);
  const { Id } = await client.json('POST', '/containers/create', created, {
    query: { name: next },
    body: {
      ...work.body(bare),
      ...(origin === undefined ? {} : { Image: origin.image }),
      Labels: { ...own, ...origin?.labels, [labels.filledFrom]: filledFrom },
    },
    timeoutMs: COPY_MS,
  });
  if (work.sameImage) {
    const mounted = new Set((await viewOf(client, next))?.Mounts.map(({ Destination }) => Destination));
    for (const path of outermost([...dropped, ...before.others])) {
      const isAlone = dropped.includes(path) && ![...paths, ...before.others].some((one) => one.startsWith(`${path}/`));
      // What the copy of the layer has there is older than the volume: it was hidden by that. A volume that the image
      // asks for is no folder that could be replaced.
      if (isAlone && !mounted.has(path)) await clearFolder(client, Id, path);
      await copyPath(client, old.Id, Id, path);
    }
    for (const path of overlaid) await copyPath(client, old.Id, Id, path);
  } else for (const path of added) await copyPath(client, old.Id, Id, path);
  await client.call('POST', `/containers/${Id}/rename`, { query: { name: whole } });
  const made = await viewOf(client, whole);
  if (made !== undefined) await finish(work, made);
}

/** Removes the old container and what only it needed, and gives its name to the new one. */
async function finish({ client, naming, old, spec, remove }: CarryOver, made: DockerContainerView): Promise<void> {
  // Copying takes long: another platform may have gone on with the old one meanwhile.
  const now = await viewOf(client, old.Id);
  const wasStarted = now !== undefined && (now.State.Running || now.State.StartedAt !== old.State.StartedAt);
  if (wasStarted || (await viewOf(client, made.Id)) === undefined)
    throw new EngineError('unavailable', 'The container was started while it was made anew.');
  await remove(old.Id);
  await takeName(client, naming, spec.id, made);
  // Only where what was in the dropped volumes was copied.
  if (!made.Config.Labels?.[labels.image]) return;
  const mounted = mountsOf(naming, spec.id, made).own;
  for (const path of mountsOf(naming, spec.id, old).own.filter((one) => !mounted.includes(one))) {
    const volume = encodeURIComponent(naming.volume(spec.id, path));
    // Still in use: it goes with the container.
    await unlessReply(client.call('DELETE', `/volumes/${volume}`), 404, 409);
  }
}

/** Gives a container that counts the name it should have, when a platform was killed before it could. */
export async function takeName(client: Calls, naming: Naming, id: string, view: DockerContainerView): Promise<void> {
  const { whole } = namesOf(naming, id);
  if (view.Name !== `/${whole}` && view.Name !== `/${naming.predecessor(id)}`) return;
  const name = naming.container(id);
  const renaming = client.call('POST', `/containers/${view.Id}/rename`, { query: { name } });
  // Somebody else did, or has the name for a moment: it is found by its labels.
  await unlessReply(renaming, 400, 404, 409, 500);
}

const namesOf = (naming: Naming, id: string) => ({
  next: `${naming.container(id)}-next`,
  whole: `${naming.container(id)}-whole`,
});

const viewOf = (client: Calls, name: string): Promise<DockerContainerView | undefined> =>
  unlessReply(client.json('GET', `/containers/${name}/json`, containerView), 404);

/** Where a container's own volumes are mounted, and those that its image asked for. */
function mountsOf(naming: Naming, id: string, view: DockerContainerView): { own: string[]; others: string[] } {
  const prefix = `${naming.container(id)}-`;
  const isOwn = (name: string | undefined): boolean => name?.startsWith(prefix) === true;
  const volumes = view.Mounts.filter(({ Type, Destination }) => Type === 'volume' && Destination !== KEYS_FOLDER);
  return {
    own: volumes.filter(({ Name }) => isOwn(Name)).map(({ Destination }) => Destination),
    others: volumes.filter(({ Name }) => !isOwn(Name)).map(({ Destination }) => Destination),
  };
}

/**
 * Refuses to carry over a volume that the image asked for around a path that stays: both containers have that one, and
 * copying would write it from itself.
 */
function refuseNested(others: readonly string[], kept: readonly string[]): void {
  const around = others.find((path) => kept.some((one) => one.startsWith(`${path}/`)));
  if (around !== undefined)
    throw new EngineError(
      'refused',
      `Cannot change the mount paths: the image keeps a volume at ${around}, around a mount path that stays. Keep ` +
        'the mount paths as they were.',
    );
}

/** The paths that are inside no other. */
function outermost(paths: readonly string[]): string[] {
  return paths.filter((path) => !paths.some((other) => path.startsWith(`${other}/`)));
}

/** Keeps what lies outside the mounts as an image. Resolves with it, and the labels of who is made from it. */
async function commit({ client, naming, old, spec }: CarryOver): Promise<{ image: string; labels: object }> {
  const image = carriedImage(naming, spec.id);
  const view = (of: string) => client.json('GET', `/images/${of}/json`, imageView);
  // What an attempt left that was killed; that of the container itself stays, as its image.
  const left = await unlessReply(view(image), 404);
  if (left !== undefined && left.Id !== old.Image) await unlessReply(client.call('DELETE', `/images/${image}`), 404);
  const [repo, tag] = image.split(':');
  const { Id } = await client.json('POST', '/commit', created, {
    query: { container: old.Id, repo, tag, pause: false },
    body: {},
    timeoutMs: COPY_MS,
  });
  const known = old.Config.Labels ?? {};
  const grown = (await view(Id)).Size - (await view(old.Image)).Size;
  return {
    image,
    labels: {
      [labels.image]: known[labels.image] || old.Config.Image,
      [labels.imageId]: known[labels.imageId] || old.Image,
      [labels.carried]: String(Number(known[labels.carried] || 0) + Math.max(0, grown)),
    },
  };
}

const carriedImage = (naming: Naming, id: string): string => `${naming.container(id)}:carried`;

/**
 * Makes the volumes of added paths, empty: Docker fills them with what the image has there. Resolves with the paths
 * whose volumes hold something already, of a time when what was dropped was kept aside.
 */
async function prepareVolumes(
  { client, naming, old, spec }: CarryOver,
  own: object,
  added: readonly string[],
): Promise<string[]> {
  const overlaid: string[] = [];
  for (const path of added) {
    const Name = naming.volume(spec.id, path);
    const found = await unlessReply(client.json('GET', `/volumes/${Name}`, volumeView), 404);
    // Half filled, by an attempt that was killed.
    const isLeft = found?.Labels?.[labels.filledFrom] === old.Id;
    if (found !== undefined && !isLeft) {
      overlaid.push(path);
      continue;
    }
    if (isLeft) await client.call('DELETE', `/volumes/${Name}`);
    const Labels = { ...own, [labels.path]: path, [labels.filledFrom]: old.Id };
    await client.call('POST', '/volumes/create', { body: { Name, Labels } });
  }
  return overlaid;
}

/** Copies a folder from one container into another, over what is there. What the first does not have is not copied. */
async function copyPath(client: Calls, from: string, to: string, path: string): Promise<void> {
  const reading = client.stream('GET', `/containers/${from}/archive`, { query: { path }, headTimeoutMs: 60_000 });
  const archive = await unlessReply(reading, 404);
  if (archive === undefined) return;
  const parent = path.slice(0, path.lastIndexOf('/'));
  const put = await client.stream('PUT', `/containers/${to}/archive`, {
    query: { path: parent === '' ? '/' : parent },
    body: archive,
    headTimeoutMs: COPY_MS,
  });
  put.resume();
}

/** Empties a folder by putting a file in its place, which the folder that follows replaces. */
async function clearFolder(client: Calls, container: string, path: string): Promise<void> {
  await client.call('PUT', `/containers/${container}/archive`, {
    query: { path: '/' },
    archive: tar([{ kind: 'file', path: path.slice(1), mode: 0o644, data: new Uint8Array() }]),
    timeoutMs: COPY_MS,
  });
}

/** Removes the images that a container's files were carried over in, once the container is gone. */
export async function removeCarried(client: Calls, naming: Naming, id: string): Promise<void> {
  const images = await client.json('GET', '/images/json', imageList, { query: { filters: naming.filters(id) } });
  const own = carriedImage(naming, id);
  for (const { Id, RepoTags } of images) {
    const isOurs = RepoTags.every((tag) => tag === own || tag === '<none>:<none>');
    if (!isOurs) continue;
    const removing = client.call('DELETE', `/images/${Id}`, { query: { force: true }, timeoutMs: 120_000 });
    // 409: another of them is made from it, and takes it along.
    await unlessReply(removing, 404, 409);
  }
}

/** Rejects `data_gone` when a volume that holds data of the container is not there. */
export async function mustHaveData(
  client: Calls,
  naming: Naming,
  { id, mountPaths, dataPaths = [] }: Pick<ContainerSpec, 'id' | 'mountPaths' | 'dataPaths'>,
): Promise<void> {
  const missing: string[] = [];
  for (const path of checkedMountPaths(mountPaths).filter((one) => dataPaths.includes(one))) {
    const asking = client.call('GET', `/volumes/${naming.volume(id, path)}`);
    if ((await unlessReply(asking, 404)) === undefined) missing.push(path);
  }
  if (missing.length > 0) throw dataGone(missing);
}
