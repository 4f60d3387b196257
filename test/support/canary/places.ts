/** Where the trial of the canaries looks: all that people other than a container's owner, or their programs, may see. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { actorSchema, runtimeEndpoints } from '../../../proto/auth/actors.ts';
import { platformEndpoints } from '../../../proto/auth/admin.ts';
import { authEndpoints } from '../../../proto/auth/endpoints.ts';
import { platformFactsEndpoints } from '../../../proto/auth/platform.ts';
import { computeEndpoints } from '../../../proto/compute/endpoints.ts';
import type { AnyEndpoint } from '../../../proto/endpoint.ts';
import { monitorEndpoints } from '../../../proto/monitor/endpoints.ts';
import { networkEndpoints } from '../../../proto/network/endpoints.ts';
import { notifyEndpoints } from '../../../proto/notify/endpoints.ts';
import { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { inDocker } from '../engine/docker-client.ts';
import type { CanaryWorld } from './world.ts';

const MOST_BYTES = 1024 ** 3;

/** Endpoints of all services that give something. What a container itself says is its own affair. */
const readable: readonly AnyEndpoint[] = [
  ...[...authEndpoints, ...runtimeEndpoints, ...platformEndpoints, ...platformFactsEndpoints],
  ...[...computeEndpoints, ...networkEndpoints, ...monitorEndpoints, ...notifyEndpoints],
].filter(
  ({ method, path, name }) => method === 'GET' && !/^\/(sse|ws)\//.test(path) && !/^(readLogs|logs)$/.test(name),
);

/** What the API and its pages say, to the owner, to another tenant, to the administrator and to nobody. */
export async function lookAtReplies(world: CanaryWorld, ids: readonly string[]): Promise<void> {
  const { urls } = world;
  const bases = {
    auth: urls.auth,
    compute: urls.compute,
    network: urls.net,
    monitor: urls.monitor,
    notify: urls.notify,
  };
  for (const endpoint of readable)
    for (const id of /\{/.test(endpoint.path) ? ids : [''])
      for (const who of ['ann', 'bob', 'admin', undefined] as const) {
        const query = endpoint.name === 'adminAudit' || endpoint.name === 'listNotifications' ? '?limit=100' : '';
        await world.ask(who, 'GET', `${bases[endpoint.service]}${endpoint.path.replaceAll(/\{.*?\}/g, id)}${query}`);
      }
  for (const base of Object.values(bases))
    for (const path of ['/', '/healthz', '/openapi.json', '/metrics']) await world.ask(undefined, 'GET', base + path);
  const { port } = new URL(urls.http);
  for (const path of ['/', '/metrics', '/readyz']) await world.ask(undefined, 'GET', `http://127.0.0.1:${port}${path}`);
}

/** What the operator's commands print, those of the owner, and the tools for programs. */
export async function lookAtCommands(world: CanaryWorld, ids: readonly string[]): Promise<void> {
  const commands = [
    ...['audit --json --limit 10000', 'audit --limit 10000', 'tree', 'tree --json', 'doctor', 'doctor --json', 'nodes'],
    ...['containers list', 'containers list --json', 'dead-letters list', 'routes list', 'domains list', 'users list'],
    ...['registry repositories', 'database url'],
  ];
  for (const command of commands) await world.operator(command.split(' '));
  const tree = await world.ask('admin', 'GET', `${world.urls.auth}/api/runtime/actors?all=true`);
  const paths = z
    .object({ actors: z.array(actorSchema) })
    .parse(tree.json)
    .actors.map(({ path }) => path);
  for (const path of paths.filter((each) => /container|user|settings/.test(each)).slice(0, 20))
    await world.ask('admin', 'GET', `${world.urls.auth}/api/runtime/actor?path=${encodeURIComponent(path)}`);
  for (const id of ids) await world.command(['show', id]);
  for (const words of ['ps', 'env ls shop', 'releases shop', 'notifications', 'top --json --once', 'webhook ls'])
    await world.command(words.split(' '));
  await lookAtTools(world, ids);
}

/** `troupe mcp`, as a program speaks with it. */
async function lookAtTools(world: CanaryWorld, ids: readonly string[]): Promise<void> {
  const client = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'trial', version: '1' } };
  const calls = [
    ['initialize', client],
    ['tools/list', {}],
    ...['list_containers', 'list_images', 'list_hostnames'].map((name) => ['tools/call', { name, arguments: {} }]),
    ...ids.flatMap((container) =>
      ['get_container', 'list_ports'].map((name) => ['tools/call', { name, arguments: { container } }]),
    ),
  ];
  const lines = calls.map(([method, params], id) => JSON.stringify({ jsonrpc: '2.0', id, method, params }));
  await world.command(['mcp'], `${lines.join('\n')}\n`);
}

