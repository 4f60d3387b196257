/** What is asked of a bucket of S3, or of what speaks as it does: what is in it, a text, and to remove something. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { Semaphore } from '../../../../lib/concurrency.ts';
import { errorText } from '../../../../lib/errors.ts';
import { readAtMost } from '../../../../lib/input.ts';
import type { RegistryBucket } from '../files.ts';
import { StoreAway, StoreTooLarge } from '../image-store.ts';
import { elementsIn, escaped, textIn } from './xml.ts';

/** Requests at a time. */
const MOST_AT_ONCE = 8;
/** How long one may take, ms, how often it is sent, and how long after one that failed, ms. */
const REQUEST_MS = 10_000;
const TRIES = 3;
const AGAIN_MS = 200;
/** Names that one request removes at most. */
const MOST_REMOVED = 1000;
/** The largest answer, bytes: the registry takes manifests of 4 MiB, and a page of a thousand names has about 2. */
export const MOST_ANSWER = 8 * 2 ** 20;
/** Of unfinished uploads, or of the parts of one: pages of a thousand. An upload has 10,000 parts at most. */
const MOST_PAGES = 100;
/** Where the next page begins: parameters, and the elements of the page before that say so. */
const LIST_GOES_ON = { 'continuation-token': 'NextContinuationToken' };
const UPLOADS_GO_ON = { 'key-marker': 'NextKeyMarker', 'upload-id-marker': 'NextUploadIdMarker' };
const PARTS_GO_ON = { 'part-number-marker': 'NextPartNumberMarker' };
/** The bucket's clock is taken for ours when they are not further apart than this, ms. */
const SAME_CLOCK_MS = 30_000;

/** An object of the bucket. */
export interface S3Object {
  readonly bytes: number;
  readonly atMs: number;
  /** Another one for another content. */
  readonly etag: string;
}

/** An object whose parts are still sent. */
export interface S3Upload {
  readonly key: string;
  readonly id: string;
  readonly atMs: number;
}

interface BucketRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE';
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal | undefined;
}

interface PageOptions {
  readonly goOn: Readonly<Record<string, string>>;
  readonly besides?: readonly number[];
  readonly most?: number;
}

interface BucketReply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** See above. All reject with StoreAway; times are as this machine's clock says. */
export class S3Bucket {
  readonly #bucket: RegistryBucket;
  readonly #origin: string;
  readonly #turns = new Semaphore(MOST_AT_ONCE);
  /** Of the signatures of a day. */
  readonly #keys = new Map<string, ArrayBuffer>();
  #aheadMs = 0;
  #requests = 0;

  constructor(bucket: RegistryBucket) {
    this.#bucket = bucket;
    const { endpoint = `https://s3.${bucket.region}.amazonaws.com`, name } = bucket;
    this.#origin = `${endpoint.replace(/\/$/, '')}/${name}`;
  }

  /** Requests that were sent. */
  get requests(): number {
    return this.#requests;
  }

