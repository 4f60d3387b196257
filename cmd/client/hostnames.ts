/** `troupe hostname`, `dns`. */

import { type CallInput, type CallReply, TroupeError } from '../../client/index.ts';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import { CACHE_OF_OPENED, CACHES } from './cache.ts';
import { ClientFailure, EXIT, proofHint } from './failure.ts';
import { containerOf, pick } from './names.ts';
import type { Output } from './output.ts';
import { takeSecret } from './prompt.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

type Mapping = CallReply<'listMappings'>['domains'][number];

/** Pause between two looks for a record, ms: the platform looks by itself, too. */
const LOOK_MS = 5000;

const HOSTNAME_COLUMNS = ['HOSTNAME', 'STATUS', 'LEADS TO', 'CACHE', 'ID'];

/** Lists the hostnames, and where each leads. */
export async function listHostnames(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const [answer, { containers }] = await Promise.all([client.call('listMappings'), client.call('listContainers')]);
  const nameOf = (id: string) => containers.find((container) => container.id === id)?.name ?? id;
  const rows = answer.domains.map(({ domain, status, container_id, target_port, cache = 'default', id }) => [
    domain,
    out.status(status),
    `${nameOf(container_id)}:${target_port}`,
    cache,
    id,
  ]);
  out.table(answer, HOSTNAME_COLUMNS, rows, 'You have no hostname: `troupe hostname add`.');
  if (!out.isTerminal || out.json || options.quiet) return;
  for (const { domain, detail } of answer.domains) if (detail !== undefined) out.note(`${domain}: ${detail}`);
}

export interface HostnameOptions extends ClientCommandOptions {
  readonly port: number;
  readonly cache?: CacheMode;
  readonly wait?: boolean;
  readonly timeout: number;
}

/** Maps a hostname to a container, and prints the records to enter. */
export async function addHostname(domain: string, name: string | undefined, options: HostnameOptions): Promise<void> {
  const session = openSession(options);
  const { out } = session;
  const container = await containerOf(session, name);
  const { port, cache = CACHE_OF_OPENED } = options;
  const body = { container_id: container.id, domain, target_port: port, cache };
  const mapping = await mapped(session, body, options);
  if (mapping.status === 'pending') showRecords(out, mapping);
  if (options.wait && mapping.status === 'pending') await untilVerified(session, mapping, options.timeout);
  const isVerified = mapping.status === 'verified' || options.wait === true;
  if (out.json) out.line(JSON.stringify(mapping));
  else if (isVerified) out.note(`${domain} leads to ${container.name}, port ${port}.`);
  else out.note(`The platform looks for the TXT record by itself; \`troupe hostname verify ${domain}\` looks now.`);
}

/** The mapping. With `wait`, a hostname that another account claims is asked for until its proof is found. */
async function mapped(
  { client, out }: ClientSession,
  body: CallInput<'createMapping'>['body'],
  { wait, timeout }: HostnameOptions,
): Promise<Mapping> {
  const deadline = performance.now() + timeout * 1000;
  for (let isTold = false; ; isTold = true) {
    try {
      return await client.call('createMapping', { body });
    } catch (error) {
      // A program is told at once.
      if (!(error instanceof TroupeError) || error.proof === undefined || wait !== true || out.json) throw error;
      if (!isTold) out.note(`${proofHint(error.proof)}\nWaiting for it.`);
      if (performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.max(LOOK_MS, (error.retryAfter ?? 0) * 1000)));
    }
  }
}

function showRecords(out: Output, mapping: Mapping): void {
  if (out.json) return;
  const { zone } = mapping;
  out.note('Enter these records at your DNS provider:\n');
  for (const { type, name, name_in_zone, value, note } of mapping.records ?? recordsOf(mapping)) {
    out.note(`  ${type.padEnd(5)}  ${name}`);
    if (name_in_zone !== undefined && zone !== undefined)
      out.note(out.paint(`         in the zone ${zone}: ${name_in_zone}`, 'dim'));
    out.note(`         ${value}`);
    if (note !== undefined) out.note(`         But ${note}.`);
  }
  out.note('');
}

/** The records, for a platform of an older version that does not list them. */
function recordsOf({ domain, verify_name, verify_token, cname_target }: Mapping): NonNullable<Mapping['records']> {
  const target = cname_target ?? "the platform's host for hostnames, which its operator names";
  return [
    { type: 'TXT', name: verify_name, value: verify_token },
    { type: 'CNAME', name: domain, value: target },
  ];
}

