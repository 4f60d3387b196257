/** `troupe ps`, `show`, `start`, `stop`, `restart`, `rm`, `image ls`. */
import { type Container, imageName, readableHost, type TroupeClient, TroupeError } from '../../client/index.ts';
import { cacheText } from './cache.ts';
import { ClientFailure } from './failure.ts';
import { containerOf, containersOf } from './names.ts';
import { age, type Output } from './output.ts';
import { outlookOf, pageOf } from './outside.ts';
import type { TagSizes } from './place.ts';
import { mappingsOf, portText } from './ports.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';
import { waitFor } from './wait.ts';

const HEADS = ['NAME', 'STATUS', 'SIZE', 'MEMORY', 'DISK', 'CREATED', 'EXPIRES', 'ADDRESS', 'ID'];
/** Most have none. */
const WIDE = ['EXPIRES', 'ADDRESS'];

export interface OwnListOptions extends ClientCommandOptions {
  readonly wide?: boolean;
}

/** Lists the containers. */
export async function listOwn(options: OwnListOptions): Promise<void> {
  const { client, out } = openSession(options);
  const answer = await client.call('listContainers');
  const rows = answer.containers.map((container) => [
    container.name,
    statusOf(out, container),
    container.instance_type,
    memoryOf(container),
    diskOf(container),
    out.when(container.created_at),
    container.expires_at ?? '',
    container.address_name === undefined ? '' : readableHost(container),
    container.id,
  ]);
  const hidden = options.wide === true ? [] : WIDE;
  out.table(answer, HEADS, rows, 'You have no container: `troupe run NAME` makes one.', hidden);
  if (!out.isTerminal || out.json || options.quiet) return;
  for (const { name, status, status_reason, health_reason: reason = status_reason } of answer.containers)
    if (reason !== undefined && (status !== 'running' || reason !== status_reason)) out.note(`${name}: ${reason}`);
}

/** With its health, unless all is well. */
function statusOf(out: Output, { status, health }: Container): string {
  const isWell = health === undefined || health === null || health === 'healthy' || status !== 'running';
  return isWell ? out.status(status) : `${out.status(status)} (${health})`;
}

const memoryOf = ({ memory_used_mb, memory_mb }: Container) => `${memory_used_mb}/${memory_mb} MB`;
const diskOf = ({ storage_used_gb, storage_gb }: Container) => `${storage_used_gb}/${storage_gb} GB`;

/** Shows one container with its ports, paths and hostnames. */
export async function showOne(name: string | undefined, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { client, out, profile } = session;
  const container = await containerOf(session, name);
  if (out.json) return out.line(JSON.stringify(container));
  const params = { id: container.id };
  const [{ rules }, from, { mount_paths }, mappings] = await Promise.all([
    client.call('listIngress', { params }),
    outlookOf(session, out.place),
    client.call('getMounts', { params }),
    mappingsFor(client, container.id),
  ]);
  out.details(container, [
    ['name', container.name],
    ['id', container.id],
    ['status', out.status(container.status)],
    ['reason', container.status_reason],
    ['health', [container.health, container.health_reason].filter(Boolean).join(': ')],
    ['image', container.image && imageName(container.image)],
    ['size', container.instance_type],
    ['memory', memoryOf(container)],
    ['disk', diskOf(container)],
    ['created', out.isTerminal ? `${age(Date.now() - Date.parse(container.created_at))} ago` : container.created_at],
    ['expires', container.expires_at],
    ['address', container.address_name && readableHost(container)],
    ['hostname', container.hostname],
    ['ports', rules.map(portText).join(', ')],
    ['page', pageOf(rules, readableHost(container), from)],
    ['hostnames', mappings.map(hostnameText).join(', ')],
    ['cache', cacheText(rules, mappings)],
    ['network', networkOf(container)],
    ['may reach', egressText(container)],
    ['kept paths', mount_paths.join(', ') || 'none'],
    ['overlap', container.overlap ? 'another image begins beside it' : undefined],
    ['pull policy', container.pull_policy === 'Always' ? 'always' : 'missing'],
    ['ssh', container.ssh_enabled ? (container.ssh?.command ?? 'on') : 'off'],
    ['platform', profile.url],
  ]);
}