/** The data folder with PostgreSQL's files and log, the dumps, and the files of the owner's own client. */
export async function lookAtFiles(world: CanaryWorld): Promise<void> {
  const dump = join(world.folder, 'troupe.dump');
  await world.operator(['database', 'dump', dump]);
  world.search('names of files', (await readdir(world.folder, { recursive: true })).join('\n'));
  for (const file of await readdir(world.folder, { recursive: true, withFileTypes: true })) {
    const path = join(file.parentPath, file.name);
    // The app of the trial lies here with its own secrets.
    if (!file.isFile() || path.startsWith(join(world.folder, 'shop'))) continue;
    const content = await readFile(path).catch(() => undefined);
    if (content !== undefined) world.search(path.slice(world.folder.length + 1), content);
  }
  // All rows as text.
  await world.operator(['database', 'dump']);
}

/** How the processes of this machine were started, but for those in containers. */
export async function lookAtProcesses(world: CanaryWorld): Promise<void> {
  const own = await readlink('/proc/self/ns/pid');
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name)))
    try {
      if ((await readlink(`/proc/${pid}/ns/pid`)) !== own) continue;
      for (const file of ['cmdline', 'environ'])
        world.search(`${file} of a process`, await readFile(`/proc/${pid}/${file}`));
    } catch {
      // It has ended.
    }
}

/** All that Docker tells: of containers, images, volumes, networks and commands, and the files of containers and images. */
export async function lookAtDocker(world: CanaryWorld, ids: readonly string[], since: number): Promise<void> {
  const client = new DockerClient(process.env.DOCKER_HOST ?? '');
  const look = async (path: string): Promise<string> => {
    const bytes = await client.call('GET', path, { maxBytes: MOST_BYTES, timeoutMs: 120_000 }).catch(() => undefined);
    if (bytes !== undefined) world.search(`Docker: ${path.split('?')[0]}`, bytes);
    return bytes?.toString() ?? '[]';
  };
  const listed = z.array(z.object({ Id: z.string(), Created: z.number(), RepoTags: z.array(z.string()).nullish() }));
  const withExecs = z.object({ ExecIDs: z.array(z.string()).nullish() });
  for (const { Id } of listed.parse(JSON.parse(await look('/containers/json?all=1')))) {
    const { ExecIDs } = withExecs.catch({ ExecIDs: [] }).parse(JSON.parse(await look(`/containers/${Id}/json`)));
    for (const exec of ExecIDs ?? []) await look(`/exec/${exec}/json`);
  }
  for (const { Id, Created, RepoTags } of listed.parse(JSON.parse(await look('/images/json?all=1')))) {
    for (const what of ['json', 'history']) await look(`/images/${Id}/${what}`);
    // Others build images of the platform at the same time, which are large.
    const isBuilt = RepoTags?.some((tag) => tag.startsWith('troupe.invalid/')) === true;
    if (Created >= since && !isBuilt) await look(`/images/${Id}/get`);
  }
  for (const what of [
    '/volumes',
    '/networks',
    '/info',
    `/events?since=${since}&until=${Math.floor(Date.now() / 1000)}`,
  ])
    await look(what);
  for (const id of ids)
    for (const found of await inDocker(id))
      for (const what of ['export', 'changes', 'top']) await look(`/containers/${found.id}/${what}`);
  client.close();
}