  /** Tells of all that begins with `prefix`, in pages of a thousand. Rejects with StoreTooLarge beyond `most` pages. */
  async list(
    {
      prefix,
      most,
      signal,
    }: { readonly prefix: string; readonly most: number; readonly signal?: AbortSignal | undefined },
    onObject: (key: string, object: S3Object) => void,
  ): Promise<void> {
    const asked = { method: 'GET', query: { 'list-type': '2', prefix }, signal } as const;
    for await (const text of this.#pages(asked, { goOn: LIST_GOES_ON, most }))
      for (const one of elementsIn(text, 'Contents')) {
        const bytes = Number(textIn(one, 'Size') ?? 0);
        const object = { bytes, atMs: this.#time(textIn(one, 'LastModified')), etag: textIn(one, 'ETag') ?? '' };
        onObject(textIn(one, 'Key') ?? '', object);
      }
  }

  /** The text of an object; undefined when there is none. */
  async get(key: string, signal?: AbortSignal): Promise<string | undefined> {
    const { status, text } = await this.#ask({ method: 'GET', key, signal }, [404]);
    return status === 404 ? undefined : text;
  }

  /** Undefined when there is none. */
  async head(key: string, signal?: AbortSignal): Promise<S3Object | undefined> {
    const { status, headers } = await this.#ask({ method: 'HEAD', key, signal }, [404]);
    if (status === 404) return undefined;
    const bytes = Number(headers.get('content-length') ?? 0);
    return { bytes, atMs: this.#time(headers.get('last-modified')), etag: headers.get('etag') ?? '' };
  }

  /** Removes objects, a thousand with each request. Those that are not there are none the less gone. */
  async remove(keys: readonly string[], signal?: AbortSignal): Promise<void> {
    for (let at = 0; at < keys.length; at += MOST_REMOVED) {
      signal?.throwIfAborted();
      const some = keys.slice(at, at + MOST_REMOVED).map((key) => `<Object><Key>${escaped(key)}</Key></Object>`);
      const body = `<Delete><Quiet>true</Quiet>${some.join('')}</Delete>`;
      const { text } = await this.#ask({ method: 'POST', query: { delete: '' }, body, signal });
      const [wrong] = elementsIn(text, 'Error');
      if (wrong !== undefined) throw new StoreAway(`the bucket removes nothing: ${textIn(wrong, 'Code') ?? 'error'}`);
    }
  }

  /** Uploads of one object, or of all that begin with `prefix`. Some stores answer for the very name alone. */
  async uploads(prefix: string, signal?: AbortSignal): Promise<S3Upload[]> {
    const found: S3Upload[] = [];
    const asked = { method: 'GET', query: { uploads: '', prefix }, signal } as const;
    for await (const text of this.#pages(asked, { goOn: UPLOADS_GO_ON }))
      for (const one of elementsIn(text, 'Upload')) {
        const atMs = this.#time(textIn(one, 'Initiated'));
        found.push({ key: textIn(one, 'Key') ?? '', id: textIn(one, 'UploadId') ?? '', atMs });
      }
    return found;
  }

  /** What such an upload has. It has nothing when it ended meanwhile. */
  async parts({ key, id }: S3Upload, signal?: AbortSignal): Promise<{ bytes: number; atMs: number }> {
    let [bytes, atMs] = [0, 0];
    const asked = { method: 'GET', key, query: { uploadId: id }, signal } as const;
    for await (const text of this.#pages(asked, { goOn: PARTS_GO_ON, besides: [404] }))
      for (const part of elementsIn(text, 'Part')) {
        bytes += Number(textIn(part, 'Size') ?? 0);
        atMs = Math.max(atMs, this.#time(textIn(part, 'LastModified')));
      }
    return { bytes, atMs };
  }

  /** Ends such an upload. */
  async abort({ key, id }: Pick<S3Upload, 'key' | 'id'>): Promise<void> {
    await this.#ask({ method: 'DELETE', key, query: { uploadId: id } }, [404]);
  }

  /**
   * The pages of an answer; `goOn`: which elements of one say where the next begins. Ends at a status of `besides`, and
   * rejects with StoreTooLarge beyond `most` pages.
   */
  async *#pages(asked: BucketRequest, { goOn, besides = [], most = MOST_PAGES }: PageOptions): AsyncGenerator<string> {
    let from: Record<string, string> = {};
    for (let page = 0; page < most; page += 1) {
      const { status, text } = await this.#ask({ ...asked, query: { ...asked.query, ...from } }, besides);
      if (besides.includes(status)) return;
      yield text;
      from = {};
      for (const [parameter, element] of Object.entries(goOn)) {
        const mark = textIn(text, element) ?? '';
        if (mark !== '') from[parameter] = mark;
      }
      if (textIn(text, 'IsTruncated') !== 'true' || Object.keys(from).length === 0) return;
    }
    const what = asked.query?.prefix ?? asked.key ?? '';
    throw new StoreTooLarge(`the bucket has more than ${most},000 objects, uploads or parts below ${what}`);
  }

  #time(text: string | null | undefined): number {
    const at = Date.parse(text ?? '');
    // What cannot be read is young: it stays.
    return Number.isNaN(at) ? Date.now() : at - this.#aheadMs;
  }

  async #ask(asked: BucketRequest, besides: readonly number[] = []): Promise<BucketReply> {
    const { signal } = asked;
    for (let tried = 1; ; tried += 1) {
      let why: string;
      try {
        if (tried > 1) await delay(AGAIN_MS * tried, undefined, signal === undefined ? {} : { signal });
        const answered = await this.#turns.run(() => this.#send(asked), signal === undefined ? {} : { signal });
        const { status, text } = answered;
        if (status < 300 || besides.includes(status)) return answered;
        why = `${status} ${textIn(text, 'Code') ?? ''}`.trim();
        if (status < 500 && status !== 429) tried = TRIES;
      } catch (error) {
        if (signal?.aborted) throw new StoreAway('the bucket did not answer in time', { cause: signal.reason });
        why = errorText(error);
      }
      if (tried >= TRIES) throw new StoreAway(`the bucket answers ${asked.method} with ${why}`);
    }
  }

  async #send({ method, key, query = {}, body, signal }: BucketRequest): Promise<BucketReply> {
    this.#requests += 1;
    const url = new URL(
      key === undefined ? this.#origin : `${this.#origin}/${key.split('/').map(encodeURIComponent).join('/')}`,
    );
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const { accessKey, secretKey, region } = this.#bucket;
    const headers: Record<string, string> = {
      'x-amz-content-sha256': createHash('sha256')
        .update(body ?? '')
        .digest('hex'),
    };
    if (body !== undefined) headers['content-md5'] = createHash('md5').update(body).digest('base64');
    const signer = new AwsV4Signer({
      method,
      url: url.href,
      headers,
      accessKeyId: accessKey,
      secretAccessKey: secretKey,
      service: 's3',
      region,
      cache: this.#keys,
    });
    const signed = await signer.sign();
    const timeout = AbortSignal.timeout(REQUEST_MS);
    const response = await fetch(signed.url, {
      method,
      headers: signed.headers,
      redirect: 'error',
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      ...(body === undefined ? {} : { body }),
    });
    const bytes = await readAtMost(response.body ?? Readable.from([]), MOST_ANSWER);
    if (bytes === undefined) throw new Error(`more than ${MOST_ANSWER} bytes`);
    this.#compareClocks(response.headers.get('date'));
    return { status: response.status, headers: response.headers, text: bytes.toString('utf8') };
  }

  /** Ages are told by this machine's clock, and the bucket's may be another. */
  #compareClocks(date: string | null): void {
    const aheadMs = Date.parse(date ?? '') - Date.now();
    if (!Number.isNaN(aheadMs) && Math.abs(aheadMs - this.#aheadMs) > SAME_CLOCK_MS) this.#aheadMs = aheadMs;
  }
}