/** The private network, and the name there; undefined: in none. */
function networkOf({ network, alias }: Container): string | undefined {
  return network !== undefined && alias !== undefined ? `${network}, as ${alias}` : network;
}

/** What it may reach, as `--egress` takes it. */
export function egressText({ egress }: { readonly egress?: Container['egress'] | 'any' }): string {
  return egress === undefined ? 'any' : typeof egress === 'string' ? egress : egress.join(',');
}

/** Those of a container. */
async function mappingsFor(client: TroupeClient, id: string) {
  return (await mappingsOf(client)).filter(({ container_id }) => container_id === id);
}

const hostnameText = ({ domain, status }: Awaited<ReturnType<typeof mappingsOf>>[number]) =>
  status === 'verified' ? domain : `${domain} (${status})`;

export interface PowerOptions extends ClientCommandOptions {
  readonly wait?: boolean;
  readonly timeout: number;
  readonly discard?: boolean;
}

/** Starts containers, all at once. */
export function startAll(names: readonly string[], options: PowerOptions): Promise<void> {
  return each(names, options, async (session, container) => {
    await start(session, container, options);
    if (options.wait) await waitFor(session, container, starting(options));
    return options.wait ? `${container.name} is running.` : `${container.name} is starting.`;
  });
}

const starting = ({ timeout }: PowerOptions) =>
  ({ until: 'running', seconds: timeout, goesOn: 'it goes on starting' }) as const;
const stopping = ({ timeout }: PowerOptions) =>
  ({ until: 'stopped', seconds: timeout, goesOn: 'it goes on stopping' }) as const;

function start({ client }: ClientSession, { id }: Container, { discard }: PowerOptions): Promise<unknown> {
  return client.call('startContainer', { params: { id }, query: { discard: discard ? 'true' : 'false' } });
}

/** Stops containers. */
export function stopAll(names: readonly string[], options: PowerOptions): Promise<void> {
  return each(names, options, async (session, container) => {
    await session.client.call('stopContainer', { params: { id: container.id } });
    if (options.wait) await waitFor(session, container, stopping(options));
    return options.wait ? `${container.name} is stopped.` : `${container.name} is stopping.`;
  });
}

/** Stops containers that run, waits until they have, and starts them. */
export function restartAll(names: readonly string[], options: PowerOptions): Promise<void> {
  return each(names, options, async (session, container) => {
    const { id, status } = container;
    if (status !== 'stopped' && status !== 'failed') {
      await session.client.call('stopContainer', { params: { id } });
      await waitFor(session, container, stopping(options));
    }
    await start(session, container, options);
    if (options.wait) await waitFor(session, container, starting(options));
    return options.wait ? `${container.name} is running.` : `${container.name} is starting.`;
  });
}

export interface RemoveContainersOptions extends ClientCommandOptions {
  readonly yes?: boolean;
}

/** Deletes containers with their data. On a terminal the name has to be typed, elsewhere --yes is needed. */
export async function removeAll(names: readonly string[], options: RemoveContainersOptions): Promise<void> {
  const session = openSession(options);
  const containers = await containersOf(session, names);
  if (!options.yes) {
    const all = containers.map(({ name }) => name).join(', ');
    if (!session.out.canAsk) throw new ClientFailure('usage', `This deletes ${all} with all data: add --yes.`);
    for (const { name } of containers) {
      const typed = await session.out.place.ask(`This deletes ${name} with all its data. Type its name to go on: `);
      if (typed !== name) throw new ClientFailure('failed', 'Nothing was deleted.');
    }
  }
  await all(session, containers, async ({ id, name }) => {
    await session.client.call('deleteContainer', { params: { id } });
    return `${name} is deleted.`;
  });
}

