/** `troupe port`, `open`, `mount`, `pull-policy`. */

import { type CallInput, type CallReply, type Container, readableHost, TroupeError } from '../../client/index.ts';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import { CACHE_OF_OPENED, CACHES } from './cache.ts';
import { ClientFailure } from './failure.ts';
import { containerOf } from './names.ts';
import { outlookOf, outsideOf, pageOf } from './outside.ts';
import { takeSecret } from './prompt.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

/** What the words of a person mean to the platform. */
export const PULL_POLICIES = { always: 'Always', missing: 'IfNotPresent' } as const;

/**
 * A port from outside and the one inside: `80:8080`, or `8080` for both; with `/https` the platform ends TLS there.
 * Throws ClientFailure.
 */
export function parsePort(text: string): CallInput<'addIngress'>['body'] {
  const [, port, target = port, https] = /^(\d{1,5})(?::(\d{1,5}))?(\/https)?$/.exec(text) ?? [];
  if (port === undefined)
    throw new ClientFailure(
      'usage',
      `${text} is no port such as 8080, 80:8080 for outside and inside, or 443:8080/https.`,
    );
  const body = { port: Number(port), target_port: Number(target) };
  return https === undefined ? body : { ...body, tls: 'platform' };
}

/** The same for a port that is to be opened. Throws ClientFailure for one that the platform does not open. */
export function portToOpen(text: string): CallInput<'addIngress'>['body'] {
  const body = parsePort(text);
  const { port, tls } = body;
  if (port !== 80 && port !== 443 && (port < 8000 || port > 8999))
    throw new ClientFailure(
      'usage',
      `${text}: the port outside must be 80, 443, or one from 8000 to 8999, as 80:8080.`,
    );
  if (port === 80 && tls !== undefined)
    throw new ClientFailure('usage', `${text}: port 80 is for plain HTTP. Use 443:${body.target_port}/https.`);
  return body;
}

type PortRule = CallReply<'listIngress'>['rules'][number];

/** A rule as people read it: `443 -> 8080/https (password)`. */
export function portText({ port, target_port, tls, access }: PortRule): string {
  const inside = `${target_port}${tls === undefined ? '' : '/https'}`;
  const leads = inside === String(port) ? inside : `${port} -> ${inside}`;
  return access === undefined ? leads : `${leads} (${access})`;
}

/** Lists the ports that are open from outside. */
export async function listPorts(name: string | undefined, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const container = await containerOf(session, name);
  const { id } = container;
  const [answer, from] = await Promise.all([
    session.client.call('listIngress', { params: { id } }),
    outlookOf(session, options.place),
  ]);
  const rows = answer.rules.map((rule) => [
    outsideOf(rule, readableHost(container), from),
    rule.tls === 'platform' ? `${rule.target_port}/https` : String(rule.target_port),
    rule.access ?? 'public',
    rule.cache ?? 'default',
    session.out.when(rule.created_at),
    String(rule.port),
  ]);
  session.out.table(
    answer,
    ['OUTSIDE', 'INSIDE', 'ACCESS', 'CACHE', 'CREATED', 'PORT'],
    rows,
    'Nothing from outside reaches it: `troupe port add`.',
  );
}

/** Who gets through a port: `--access`. */
export type PortGuardOption = 'public' | 'password' | 'mine';

interface AddPortOptions extends ClientCommandOptions {
  readonly access?: PortGuardOption;
  readonly cache?: CacheMode;
}

/** Opens a port. */
export async function addPort(name: string, text: string, options: AddPortOptions): Promise<void> {
  const { access = 'public', cache = CACHE_OF_OPENED } = options;
  const parsed = portToOpen(text);
  mustBeGuardable([parsed], access);
  const session = openSession(options);
  const container = await containerOf(session, name);
  const { id } = container;
  const body = { ...parsed, ...(await guardFor(access, session)), cache };
  const rule = await session.client.call('addIngress', { params: { id }, body });
  if (session.out.json) return session.out.line(JSON.stringify(rule));
  const outside = outsideOf(rule, readableHost(container), await outlookOf(session, options.place));
  const how = rule.tls === 'platform' ? ", with the platform's certificate" : '';
  const whom = rule.access === undefined ? '' : ` ${WHOM[rule.access]}`;
  session.out.note(`${outside} leads to port ${rule.target_port}${how}, within 5 s.${whom}`);
  if (rule.access !== undefined) for (const line of await openWays(session, container, rule)) session.out.note(line);
}

/** How else the program behind a guarded port is reached from outside, where nobody is asked. */
async function openWays(
  { client }: ClientSession,
  { id, name }: Container,
  guarded: PortRule,
): Promise<readonly string[]> {
  const { rules } = await client.call('listIngress', { params: { id } });
  const open = rules.filter(({ access, target_port }) => access === undefined && target_port === guarded.target_port);
  const isGuarded = new Set(rules.filter(({ access }) => access !== undefined).map(({ port }) => port));
  const mapped = (await mappingsOf(client)).filter(
    ({ container_id, target_port }) => container_id === id && !isGuarded.has(target_port),
  );
  return [
    ...open.map(
      ({ port }) => `Port ${port} leads to the same program and asks nobody: \`troupe port rm ${name} ${port}\`.`,
    ),
    ...mapped.map(
      ({ domain, target_port }) =>
        `${domain} leads to port ${target_port} and asks nobody: remove it, and add it with --port ${guarded.port}.`,
    ),
  ];
}

