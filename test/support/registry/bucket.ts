/** A bucket in memory: of Amazon's S3 what Distribution asks for, and no more. It checks no signature, only the name that signed. */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { Cleanup } from '../temp.ts';

/** A bucket that is served. */
export interface TestBucket {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string;
  /** What it has, by the names of objects. */
  readonly objects: ReadonlyMap<string, Buffer>;
  /** What it was asked for and does not know. */
  readonly unknown: readonly string[];
}

interface BegunObject {
  readonly key: string;
  readonly parts: Map<number, Buffer>;
}

const etag = (content: Buffer): string => `"${createHash('md5').update(content).digest('hex')}"`;
const escaped = (text: string): string => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;');
const element = (name: string, ...inside: (string | number)[]): string => `<${name}>${inside.join('')}</${name}>`;
const TIME = '2026-01-01T00:00:00.000Z';

/** Serves a bucket for whoever signs as `accessKey`. */
export async function serveBucket(t: Cleanup, bucket: string, accessKey: string): Promise<TestBucket> {
  const objects = new Map<string, Buffer>();
  const begun = new Map<string, BegunObject>();
  const unknown: string[] = [];

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = unchunked(request, await buffer(request));
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://bucket');
    const key = decodeURIComponent(pathname).slice(`/${bucket}/`.length);
    const xml = (name: string, ...inside: (string | number)[]) => {
      response.setHeader('content-type', 'application/xml');
      response.end(`<?xml version="1.0" encoding="UTF-8"?>${element(name, ...inside)}`);
    };
    const fail = (status: number, code: string) => {
      response.statusCode = status;
      xml('Error', element('Code', code), element('Message', code));
    };
    if (!request.headers.authorization?.includes(`Credential=${accessKey}/`)) return fail(403, 'AccessDenied');
    if (!`${decodeURIComponent(pathname)}/`.startsWith(`/${bucket}/`)) return fail(404, 'NoSuchBucket');
    const asked = `${request.method} ${['uploads', 'uploadId', 'delete'].find((name) => query.has(name)) ?? ''}`.trim();
    const upload = begun.get(query.get('uploadId') ?? '');
    if (query.has('uploadId') && upload === undefined) return fail(404, 'NoSuchUpload');
    if (asked === 'GET uploads') {
      const found = [...begun].filter(([, { key: of }]) => of.startsWith(query.get('prefix') ?? ''));
      const uploads = found.map(([id, one]) =>
        element('Upload', element('Key', escaped(one.key)), element('UploadId', id)),
      );
      return xml('ListMultipartUploadsResult', element('IsTruncated', 'false'), ...uploads);
    }
    if (asked === 'POST uploads') {
      const id = randomUUID();
      begun.set(id, { key, parts: new Map() });
      return xml('InitiateMultipartUploadResult', element('Key', escaped(key)), element('UploadId', id));
    }
    if (asked === 'PUT uploadId') {
      const copied = sourceOf(request, objects, bucket);
      const part = copied ?? body;
      upload?.parts.set(Number(query.get('partNumber')), part);
      response.setHeader('etag', etag(part));
      return copied === undefined ? void response.end() : xml('CopyPartResult', element('ETag', etag(part)));
    }
    if (asked === 'GET uploadId') {
      const parts = [...(upload?.parts ?? [])].sort(([a], [b]) => a - b);
      const listed = parts.map(([number, part]) =>
        element('Part', element('PartNumber', number), element('ETag', etag(part)), element('Size', part.length)),
      );
      return xml('ListPartsResult', element('IsTruncated', 'false'), ...listed);
    }
    if (asked === 'POST uploadId' || asked === 'DELETE uploadId') {
      begun.delete(query.get('uploadId') ?? '');
      if (asked.startsWith('DELETE')) return void response.writeHead(204).end();
      const parts = [...(upload?.parts ?? [])].sort(([a], [b]) => a - b).map(([, part]) => part);
      objects.set(key, Buffer.concat(parts));
      return xml('CompleteMultipartUploadResult', element('Key', escaped(key)), element('ETag', '"whole"'));
    }
    if (asked === 'POST delete') {
      for (const [, name = ''] of body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) objects.delete(name);
      return xml('DeleteResult');
    }
    if (asked === 'PUT') {
      const copied = sourceOf(request, objects, bucket);
      objects.set(key, copied ?? body);
      return copied === undefined
        ? void response.setHeader('etag', etag(body)).end()
        : xml('CopyObjectResult', element('ETag', etag(copied)));
    }
    if (asked === 'DELETE') {
      objects.delete(key);
      return void response.writeHead(204).end();
    }
    if (asked === 'GET' && key === '') return xml('ListBucketResult', ...listing(objects, query));
    const object = objects.get(key);
    if (asked !== 'GET' && asked !== 'HEAD') {
      unknown.push(`${asked} ${request.url}`);
      return fail(501, 'NotImplemented');
    }
    if (object === undefined) return fail(404, 'NoSuchKey');
    const [, from = '0', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    if (Number(from) > 0 && Number(from) >= object.length) return fail(416, 'InvalidRange');
    const part = object.subarray(Number(from), to === '' ? undefined : Number(to) + 1);
    response.writeHead(request.headers.range === undefined ? 200 : 206, {
      'content-length': part.length,
      'last-modified': new Date(TIME).toUTCString(),
      etag: etag(object),
      ...(request.headers.range === undefined
        ? {}
        : { 'content-range': `bytes ${from}-${Number(from) + part.length - 1}/${object.length}` }),
    });
    response.end(asked === 'HEAD' ? undefined : part);
  };

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      unknown.push(String(error));
      response.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new TypeError('a TCP server has an address');
  return { endpoint: `http://127.0.0.1:${address.port}`, objects, unknown };
}

