/**
 * Which requests take part in the cache, and which responses are kept: by docs/reference/gateway-cache.md, and by
 * RFC 9111 where that is silent. Where both speak, the stricter counts.
 */

import type { Field } from '../../wire/h1/fields.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';
import { listOf } from '../../wire/h1/syntax.ts';
import type { CacheRequest } from '../h1/cache-hook.ts';
import type { ResponseHead } from '../h1/response-head.ts';
import { dateOf, directivesOf, secondsIn, secondsOf } from './cache-control.ts';

/** Interface section 4.5. */
export const TTL_MS = 30_000;
export const MAX_BODY = 1_048_576;

/** What a request asks of the cache. */
export interface Question {
  readonly host: string;
  /** As sent; there is no query. */
  readonly path: string;
  /** The host of the origin. */
  readonly origin: string;
  /** What else an answer may hang on: scheme, port, origin, and the fields that choose a representation. */
  readonly variant: string;
  /**
   * That, with all else an origin sees of this very client: its address, program and page. What an origin does not say
   * is for all is kept under this.
   */
  readonly own: string;
  /** The operator says of this origin that its answers are for all clients alike. */
  readonly isForAll: boolean;
  /** Only what says itself how long it is fresh is kept. */
  readonly isExplicit: boolean;
  /** Address of the client. */
  readonly address: string;
  /** Entity tags that the client has, as it wrote them (RFC 9110, section 13.1.2). */
  readonly ifNoneMatch: string | undefined;
  /** Only what is meant for everybody may answer it, or be kept from it. */
  readonly isPersonal: boolean;
  /** Whether a stored response may answer it at all. */
  readonly reads: boolean;
  /** Most seconds of age, and least seconds of freshness left, that the client takes. */
  readonly maxAge: number;
  readonly minFresh: number;
}

/** Methods that change nothing (RFC 9110, section 9.2.1); any other evicts its path. */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** Whether a request of this method evicts what is kept for its path (RFC 9111, section 4.4). */
export function isMutating(method: string): boolean {
  return !SAFE.has(method);
}

/** Paths on the request's own host that the answer to a mutation names as changed (RFC 9111, section 4.4). */
export function pathsNamedBy(request: RequestHead, response: ResponseHead): string[] {
  if (response.status >= 400) return [];
  const paths: string[] = [];
  const base = `http://${request.host}${request.port === undefined ? '' : `:${request.port}`}${request.target}`;
  if (!URL.canParse(base)) return [];
  const { host } = new URL(base);
  for (const { name, value } of response.fields) {
    if (name !== 'location' && name !== 'content-location') continue;
    if (paths.length === MAX_NAMED || !URL.canParse(value, base)) continue;
    const url = new URL(value, base);
    if (url.host === host) paths.push(url.pathname);
  }
  return paths;
}

const MAX_NAMED = 4;

/** Fields that are part of the variant. */
const KEYED = ['accept', 'accept-language', 'accept-encoding'] as const;

/** Of the harmless fields those that an origin sees, and may answer by: part of what is kept for one client alone. */
const SEEN = new Set([
  'user-agent',
  'referer',
  'upgrade-insecure-requests',
  'dnt',
  'sec-gpc',
  'priority',
  'sec-fetch-site',
  'sec-fetch-mode',
  'sec-fetch-user',
  'sec-fetch-dest',
  'sec-ch-ua',
  'sec-ch-ua-mobile',
  'sec-ch-ua-platform',
]);

/**
 * Fields that do not choose what a request gets. A request with any other field has nothing to do with the cache: what
 * an origin makes of a field that the key does not know would be given to everybody.
 */
const HARMLESS = new Set([
  ...SEEN,
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'cache-control',
  'pragma',
  'cookie',
  'te',
]);

/** A client's word in these is dropped before the origin sees it (transports/gateway/h1/write-heads.ts). */
const DROPPED = /^(?:x[-_]forwarded[-_](?:for|proto|host|port|server|prefix)|forwarded|x[-_]real[-_]ip)$/;