/** The hostnames; none for a token that may not see them. */
export async function mappingsOf(client: ClientSession['client']): Promise<CallReply<'listMappings'>['domains']> {
  try {
    return (await client.call('listMappings')).domains;
  } catch (error) {
    if (error instanceof TroupeError && [403, 404].includes(error.status)) return [];
    throw error;
  }
}

const WHOM = {
  public: '',
  password: 'It asks for the password; the user name does not matter.',
  mine: 'It opens for you alone, in a browser that is logged in at the platform.',
} as const;

/** Throws ClientFailure where a port has no HTTPS by the platform, and so nobody is asked there. */
export function mustBeGuardable(
  ports: readonly CallInput<'addIngress'>['body'][],
  access: PortGuardOption = 'public',
): void {
  if (access !== 'public' && ports.some(({ tls }) => tls !== 'platform'))
    throw new ClientFailure('usage', `--access ${access} needs HTTPS by the platform: add /https, as 443:8080/https.`);
}

/** What a rule says of those who get through; a password is typed or piped in. Throws ClientFailure. */
export async function guardFor(
  access: PortGuardOption = 'public',
  session: ClientSession,
): Promise<Pick<CallInput<'addIngress'>['body'], 'access' | 'password'>> {
  return access === 'public' ? {} : { access, ...(await passwordFor(access, session)) };
}

/** The password of a port, typed or piped in: on the command line others on the machine would see it. */
async function passwordFor(access: 'password' | 'mine', { out }: ClientSession): Promise<{ password?: string }> {
  if (access === 'mine') return {};
  const otherwise = 'A password is typed at a terminal, or piped in as a line of standard input.';
  const password = await takeSecret(out, 'Password of the page (8 to 128 characters): ', otherwise);
  if (password === '') throw new ClientFailure('usage', 'The password is empty: type one, or pipe it in.');
  if (out.canAsk && (await takeSecret(out, 'Again: ', otherwise)) !== password)
    throw new ClientFailure('usage', 'The two passwords are not the same: nothing is opened.');
  return { password };
}

/** Says what gateways keep of the answers at a port. */
export async function setPortCache(
  name: string,
  text: string,
  cache: CacheMode,
  options: ClientCommandOptions,
): Promise<void> {
  const { port } = parsePort(text);
  const session = openSession(options);
  const container = await containerOf(session, name);
  const params = { id: container.id, port: String(port) };
  const rule = await session.client.call('changeIngress', { params, body: { cache } });
  session.out.done(rule, `${readableHost(container)}:${port}: ${CACHES[cache]}`);
}

/** Closes a port. */
export async function removePort(name: string, text: string, options: ClientCommandOptions): Promise<void> {
  const { port } = parsePort(text);
  const session = openSession(options);
  const container = await containerOf(session, name);
  const params = { id: container.id, port: String(port) };
  const answer = await session.client.call('deleteIngress', { params });
  session.out.done(answer, `${readableHost(container)}:${port} is closed.`);
}

/** Opens the page of a container in a browser, or prints its address where there is none. */
export async function openPage(name: string | undefined, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { client, out } = session;
  const container = await containerOf(session, name);
  const [{ rules }, from] = await Promise.all([
    client.call('listIngress', { params: { id: container.id } }),
    outlookOf(session, out.place),
  ]);
  const url = pageOf(rules, readableHost(container), from);
  if (url === undefined)
    throw new ClientFailure(
      'state',
      `${container.name} has no port: \`troupe port add ${container.name} 80:8080\` opens one.`,
    );
  if (out.json) return out.line(JSON.stringify({ url }));
  out.line(url);
  if (out.isTerminal) out.place.machine?.openBrowser(url);
}

/** Lists the paths whose data is kept. */
export async function listMounts(name: string | undefined, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id } = await containerOf(session, name);
  const answer = await session.client.call('getMounts', { params: { id } });
  session.out.table(
    answer,
    ['PATH'],
    answer.mount_paths.map((path) => [path]),
    'No path is kept.',
  );
}

export interface MountOptions extends ClientCommandOptions {
  readonly discard?: boolean;
}

/** Replaces the paths whose data is kept; a container that runs is restarted. */
export async function setMounts(name: string, mount_paths: string[], options: MountOptions): Promise<void> {
  const session = openSession(options);
  const { id, name: found } = await containerOf(session, name);
  const body = { mount_paths, discard: options.discard === true };
  const answer = await session.client.call('setMounts', { params: { id }, body });
  const restarted = answer.restarted ? ' It is restarted.' : '';
  session.out.done(answer, `${found} keeps ${answer.mount_paths.join(', ')}.${restarted}`);
}

/** Says whether each start pulls the image. */
export async function setPull(
  name: string,
  policy: keyof typeof PULL_POLICIES,
  options: ClientCommandOptions,
): Promise<void> {
  const session = openSession(options);
  const { id, name: found } = await containerOf(session, name);
  const body = { pull_policy: PULL_POLICIES[policy] };
  const answer = await session.client.call('setPullPolicy', { params: { id }, body });
  const when = policy === 'always' ? 'at every start' : 'only when it is missing';
  session.out.done(answer, `The image of ${found} is pulled ${when}, from the next start on.`);
}
