/** Answers for the cluster's names, as its DNS would: from the services and endpoints that the API server has now. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { z } from 'zod';
import { parseIpv4 } from '../../../lib/ipv4.ts';

export const clusterDomain = 'cluster.test';

const TYPE = { A: 1, CNAME: 5 } as const;
const NO_SUCH_NAME = 3;
/** More than any name leads on. */
const MOST_ALIASES = 4;

const serviceView = z.object({
  spec: z.object({
    type: z.string(),
    clusterIP: z.string().default(''),
    externalName: z.string().default(''),
  }),
});
const endpointsView = z.object({
  subsets: z.array(z.object({ addresses: z.array(z.object({ ip: z.string() })).default([]) })).default([]),
});

/** Asks the API server. */
type Call = (method: string, path: string) => Promise<{ status: number; json: unknown }>;

/** What a name leads to: another name, or addresses; undefined: there is no such name. */
type Found = { readonly alias: string } | { readonly addresses: readonly string[] } | undefined;

type Look = (name: string) => Promise<Found>;

/** Listens for UDP on port 53 of `address`. What it has found it goes on answering for `keptMs`. */
export async function startClusterNames(address: string, call: Call, keptMs = 0): Promise<{ close(): Promise<void> }> {
  const socket = createSocket('udp4');
  const look = lookerWith(call, keptMs);
  socket.on('message', (query, from) => {
    void answerTo(look, query).then(
      (answer) => socket.send(answer, from.port, from.address),
      // Whoever asked asks again.
      () => undefined,
    );
  });
  socket.bind(53, address);
  await once(socket, 'listening');
  return {
    close: async () => {
      socket.close();
      await once(socket, 'close');
    },
  };
}

/** Looks names up, and remembers what was found for so long. */
function lookerWith(call: Call, keptMs: number): Look {
  const kept = new Map<string, { readonly found: Found; readonly until: number }>();
  return async (name) => {
    const known = kept.get(name);
    if (known !== undefined && known.until > performance.now()) return known.found;
    const found = await look(call, name);
    if (found !== undefined) kept.set(name, { found, until: performance.now() + keptMs });
    return found;
  };
}

async function answerTo(look: Look, query: Buffer): Promise<Buffer> {
  const { name, end } = nameIn(query);
  const type = query.readUInt16BE(end);
  const records: Buffer[] = [];
  let found = await look(name);
  for (let asked = name, steps = 0; found !== undefined && 'alias' in found && steps < MOST_ALIASES; steps += 1) {
    records.push(record(asked, TYPE.CNAME, packed(found.alias)));
    asked = found.alias;
    found = await look(asked);
    if (type === TYPE.A && found !== undefined && 'addresses' in found)
      for (const one of found.addresses) records.push(record(asked, TYPE.A, packedAddress(one)));
  }
  if (type === TYPE.A && records.length === 0 && found !== undefined && 'addresses' in found)
    for (const one of found.addresses) records.push(record(name, TYPE.A, packedAddress(one)));
  const head = Buffer.alloc(12);
  head.writeUInt16BE(query.readUInt16BE(0), 0);
  // An answer, with authority, recursion asked for and available.
  head.writeUInt16BE(0x8580 | (found === undefined && records.length === 0 ? NO_SUCH_NAME : 0), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(records.length, 6);
  return Buffer.concat([head, query.subarray(12, end + 4), ...records]);
}

/** `<service>.<namespace>.svc.<domain>`: a headless service is where its pods are, if there are any. */
async function look(call: Call, name: string): Promise<Found> {
  const suffix = `.svc.${clusterDomain}`;
  const [service, namespace, ...more] = name.endsWith(suffix) ? name.slice(0, -suffix.length).split('.') : [];
  if (!service || !namespace || more.length > 0) return undefined;
  const root = `/api/v1/namespaces/${namespace}`;
  const { status, json } = await call('GET', `${root}/services/${service}`);
  if (status !== 200) return undefined;
  const { type, clusterIP, externalName } = serviceView.parse(json).spec;
  if (type === 'ExternalName') return { alias: externalName };
  if (clusterIP !== 'None') return { addresses: [clusterIP] };
  const endpoints = await call('GET', `${root}/endpoints/${service}`);
  if (endpoints.status !== 200) return undefined;
  const addresses = endpointsView.parse(endpoints.json).subsets.flatMap((subset) => subset.addresses);
  return addresses.length === 0 ? undefined : { addresses: addresses.map(({ ip }) => ip) };
}

/** The name of the one question, and where it ends. */
function nameIn(query: Buffer): { readonly name: string; readonly end: number } {
  const words: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    words.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: words.join('.').toLowerCase(), end: at + 1 };
}

function packed(name: string): Buffer {
  const words = name.split('.').map((word) => Buffer.from(`${String.fromCharCode(word.length)}${word}`, 'latin1'));
  return Buffer.concat([...words, Buffer.from([0])]);
}

function packedAddress(address: string): Buffer {
  const packedOne = Buffer.alloc(4);
  packedOne.writeUInt32BE(parseIpv4(address) ?? 0);
  return packedOne;
}

/** Class IN, and nothing to be remembered. */
function record(name: string, type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(type, 0);
  head.writeUInt16BE(1, 2);
  head.writeUInt16BE(data.length, 8);
  return Buffer.concat([packed(name), head, data]);
}