/** What a page that reflects these fields could be made to say. */
const UNQUIET = /["'<>\\`{}|^]/;
const MAX_VALUE = 1024;

/** Names, beside the known ones, of request fields that do not choose what a request gets. */
export type MoreHarmless = ReadonlySet<string>;

/** The question of a request; undefined: nothing for the cache. `isForAll`: what the operator says of its origin. */
export function questionOf(request: CacheRequest, more?: MoreHarmless, isForAll = false): Question | undefined {
  const { head, origin, target, isEncrypted, address } = request;
  const isExplicit = request.mode === 'explicit';
  if (head.method !== 'GET' || head.framing.kind !== 'none' || head.upgrade.length > 0 || head.expectsContinue)
    return undefined;
  if (head.host === '' || head.target.includes('?')) return undefined;

  let accept = '';
  let language = '';
  let encoding = '';
  let seen = '';
  let ifNoneMatch: string | undefined;
  let since = false;
  let isPersonal = false;
  let control: string[] | undefined;
  let isPragma = false;
  for (const { name, value } of head.fields) {
    switch (name) {
      case 'accept':
        accept += `${value},`;
        break;
      case 'accept-language':
        language += `${value},`;
        break;
      case 'accept-encoding':
        encoding += `${value},`;
        break;
      case 'host':
        // An origin may show it as it was written; the key has it in lower case without a final dot.
        if (value !== (head.port === undefined ? head.host : `${head.host}:${head.port}`)) return undefined;
        break;
      case 'cookie':
        if (hasToken(value)) return undefined;
        isPersonal = true;
        break;
      case 'cache-control':
        if (control === undefined) control = [value];
        else control.push(value);
        break;
      case 'pragma':
        isPragma = value.toLowerCase().includes('no-cache');
        break;
      case 'connection':
        // A field that it names does not reach the origin, though it is in the key.
        if (!isPlainConnection(value)) return undefined;
        break;
      case 'user-agent':
      case 'referer':
        if (value.length > MAX_VALUE || UNQUIET.test(value)) return undefined;
        seen += `${name}:${value}\n`;
        break;
      case 'if-none-match':
        ifNoneMatch = ifNoneMatch === undefined ? value : `${ifNoneMatch},${value}`;
        break;
      case 'if-modified-since':
        since = true;
        break;
      default:
        if (!HARMLESS.has(name) && !DROPPED.test(name) && !more?.has(name)) return undefined;
        if (value.length > MAX_VALUE) return undefined;
        if (SEEN.has(name)) seen += `${name}:${value}\n`;
    }
  }
  if (accept.length + language.length + (ifNoneMatch?.length ?? 0) > MAX_VALUE) return undefined;
  // A date counts for nothing beside entity tags (RFC 9110, section 13.1.3); alone it is for the origin.
  if (since && ifNoneMatch === undefined) return undefined;
  const codings = codingsOf(encoding);
  if (codings === undefined) return undefined;

  let reads = true;
  let maxAge = Number.POSITIVE_INFINITY;
  let minFresh = 0;
  if (control !== undefined) {
    const directives = directivesOf(control);
    if (directives.has('no-store')) return undefined;
    maxAge = secondsIn(directives, 'max-age') ?? maxAge;
    minFresh = secondsIn(directives, 'min-fresh') ?? minFresh;
    if (directives.has('no-cache') || maxAge === 0) reads = false;
  } else if (isPragma) reads = false;
  const variant =
    `${isEncrypted ? 's' : ''}${isExplicit ? 'e' : ''}:${head.port ?? ''} ` +
    `${origin.host}:${origin.port}${target}\n${codings}\n${language}\n${accept}`;
  const own = `${variant}\n${address}\n${seen}`;
  return {
    host: head.host,
    path: head.target,
    origin: origin.host,
    variant,
    own,
    isForAll,
    isExplicit,
    address,
    isPersonal,
    reads,
    maxAge,
    minFresh,
    ifNoneMatch,
  };
}

const TAG = /(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")/;
const TAGS = new RegExp(`^${TAG.source}(?:[ \\t]*,[ \\t]*${TAG.source})*$`);

/** Whether an If-None-Match holds an entity tag, by weak comparison (RFC 9110, sections 8.8.3.2 and 13.1.2). */
export function hasTag(ifNoneMatch: string, tag: string | undefined): boolean {
  const text = ifNoneMatch.trim();
  if (text === '*') return true;
  const [whole, opaque] = TAG.exec(tag ?? '') ?? [];
  if (whole !== tag || opaque === undefined || !TAGS.test(text)) return false;
  return text.match(/"[^"]*"/g)?.some((one) => one === opaque) ?? false;
}

/** A cookie called `token`, `__Host-token` or `__Host-troupe`, however it is quoted or parted from others. */
function hasToken(cookie: string): boolean {
  return /(?:^|[;,\s"])(?:(?:__Host-)?token|__Host-troupe)\s*(?:=|;|,|$)/i.test(cookie);
}

function isPlainConnection(value: string): boolean {
  return value === 'keep-alive' || listOf(value).every((option) => option === 'keep-alive' || option === 'close');
}

const CODINGS = new Set(['gzip', 'deflate', 'br', 'zstd', 'compress', 'x-gzip', 'identity']);
const known = new Map<string, string | undefined>();
const MAX_KNOWN = 256;

/**
 * Accept-Encoding in one writing: known codings in the order of the alphabet. Undefined when it weighs or excludes
 * some: what an origin makes of that is its own.
 */
function codingsOf(value: string): string | undefined {
  if (value === '') return '';
  if (known.has(value)) return known.get(value);
  const codings = listOf(value);
  const plain = codings.every((coding) => CODINGS.has(coding)) ? [...new Set(codings)].sort().join(',') : undefined;
  if (known.size >= MAX_KNOWN) known.clear();
  if (value.length <= MAX_VALUE) known.set(value, plain);
  return plain;
}

/** How long a response may be kept. */
export interface Keeping {
  /** Ms of freshness left when its head came. */
  readonly freshMs: number;
  /** Its age by then, ms (RFC 9111, section 4.2.3). */
  readonly ageMs: number;
  /** Whether it may answer, and come from, requests with a cookie. */
  readonly isPublic: boolean;
  /** Whether it may answer other clients. */
  readonly isShared: boolean;
}

/** When a response came. */
interface Timing {
  /** Unix ms now. */
  readonly wallMs: number;
  /** Ms from the request to the head. */
  readonly delayMs: number;
}

/** Fields that speak to caches: the strictest word of all of them counts (RFC 9213 for the last two). */
const CONTROLS = ['cache-control', 'cdn-cache-control', 'surrogate-control'];
const FORBIDDING = ['no-store', 'no-cache', 'private'];
/** Bodies that are never whole. */
const STREAMS = /^(?:text\/event-stream|multipart\/)/i;
const MAX_VARY = 20;

/** Whether a response to `question` may be kept, and for how long; a string says why not. */
export function keepingOf(
  question: Pick<Question, 'isPersonal' | 'isForAll' | 'isExplicit'>,
  response: ResponseHead,
  { wallMs, delayMs }: Timing,
  more?: MoreHarmless,
): Keeping | string {
  if (response.status !== 200) return 'a status other than 200';
  const { framing } = response;
  // Without a length its end cannot be told from a breakdown.
  if (framing.kind === 'until_close') return 'a body without an end of its own';
  if (framing.kind === 'length' && framing.length > MAX_BODY) return 'a body that is too large';
  const values = new Map<string, string[]>();
  for (const { name, value } of response.fields) {
    const before = values.get(name);
    if (before === undefined) values.set(name, [value]);
    else before.push(value);
  }
  if (values.has('set-cookie') || values.has('set-cookie2')) return 'a Set-Cookie';
  if (values.has('content-range')) return 'a part of a whole';
  if (values.get('content-type')?.some((type) => STREAMS.test(type))) return 'a stream';
  const varies = variesBy(values.get('vary') ?? [], more);
  if (varies === undefined) return 'a Vary that the key does not know';

  const controls = CONTROLS.map((name) => directivesOf(values.get(name) ?? []));
  for (const directives of controls)
    for (const name of FORBIDDING) if (directives.has(name)) return `Cache-Control: ${name}`;
  const [own] = controls;
  if (own?.size === 0 && values.get('pragma')?.some((value) => value.toLowerCase().includes('no-cache')))
    return 'Pragma: no-cache';
  const isPublic = own !== undefined && (own.has('public') || own.has('s-maxage'));
  if (question.isPersonal && !isPublic) return 'a cookie came, and nothing says that the response is for everybody';

  const dates = (values.get('date') ?? []).map((text) => dateOf(text) ?? wallMs);
  const lifetimes = controls.map((directives) => secondsIn(directives, 's-maxage') ?? secondsIn(directives, 'max-age'));
  const expires = values.get('expires');
  // No heuristic freshness (RFC 9111, section 4.2.2): whoever says nothing may have changed by the next request.
  if (question.isExplicit && lifetimes[0] === undefined && expires === undefined)
    return 'it does not say how long it is fresh';
  if (lifetimes[0] === undefined && expires !== undefined)
    lifetimes.push(Math.min(...expires.map((text) => (dateOf(text) ?? 0) - Math.max(wallMs, ...dates))) / 1000);
  const said = lifetimes.filter((seconds) => seconds !== undefined);
  const lifetimeMs = said.length > 0 ? 1000 * Math.min(...said) : TTL_MS;
  // In doubt it is older (RFC 9111, section 4.2.3). Dates tell whole seconds.
  // Of an Age with several members the first counts, and one that is none says nothing (RFC 9111, section 5.1).
  const age = secondsOf((values.get('age') ?? []).join(',').split(',', 1)[0]?.trim() ?? '');
  const apparentMs = 1000 * Math.floor((wallMs - Math.min(wallMs, ...dates)) / 1000);
  const ageMs = Math.max(apparentMs, 1000 * (age || 0) + delayMs);
  const freshMs = Math.min(TTL_MS, lifetimeMs - ageMs);
  // A second is the least that headers can tell.
  if (freshMs < 1000) return 'no longer fresh when it came';
  // What an origin says nothing of may hang on all that it sees, the client's address too.
  const isMarked = isPublic || said.length > 0 || question.isForAll;
  return { freshMs, ageMs, isPublic, isShared: isMarked && varies === 'variant' };
}

/**
 * Where all is that a response varies by: in the variant, or in no request that takes part (those have no fields but
 * the harmless, the keyed, and the dropped ones); in what is kept for one client alone; or, undefined, nowhere.
 */
function variesBy(vary: readonly string[], more: MoreHarmless | undefined): 'variant' | 'own' | undefined {
  const names = vary.flatMap(listOf);
  if (names.length > MAX_VARY) return undefined;
  let where: 'variant' | 'own' = 'variant';
  for (const name of names) {
    if (KEYED.some((keyed) => keyed === name)) continue;
    if (SEEN.has(name) || DROPPED.test(name)) where = 'own';
    else if (name === '*' || name === 'if-none-match' || HARMLESS.has(name) || more?.has(name)) return undefined;
  }
  return where;
}

/** Fields of a kept response that are not sent on: the first is put anew, the others are for us alone. */
const REPLACED = new Set(CONTROLS);
const NO_STORE: Field = { name: 'cache-control', value: 'no-store', line: 'Cache-Control: no-store' };

/**
 * Fields of a kept response as clients get them. They keep no copies of their own, unless it says itself how long it is
 * fresh and nothing else is kept here: then its words are theirs, too (RFC 9111, section 5.2).
 */
export function fieldsForClients({ fields, hopByHop }: ResponseHead, wallMs: number, isExplicit = false): Field[] {
  const kept = fields.filter(({ name }) => (isExplicit || !REPLACED.has(name)) && !hopByHop.has(name));
  if (!kept.some(({ name }) => name === 'date')) {
    const value = new Date(wallMs).toUTCString();
    kept.push({ name: 'date', value, line: `Date: ${value}` });
  }
  return isExplicit ? kept : [...kept, NO_STORE];
}