/** Has the record of a hostname looked for now. */
export async function verifyHostname(text: string, options: HostnameOptions): Promise<void> {
  const session = openSession(options);
  const mapping = await mappingOf(session, text);
  const { client, out } = session;
  if (options.wait) await untilVerified(session, mapping, options.timeout);
  const answer = options.wait
    ? { status: 'verified' as const }
    : await client.call('verifyMapping', { params: { id: mapping.id } });
  out.done(answer, answer.status === 'verified' ? `${mapping.domain} is verified.` : `Not yet: ${answer.detail}`);
  if (answer.status !== 'verified') out.place.exitWith(EXIT.state);
}

async function untilVerified({ client, out }: ClientSession, { id, domain }: Mapping, seconds: number): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  let last = '';
  for (;;) {
    const answer = await look();
    if (answer.status === 'verified') return;
    if (answer.detail !== last && !out.json) out.note(out.paint(`Not yet: ${answer.detail}`, 'dim'));
    last = answer.detail;
    if (performance.now() > deadline)
      throw new ClientFailure('timeout', `${domain} is not verified after ${seconds} s.`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }

  async function look(): Promise<CallReply<'verifyMapping'>> {
    try {
      return await client.call('verifyMapping', { params: { id } });
    } catch (error) {
      if (!(error instanceof TroupeError && error.status === 429)) throw error;
      return { status: 'pending', detail: 'looked for too often, waiting' };
    }
  }
}

/** Says what gateways keep of the answers at a hostname. */
export async function setHostnameCache(text: string, cache: CacheMode, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id, domain } = await mappingOf(session, text);
  const mapping = await session.client.call('changeMapping', { params: { id }, body: { cache } });
  session.out.done(mapping, `${domain}: ${CACHES[cache]}`);
}

/** Gives a hostname up. */
export async function removeHostname(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id, domain } = await mappingOf(session, text);
  await session.client.call('deleteMapping', { params: { id } });
  session.out.done({ id, domain }, `${domain} leads nowhere any more.`);
}

async function mappingOf({ client }: ClientSession, text: string): Promise<Mapping> {
  const { domains } = await client.call('listMappings');
  const named = domains.map((mapping) => ({ id: mapping.id, name: mapping.domain, mapping }));
  return pick(named, text, 'hostname').mapping;
}

/** Lists the connections to DNS providers. */
export async function listDns(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const answer = await client.call('listOwnedDomains');
  const rows = answer.connections.map(({ zones, created_at, id }) => [zones.join(', '), out.when(created_at), id]);
  out.table(answer, ['ZONES', 'CONNECTED', 'ID'], rows, 'No DNS provider is connected: `troupe dns connect`.');
}

/** Connects a DNS provider by a token from standard input, or from a person. */
export async function connectDns(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const otherwise = 'The token comes on standard input: `troupe dns connect < FILE`.';
  const token = await takeSecret(out, 'API token of Cloudflare, to read zones and edit DNS records: ', otherwise);
  if (token === '') throw new ClientFailure('usage', otherwise);
  const answer = await client.call('connectDomain', { body: { token } });
  out.done(answer, `Connected ${answer.zones.join(', ')} (${answer.id}). Their records are made for you from now on.`);
}

type DnsConnection = CallReply<'listOwnedDomains'>['connections'][number];

/** The one that has the zone, or the id. */
async function connectionOf({ client }: ClientSession, text: string): Promise<DnsConnection> {
  const { connections } = await client.call('listOwnedDomains');
  if (connections.length === 0)
    throw new ClientFailure('missing', 'No DNS provider is connected: `troupe dns connect`.');
  const byZone = connections.flatMap((each) => each.zones.map((name) => ({ id: each.id, name, connection: each })));
  // An id, or a beginning of several zones of one connection, means that connection.
  const meant = byZone.filter(({ id, name }) => id.startsWith(text) || name.startsWith(text));
  const [one] = meant;
  if (one !== undefined && meant.every(({ id }) => id === one.id)) return one.connection;
  return pick(byZone, text, 'connection').connection;
}

/** Has the zones of a connection read again. */
export async function refreshDns(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id } = await connectionOf(session, text);
  const answer = await session.client.call('refreshDomain', { params: { id } });
  session.out.done(answer, `Its zones are ${answer.zones.join(', ')}.`);
}

/** Forgets the token of a connection. */
export async function removeDns(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id, zones } = await connectionOf(session, text);
  await session.client.call('disconnectDomain', { params: { id } });
  session.out.done({ id }, `The connection to ${zones.join(', ')} is gone; hostnames and records stay.`);
}
