/** Tools for what leads to a container from outside: ports, and hostnames of the user. */
import { z } from 'zod';
import { addressOfPort, type CallReply, readableHost, TroupeError } from '../../../client/index.ts';
import { addressNameSchema } from '../../../proto/compute/address-names.ts';
import { containerSchema, ingressAccessSchema, ingressPasswordSchema } from '../../../proto/compute/fields.ts';
import { ingressSchema } from '../../../proto/compute/settings.ts';
import { cacheModeSchema } from '../../../proto/gateway/cache-mode.ts';
import { mappingSchema } from '../../../proto/network/endpoints.ts';
import { containerField, idOf } from './fields.ts';
import { type Tool, type ToolContext, tool } from './tool.ts';

const byContainer = z.strictObject({ container: containerField });
const outsideField = z.int().describe("Port of the container's hostname: 80, 443, or 8000 to 8999");
const portSchema = ingressSchema.extend({ url: z.string().describe('Where it is reached, if it serves HTTP') });
const CACHE =
  'What gateways keep of the answers: only what an answer itself declares fresh (explicit); also answers that say ' +
  'nothing of it, for up to 30 s (default); or nothing (off)';
const openedCache = cacheModeSchema.default('explicit').describe(CACHE);
const cacheField = cacheModeSchema.describe(CACHE);
const byHostname = z.strictObject({ hostname: z.string().min(1).describe('The hostname, or the id of its mapping') });

const PORT_TOOLS: readonly Tool[] = [
  tool({
    name: 'list_ports',
    title: 'List open ports',
    description: 'The open ports of a container, the port inside that each leads to, and for whom (absent: everybody).',
    effect: 'reads',
    input: byContainer,
    output: z.object({ ports: z.array(portSchema) }),
    async run({ container }, context) {
      const params = { id: await idOf(container, context) };
      const { client, signal } = context;
      const { rules } = await client.call('listIngress', { params }, { signal });
      return { ports: await withUrls(params.id, rules, context) };
    },
  }),
  tool({
    name: 'open_port',
    title: 'Open a port to the outside',
    description:
      "Leads a port of the container's hostname to one inside, for everybody unless `access` says otherwise.",
    effect: 'sets',
    input: byContainer.extend({
      port: outsideField,
      target_port: z.int().min(1).max(65_535).optional().describe('Port inside; default: the same'),
      https: z
        .boolean()
        .default(false)
        .describe('The platform does HTTPS with its certificate, and speaks HTTP to the program inside. Not for 80'),
      access: ingressAccessSchema
        .default('public')
        .describe('With https: who gets through: everybody, whoever has the password, or the user alone'),
      password: ingressPasswordSchema.optional().describe('With access "password"'),
      cache: openedCache,
    }),
    output: z.object({ port: portSchema }),
    async run({ container, port, target_port, https, access, password, cache }, context) {
      const params = { id: await idOf(container, context) };
      const tls = https ? ('platform' as const) : undefined;
      const body = {
        port,
        ...(target_port === undefined ? {} : { target_port }),
        ...(tls === undefined ? {} : { tls }),
        ...(access === 'public' ? {} : { access }),
        ...(password === undefined ? {} : { password }),
        cache,
      };
      const rule = await context.client.call('addIngress', { params, body }, { signal: context.signal });
      const [opened] = await withUrls(params.id, [rule], context);
      return { port: opened ?? { ...rule, url: '' } };
    },
  }),
  tool({
    name: 'set_port_cache',
    title: 'Say what is kept of the answers at a port',
    description: 'Changes what gateways keep of the answers at an open port. What they kept is forgotten.',
    effect: 'sets',
    input: byContainer.extend({ port: outsideField, cache: cacheField }),
    output: z.object({ port: ingressSchema }),
    async run({ container, port, cache }, context) {
      const params = { id: await idOf(container, context), port: String(port) };
      return {
        port: await context.client.call('changeIngress', { params, body: { cache } }, { signal: context.signal }),
      };
    },
  }),
  tool({
    name: 'set_address_name',
    title: 'Give a container a readable address',
    description:
      'Has the container reached at a name in the place of its id in its hostname, too, or takes the name away. A ' +
      'name that is given up is reserved for the user for 90 days.',
    effect: 'sets',
    input: byContainer.extend({ address_name: addressNameSchema.nullable().describe('Null: no name') }),
    output: z.object({ container: containerSchema }),
    async run({ container, address_name }, context) {
      const params = { id: await idOf(container, context) };
      const { client, signal } = context;
      return { container: await client.call('updateContainer', { params, body: { address_name } }, { signal }) };
    },
  }),
  tool({
    name: 'close_port',
    title: 'Close a port',
    description: 'Closes a port of a container. Nobody reaches what is behind it from then on.',
    effect: 'destroys',
    input: byContainer.extend({ port: outsideField }),
    output: z.object({ closed: z.int() }),
    async run({ container, port }, context) {
      const params = { id: await idOf(container, context), port: String(port) };
      await context.client.call('deleteIngress', { params }, { signal: context.signal });
      return { closed: port };
    },
  }),
];

