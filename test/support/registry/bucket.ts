/** A bucket in memory: of Amazon's S3 what Distribution and the platform ask for, and no more. It checks signatures. */
import { createHash, createHmac, randomUUID } from 'node:crypto';
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
  /** Uploads that are not finished, by the names of their objects. */
  begun(): readonly string[];
  /** Requests so far, by what was asked: `GET list`, `HEAD`, `POST delete`. Those of Distribution are left out. */
  readonly asked: ReadonlyMap<string, number>;
  /** Puts an object there. */
  put(key: string, content: string): void;
  /** Makes all that it has so much older, ms. */
  age(ms: number): void;
  /** From then on it answers 503, until it is called with false. */
  away(isAway: boolean): void;
}

interface BegunObject {
  readonly key: string;
  readonly parts: Map<number, Buffer>;
  at: number;
}

/** What is listed of an object. */
interface HeldObject {
  readonly content: Buffer;
  at: number;
}

const etag = (content: Buffer): string => `"${createHash('md5').update(content).digest('hex')}"`;
const escaped = (text: string): string => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;');
const element = (name: string, ...inside: (string | number)[]): string => `<${name}>${inside.join('')}</${name}>`;
const timeOf = (at: number): string => `${new Date(at).toISOString().slice(0, 19)}.000Z`;

/** Serves a bucket for whoever signs with this pair of keys; `page`: objects in one answer at most. */
export async function serveBucket(
  t: Cleanup,
  bucket: string,
  [accessKey, secretKey]: readonly [string, string],
  page = 1000,
): Promise<TestBucket> {
  const held = new Map<string, HeldObject>();
  const objects = {
    get: (key: string) => held.get(key)?.content,
    set: (key: string, content: Buffer) => void held.set(key, { content, at: Date.now() }),
    delete: (key: string) => held.delete(key),
  };
  const counts = new Map<string, number>();
  let isAway = false;
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
    if (!isSigned(request, secretKey)) return fail(403, 'SignatureDoesNotMatch');
    const hash = String(request.headers['x-amz-content-sha256']);
    if (/^[0-9a-f]{64}$/.test(hash) && hash !== createHash('sha256').update(body).digest('hex'))
      return fail(400, 'XAmzContentSHA256Mismatch');
    if (!`${decodeURIComponent(pathname)}/`.startsWith(`/${bucket}/`)) return fail(404, 'NoSuchBucket');
    const asked = `${request.method} ${['uploads', 'uploadId', 'delete'].find((name) => query.has(name)) ?? ''}`.trim();
    if (!/aws-sdk-go/i.test(request.headers['user-agent'] ?? '')) {
      const what = asked === 'GET' && key === '' ? 'GET list' : asked;
      counts.set(what, (counts.get(what) ?? 0) + 1);
    }
    if (isAway) return fail(503, 'SlowDown');
    const upload = begun.get(query.get('uploadId') ?? '');
    if (query.has('uploadId') && upload === undefined) return fail(404, 'NoSuchUpload');
    if (asked === 'GET uploads') {
      const marks = [query.get('key-marker') ?? '', query.get('upload-id-marker') ?? ''];
      const found = [...begun]
        .filter(([, { key: of }]) => of.startsWith(query.get('prefix') ?? ''))
        .sort(([a, { key: one }], [b, { key: other }]) => (`${one} ${a}` < `${other} ${b}` ? -1 : 1))
        .filter(([id, { key: of }]) => marks[0] === '' || `${of} ${id}` > marks.join(' '));
      const [last, one] = found[page - 1] ?? [];
      const isCut = found.length > page;
      const next = isCut
        ? [element('NextKeyMarker', escaped(one?.key ?? '')), element('NextUploadIdMarker', last ?? '')]
        : [];
      const uploads = found
        .slice(0, page)
        .map(([id, one]) =>
          element(
            'Upload',
            element('Key', escaped(one.key)),
            element('UploadId', id),
            element('Initiated', timeOf(one.at)),
          ),
        );
      return xml('ListMultipartUploadsResult', element('IsTruncated', `${isCut}`), ...next, ...uploads);
    }
    if (asked === 'POST uploads') {
      const id = randomUUID();
      begun.set(id, { key, parts: new Map(), at: Date.now() });
      return xml('InitiateMultipartUploadResult', element('Key', escaped(key)), element('UploadId', id));
    }
    if (asked === 'PUT uploadId') {
      const copied = sourceOf(request, objects, bucket);
      const part = copied ?? body;
      upload?.parts.set(Number(query.get('partNumber')), part);
      if (upload !== undefined) upload.at = Date.now();
      response.setHeader('etag', etag(part));
      return copied === undefined ? void response.end() : xml('CopyPartResult', element('ETag', etag(part)));
    }
    if (asked === 'GET uploadId') {
      const after = Number(query.get('part-number-marker') ?? 0);
      const parts = [...(upload?.parts ?? [])].sort(([a], [b]) => a - b).filter(([number]) => number > after);
      const isCut = parts.length > page;
      const next = isCut ? [element('NextPartNumberMarker', parts[page - 1]?.[0] ?? 0)] : [];
      const listed = parts
        .slice(0, page)
        .map(([number, part]) =>
          element(
            'Part',
            ...[element('PartNumber', number), element('ETag', etag(part)), element('Size', part.length)],
            element('LastModified', timeOf(upload?.at ?? 0)),
          ),
        );
      return xml('ListPartsResult', element('IsTruncated', `${isCut}`), ...next, ...listed);
    }
    if (asked === 'POST uploadId' || asked === 'DELETE uploadId') {
      begun.delete(query.get('uploadId') ?? '');
      if (asked.startsWith('DELETE')) return void response.writeHead(204).end();
      const parts = [...(upload?.parts ?? [])].sort(([a], [b]) => a - b).map(([, part]) => part);
      objects.set(key, Buffer.concat(parts));
      return xml('CompleteMultipartUploadResult', element('Key', escaped(key)), element('ETag', '"whole"'));
    }
    if (asked === 'POST delete') {
      const md5 = createHash('md5').update(body).digest('base64');
      if (request.headers['content-md5'] !== md5) return fail(400, 'InvalidDigest');
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
    if (asked === 'GET' && key === '') return xml('ListBucketResult', ...listing(held, query, page));
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
      'last-modified': new Date(held.get(key)?.at ?? 0).toUTCString(),
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
  return {
    endpoint: `http://127.0.0.1:${address.port}`,
    get objects() {
      return new Map([...held].map(([key, { content }]) => [key, content]));
    },
    unknown,
    begun: () => [...begun.values()].map(({ key }) => key),
    asked: counts,
    put: (key, content) => objects.set(key, Buffer.from(content)),
    age: (ms) => {
      for (const one of [...held.values(), ...begun.values()]) one.at -= ms;
    },
    away: (is) => {
      isAway = is;
    },
  };
}

/** What is in a folder, a page of it: all, or with a delimiter what is right below. */
function listing(held: ReadonlyMap<string, HeldObject>, query: URLSearchParams, page: number): string[] {
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  const after = query.get('continuation-token') ?? query.get('start-after') ?? query.get('marker') ?? '';
  const found = new Map<string, string>();
  for (const [key, { content, at }] of [...held].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!key.startsWith(prefix)) continue;
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    const name = end < 0 ? key : key.slice(0, end + 1);
    if (name <= after) continue;
    const parts = [element('Key', escaped(key)), element('LastModified', timeOf(at)), element('ETag', etag(content))];
    const one = end < 0 ? element('Contents', ...parts, element('Size', content.length)) : '';
    found.set(name, one || element('CommonPrefixes', element('Prefix', escaped(name))));
  }
  const some = [...found].slice(0, Math.min(page, Number(query.get('max-keys') ?? 1000)));
  const isCut = some.length < found.size;
  const last = some.at(-1)?.[0] ?? '';
  const next = isCut ? [element('NextContinuationToken', escaped(last)), element('NextMarker', escaped(last))] : [];
  const facts = [
    element('Prefix', escaped(prefix)),
    element('KeyCount', some.length),
    element('IsTruncated', `${isCut}`),
  ];
  return [...facts, ...next, ...some.map(([, text]) => text)];
}