/** What is in a folder: all, or with a delimiter what is right below. */
function listing(objects: ReadonlyMap<string, Buffer>, query: URLSearchParams): string[] {
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  const folders = new Set<string>();
  const contents: string[] = [];
  for (const [key, { length }] of [...objects].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!key.startsWith(prefix)) continue;
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    if (end >= 0) folders.add(key.slice(0, end + 1));
    else {
      const parts = [element('Key', escaped(key)), element('LastModified', TIME), element('Size', length)];
      contents.push(element('Contents', ...parts));
    }
  }
  const common = [...folders].map((folder) => element('CommonPrefixes', element('Prefix', escaped(folder))));
  const all = [...contents, ...common];
  const most = Number(query.get('max-keys') ?? 1000);
  const count = element('KeyCount', Math.min(all.length, most));
  return [element('Prefix', escaped(prefix)), count, element('IsTruncated', 'false'), ...all.slice(0, most)];
}

/** The object, or the part of it, that a request copies; undefined for one that brings its content. */
function sourceOf(
  { headers }: IncomingMessage,
  objects: ReadonlyMap<string, Buffer>,
  bucket: string,
): Buffer | undefined {
  const source = headers['x-amz-copy-source'];
  if (typeof source !== 'string') return undefined;
  const key = decodeURIComponent(source).replace(/^\//, '').slice(`${bucket}/`.length);
  const object = objects.get(key) ?? Buffer.alloc(0);
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(String(headers['x-amz-copy-source-range'] ?? '')) ?? [];
  return from === undefined ? object : object.subarray(Number(from), Number(to) + 1);
}

/** Content that is signed in chunks has the length and the signature before each. */
function unchunked({ headers }: IncomingMessage, body: Buffer): Buffer {
  if (!String(headers['x-amz-content-sha256']).startsWith('STREAMING-')) return body;
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const end = body.indexOf('\r\n', at);
    const size = Number.parseInt(body.subarray(at, end).toString().split(';')[0] ?? '0', 16);
    if (!(size > 0)) break;
    parts.push(body.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return Buffer.concat(parts);
}