type Rule = CallReply<'addIngress'>;

/** A token that may open a port may not see the container: the address stays unknown then. */
async function withUrls(id: string, rules: readonly Rule[], { client, signal, outlook }: ToolContext) {
  const from = await outlook();
  const container = await client.call('getContainer', { params: { id } }, { signal }).catch((error: unknown) => {
    if (error instanceof TroupeError && error.code === 'missing_scope') return undefined;
    throw error;
  });
  const hostname = container && readableHost(container);
  const urlOf = (rule: Rule) =>
    hostname === undefined ? '' : (addressOfPort(hostname, rule, from) ?? `http://${hostname}:${rule.port}/`);
  return rules.map((rule) => ({ ...rule, url: urlOf(rule) }));
}

const HOSTNAME_TOOLS: readonly Tool[] = [
  tool({
    name: 'list_hostnames',
    title: 'List hostnames',
    description: 'Hostnames of the user that lead to containers, and what a pending one waits for.',
    effect: 'reads',
    input: z.strictObject({}),
    output: z.object({ hostnames: z.array(mappingSchema) }),
    async run(_, { client, signal }) {
      const { domains } = await client.call('listMappings', {}, { signal });
      return { hostnames: domains };
    },
  }),
  tool({
    name: 'add_hostname',
    title: 'Add a hostname',
    description:
      'Maps a hostname of the user to a port of a container. A pending one needs its records at the ' +
      'DNS provider: each has its name, as a whole and in its zone, and its value. The `proof` of an error is a TXT ' +
      'record: with it in DNS, another call takes the hostname from an account that has not proven it.',
    effect: 'adds',
    input: byContainer.extend({
      hostname: z.string().min(1).max(1024),
      port: z.int().default(80).describe('80, 443, or 8000 to 8999'),
      cache: openedCache,
    }),
    output: z.object({ hostname: mappingSchema }),
    async run({ container, hostname, port, cache }, context) {
      const body = { container_id: await idOf(container, context), domain: hostname, target_port: port, cache };
      return { hostname: await context.client.call('createMapping', { body }, { signal: context.signal }) };
    },
  }),
  tool({
    name: 'verify_hostname',
    title: 'Verify a hostname',
    description: 'Has the TXT record of a pending hostname looked for now.',
    effect: 'sets',
    input: byHostname,
    output: z.object({ status: z.enum(['verified', 'pending']), detail: z.string().optional() }),
    async run({ hostname }, context) {
      const params = { id: await mappingId(hostname, context) };
      return context.client.call('verifyMapping', { params }, { signal: context.signal });
    },
  }),
  tool({
    name: 'set_hostname_cache',
    title: 'Say what is kept of the answers at a hostname',
    description: 'Changes what gateways keep of the answers at a hostname. What they kept is forgotten.',
    effect: 'sets',
    input: byHostname.extend({ cache: cacheField }),
    output: z.object({ hostname: mappingSchema }),
    async run({ hostname, cache }, context) {
      const params = { id: await mappingId(hostname, context) };
      const { client, signal } = context;
      return { hostname: await client.call('changeMapping', { params, body: { cache } }, { signal }) };
    },
  }),
  tool({
    name: 'remove_hostname',
    title: 'Remove a hostname',
    description: 'Gives a hostname up: it leads nowhere from then on.',
    effect: 'destroys',
    input: byHostname,
    output: z.object({ removed: z.string().describe('Id of the mapping') }),
    async run({ hostname }, context) {
      const id = await mappingId(hostname, context);
      await context.client.call('deleteMapping', { params: { id } }, { signal: context.signal });
      return { removed: id };
    },
  }),
];

/** A hostname has a dot, an id none. */
async function mappingId(text: string, { client, signal }: ToolContext): Promise<string> {
  if (!text.includes('.')) return text;
  const { domains } = await client.call('listMappings', {}, { signal });
  const found = domains.find(({ domain }) => domain === text.toLowerCase());
  if (found !== undefined) return found.id;
  throw new TroupeError('not_found', `The user has no hostname ${text}.`, { status: 404 });
}

export const NETWORK_TOOLS: readonly Tool[] = [...PORT_TOOLS, ...HOSTNAME_TOOLS];