type ContainerWork = (session: ClientSession, container: Container) => Promise<string>;

async function each(names: readonly string[], options: ClientCommandOptions, work: ContainerWork): Promise<void> {
  const session = openSession(options);
  await all(session, await containersOf(session, names), (container) => work(session, container));
}

/** Does it to all, says what became of each, and fails with the first failure. */
async function all(
  { out }: { readonly out: Output },
  containers: readonly Container[],
  work: (container: Container) => Promise<string>,
): Promise<void> {
  const done: Container[] = [];
  const failures: unknown[] = [];
  const named = ({ name }: Container, error: unknown) =>
    containers.length > 1 && error instanceof TroupeError
      ? new TroupeError(error.code, `${name}: ${error.message}`, error)
      : error;
  await Promise.all(
    containers.map(async (container) => {
      try {
        const text = await work(container);
        done.push(container);
        if (!out.json) out.note(text);
      } catch (error) {
        failures.push(named(container, error));
      }
    }),
  );
  if (out.json && done.length > 0) out.line(JSON.stringify({ done: done.map(({ id, name }) => ({ id, name })) }));
  const [first, ...others] = failures;
  for (const other of others) out.note(`troupe: ${other instanceof Error ? other.message : String(other)}`);
  if (first !== undefined) throw first;
}

/** Lists the images that a container can be made from. */
export async function listOwnImages(options: OwnListOptions): Promise<void> {
  const { client, out } = openSession(options);
  const images = await client.call('listImages');
  const isWide = options.wide === true || (out.isTerminal && !out.json && options.quiet !== true);
  const sizes = isWide ? await sizesOf(images, options, out) : undefined;
  const rows = images.map(({ name, source, image, alias, built }) => {
    const { bytes, own_bytes: own } = sizes?.get(image) ?? {};
    return [
      name,
      built === false ? `${source} (not built yet)` : source,
      bytes === undefined ? '' : sizeText(bytes),
      own === undefined ? '' : sizeText(own),
      alias ?? image,
    ];
  });
  const answer = images.map((image) => Object.assign({}, image, sizes?.get(image.image)));
  const hidden = sizes === undefined ? ['SIZE', 'ALONE'] : [];
  out.table(answer, ['NAME', 'SOURCE', 'SIZE', 'ALONE', 'IMAGE'], rows, 'There are no images.', hidden);
  if (!out.json && out.isTerminal) await noteUsage(client, out);
}

/** How much the tags of one's own hold; undefined where there are none, and where that is not to be had. */
async function sizesOf(
  images: readonly { readonly image: string; readonly source: string }[],
  options: ClientCommandOptions,
  out: Output,
): Promise<ReadonlyMap<string, TagSizes> | undefined> {
  // By SSH there is no way to the registry.
  const { machine } = out.place;
  if (machine === undefined || images.every(({ source }) => source !== 'registry')) return undefined;
  try {
    const sizes = await machine.tagSizes(images, options);
    return sizes.size === 0 ? undefined : sizes;
  } catch (error) {
    out.note(`How much each image holds cannot be told: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

/** What the images of one's own hold, where the platform tells it. */
async function noteUsage(client: TroupeClient, out: Output): Promise<void> {
  const usage = await client.call('registryUsage').catch((error: unknown) => {
    // There is no registry of the platform's own, or the token does not let see it: the list is whole without.
    if (error instanceof TroupeError) return undefined;
    throw error;
  });
  if (usage === undefined) return;
  const { used_bytes: used, limit_bytes: limit } = usage;
  out.note(`Your images hold ${sizeText(used)}${limit === null ? '' : ` of ${sizeText(limit)}`} in the registry.`);
}

function sizeText(bytes: number): string {
  const [unit, name] = bytes >= 2 ** 30 ? [2 ** 30, 'GiB'] : [2 ** 20, 'MiB'];
  return `${(bytes / unit).toFixed(1)} ${name}`;
}