/** The object, or the part of it, that a request copies; undefined for one that brings its content. */
function sourceOf(
  { headers }: IncomingMessage,
  objects: { get(key: string): Buffer | undefined },
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

/** Whether a request is signed as Signature Version 4 describes it. */
function isSigned({ method = '', url = '/', headers }: IncomingMessage, secretKey: string): boolean {
  const [, date = '', scope = '', names = '', signature] =
    /Credential=[^/]+\/(\d{8})\/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})/.exec(
      headers.authorization ?? '',
    ) ?? [];
  const [path = '', search = ''] = url.split('?', 2);
  const query = search
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => (pair.includes('=') ? pair : `${pair}=`))
    .map((pair) =>
      pair
        .split('=')
        .map((part) => strictly(decodeURIComponent(part.replace(/\+/g, ' '))))
        .join('='),
    )
    .sort();
  const signed = names.split(';').map((name) => `${name}:${String(headers[name] ?? '').trim()}\n`);
  const canonical = [
    ...[method, strictly(decodeURIComponent(path)).replace(/%2F/g, '/'), query.join('&'), signed.join(''), names],
    headers['x-amz-content-sha256'],
  ].join('\n');
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], `${date}/${scope}`, hashOf(canonical)].join('\n');
  let key: Buffer | string = `AWS4${secretKey}`;
  for (const part of [date, ...scope.split('/')]) key = createHmac('sha256', key).update(part).digest();
  return createHmac('sha256', key).update(text).digest('hex') === signature;
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

const strictly = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
