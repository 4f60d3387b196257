/** A stand-in for the DNS provider's v4 API, with the real one's shapes and quirks, on a port of its own. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Cleanup } from '../temp.ts';

export interface Zone {
  readonly id: string;
  readonly name: string;
  status: string;
}

export interface DnsRecord {
  readonly id: string;
  readonly zone: string;
  readonly type: string;
  readonly name: string;
  content: string;
  readonly proxied: boolean;
  readonly comment: string;
}

/** Answers in place of the API: once, or until taken away. */
export type Fault = (path: string, response: ServerResponse) => boolean;

export interface StandIn {
  readonly url: string;
  /** Zones by the token that sees them. */
  readonly zones: Map<string, Zone[]>;
  readonly records: DnsRecord[];
  /** Method and path of each call. */
  readonly calls: string[];
  fault: Fault | undefined;
  pageSize: number;
}

export async function standIn(t: Cleanup): Promise<StandIn> {
  let count = 0;
  const state: Omit<StandIn, 'url'> = { zones: new Map(), records: [], calls: [], fault: undefined, pageSize: 50 };
  const server = createServer((request, response) => {
    void serve(request, response).catch(() => response.destroy());
  });

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const url = new URL(request.url ?? '/', 'http://provider');
    const path = url.pathname.replace(/^\/client\/v4/, '');
    state.calls.push(`${request.method} ${path}`);
    if (state.fault?.(path, response)) return;
    const token = (request.headers.authorization ?? '').replace('Bearer ', '');
    if (!/^[\w-]+$/.test(token)) return no(response, 400, 6003, 'Invalid request headers');
    const seen = state.zones.get(token);
    if (seen === undefined) return no(response, 403, 9109, 'Invalid access token');
    if (path === '/zones') {
      const name = url.searchParams.get('name');
      const all = seen.filter((zone) => name === null || zone.name === name);
      const page = Number(url.searchParams.get('page') ?? 1);
      const size = Math.min(state.pageSize, Number(url.searchParams.get('per_page') ?? 20));
      const result = all.slice((page - 1) * size, page * size);
      const pages = Math.ceil(all.length / size);
      return yes(response, result, {
        page,
        per_page: size,
        count: result.length,
        total_count: all.length,
        total_pages: pages,
      });
    }
    const [, zoneId, recordId] = /^\/zones\/([^/]+)\/dns_records(?:\/([^/]+))?$/.exec(path) ?? [];
    const zone = seen.find(({ id }) => id === zoneId);
    if (zone === undefined)
      return no(response, 404, 7003, 'Could not route to /zones, perhaps your object identifier is invalid?');
    const here = state.records.filter((record) => record.zone === zone.id);
    if (request.method === 'GET') {
      const found = here.filter(
        ({ type, name }) => type === url.searchParams.get('type') && name === url.searchParams.get('name'),
      );
      return yes(response, found, {
        page: 1,
        per_page: 50,
        count: found.length,
        total_count: found.length,
        total_pages: 1,
      });
    }
    if (request.method === 'DELETE') {
      const index = state.records.findIndex(({ id }) => id === recordId);
      if (index < 0) return no(response, 404, 81_044, 'Record does not exist.');
      state.records.splice(index, 1);
      return yes(response, { id: recordId });
    }
    const body = JSON.parse(Buffer.concat(chunks).toString());
    if (here.some(({ name }) => name === body.name))
      return no(response, 400, 81_053, 'An A, AAAA, or CNAME record with that host already exists.');
    const record: DnsRecord = { id: `record${++count}`, zone: zone.id, ...body };
    state.records.push(record);
    return yes(response, record);
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return Object.assign(state, { url: `http://127.0.0.1:${port}/client/v4` });
}

function yes(response: ServerResponse, result: unknown, info?: object): void {
  json(response, 200, {
    success: true,
    errors: [],
    messages: [],
    result,
    ...(info === undefined ? {} : { result_info: info }),
  });
}

/** A refusal as the API words it. */
export function no(response: ServerResponse, status: number, code: number, message: string, headers = {}): void {
  json(response, status, { success: false, errors: [{ code, message }], messages: [], result: null }, headers);
}

function json(response: ServerResponse, status: number, body: object, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
