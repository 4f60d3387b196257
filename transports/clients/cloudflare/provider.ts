/** Zones and records at Cloudflare, or at whatever speaks its v4 API. */
import { z } from 'zod';
import { jsonOf, readAtMost } from '../../../lib/input.ts';
import { type DnsProvider, ProviderError, type ProviderZone } from '../../../proto/ports/dns.ts';

/** The provider's own address. */
const DEFAULT_PROVIDER_URL = 'https://api.cloudflare.com/client/v4';
/** Zones a page, the most the API gives; and pages that are read of one token. */
const PER_PAGE = 50;
const MAX_PAGES = 40;

/** Percent-encoded where it becomes part of a path; of dots alone it would lead elsewhere. */
const id = z.string().regex(/^(?!\.{1,2}$)[\x21-\x7e]{1,128}$/);
const dnsName = z
  .string()
  .max(255)
  .transform((name) => name.toLowerCase().replace(/\.$/, ''));
/** The API always says the status; `active` means that the registry delegates the name to the provider. */
const zonesSchema = z.array(z.object({ id, name: dnsName, status: z.string().default('active') }));
const recordsSchema = z.array(
  z.object({ id, name: dnsName, type: z.string(), content: dnsName, comment: z.string().nullish() }),
);
const madeSchema = z.object({ id });

interface ProviderOptions {
  /** The API's base, without a slash at its end. */
  readonly url?: string;
  /** For one call, ms. Default 8,000. */
  readonly timeoutMs?: number;
  /** For all pages of one listing together, ms. Default 20,000. */
  readonly listingMs?: number;
}

/** Makes the provider. */
export function cloudflare(options: ProviderOptions = {}): DnsProvider {
  const { url = DEFAULT_PROVIDER_URL, timeoutMs = 8000, listingMs = 20_000 } = options;
  const ask = (request: ProviderCall) => call(url, request, timeoutMs);

  return {
    zones: async (token, name) => {
      const filter = name === undefined ? '' : `&name=${encodeURIComponent(name)}`;
      const zones = new Map<string, ProviderZone & { readonly status: string }>();
      const until = performance.now() + listingMs;
      for (let page = 1; page <= MAX_PAGES; page++) {
        if (performance.now() > until) throw new ProviderError('unavailable', 'the DNS provider answers too slowly');
        const path = `/zones?page=${page}&per_page=${PER_PAGE}${filter}`;
        const answer = await ask({ method: 'GET', path, token });
        const found = read(zonesSchema, answer.result);
        for (const zone of found) zones.set(zone.id, zone);
        const last = answer.result_info.total_pages;
        // Without a count, a page that is not full is the last.
        if (last === undefined ? found.length < PER_PAGE : page >= last) {
          // Half a list would look as if the user had given zones up.
          if (zones.size < (answer.result_info.total_count ?? 0))
            throw new ProviderError('unavailable', 'the DNS provider left out some of the zones');
          break;
        }
      }
      return [...zones.values()]
        .filter((zone) => zone.status === 'active' && (name === undefined || zone.name === name))
        .map((zone) => ({ id: zone.id, name: zone.name }));
    },
    cnames: async (token, zoneId, name) => {
      const query = new URLSearchParams({ type: 'CNAME', name, per_page: '50' });
      const path = `/zones/${encodeURIComponent(zoneId)}/dns_records?${query}`;
      const { result } = await ask({ method: 'GET', path, token });
      return read(recordsSchema, result)
        .filter((record) => record.type === 'CNAME' && record.name === name)
        .map(({ comment, ...record }) => ({ ...record, comment: comment ?? '' }));
    },
    createCname: async (token, zoneId, { name, content, comment }) => {
      const { result } = await ask({
        method: 'POST',
        path: `/zones/${encodeURIComponent(zoneId)}/dns_records`,
        token,
        // ttl 1 is the API's "automatic". Proxied, the provider would answer in our place.
        body: { type: 'CNAME', name, content, ttl: 1, proxied: false, comment },
      });
      return read(madeSchema, result).id;
    },
    deleteRecord: async (token, zoneId, recordId) => {
      const path = `/zones/${encodeURIComponent(zoneId)}/dns_records/${encodeURIComponent(recordId)}`;
      try {
        await ask({ method: 'DELETE', path, token });
      } catch (error) {
        if (!isGone(error)) throw error;
      }
    },
  };
}

/** 81044: there is no such record. */
function isGone(error: unknown): boolean {
  return error instanceof ProviderError && error.code === 'refused' && error.message.includes('(81044');
}

function read<S extends z.ZodType>(schema: S, result: unknown): z.output<S> {
  const parsed = schema.safeParse(result);
  if (parsed.success) return parsed.data;
  throw new ProviderError('unavailable', "the DNS provider's answer is not what its API promises");
}

/** Largest answer that is read: a page of 50 zones has some 60 KB. */
const MAX_BYTES = 2 * 1024 * 1024;

const apiAnswer = z.object({
  success: z.boolean(),
  errors: z
    .array(z.object({ code: z.number(), message: z.string() }))
    .nullish()
    .transform((errors) => errors ?? []),
  result: z.unknown(),
  result_info: z
    .object({ page: z.number().optional(), total_pages: z.number().optional(), total_count: z.number().optional() })
    .nullish()
    .transform((info) => info ?? {}),
});
/** What every answer is wrapped in. */
type ApiAnswer = z.output<typeof apiAnswer>;

/** Error codes of the API that say the token is at fault, whatever the status. */
const DENIED = new Set([1001, 6003, 6111, 9103, 9106, 9107, 9109, 10_000, 10_001]);
/** A record stands in the way: another of the name, the same, an identical one. */
const EXISTS = new Set([81_053, 81_054, 81_057, 81_058]);

interface ProviderCall {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below the base URL, with its query. */
  readonly path: string;
  readonly token: string;
  readonly body?: unknown;
}

/** Makes one call. Rejects with ProviderError. */
async function call(base: string, { method, path, token, body }: ProviderCall, timeoutMs: number): Promise<ApiAnswer> {
  const url = `${base.replace(/\/+$/, '')}${path}`;
  let response: Response;
  let text: string | undefined;
  try {
    response = await fetch(url, {
      method,
      // A redirect would carry the token to wherever it leads.
      redirect: 'error',
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    // Of one that is too long the rest is not read.
    text = response.body === null ? '' : (await readAtMost(response.body, MAX_BYTES))?.toString('utf8');
  } catch (cause) {
    throw new ProviderError('unavailable', 'the DNS provider does not answer', { cause: nameOf(cause) });
  }
  // Undefined for anything else, such as a page of HTML.
  const { data: parsed } = apiAnswer.safeParse(jsonOf(text ?? ''));
  if (response.ok && parsed?.success === true) return parsed;
  throw errorOf(response, parsed, token);
}

function errorOf(response: Response, answer: ApiAnswer | undefined, token: string): ProviderError {
  const { status } = response;
  const codes = answer?.errors.map(({ code }) => code) ?? [];
  if (status === 429) {
    const retryAfter = secondsOf(response.headers.get('retry-after'));
    const wait = retryAfter === undefined ? '' : ` for ${retryAfter} seconds`;
    return new ProviderError('unavailable', `the DNS provider asks to wait${wait}`, {
      ...(retryAfter === undefined ? {} : { retryAfter }),
    });
  }
  if (status >= 500) return new ProviderError('unavailable', `the DNS provider answers with an error (HTTP ${status})`);
  if (status === 401 || status === 403 || codes.some((code) => DENIED.has(code)))
    return new ProviderError('denied', 'the DNS provider does not accept the token');
  if (answer === undefined)
    return new ProviderError('unavailable', `the DNS provider's answer cannot be read (HTTP ${status})`);
  const said = saidIn(answer, token);
  if (codes.some((code) => EXISTS.has(code)))
    return new ProviderError('exists', `the DNS provider has another record there${said}`);
  return new ProviderError('refused', `the DNS provider refuses${said}`);
}

/** What the provider says, short, on one line, and without the token should it repeat it. */
function saidIn({ errors }: ApiAnswer, token: string): string {
  const [first] = errors;
  if (first === undefined) return '';
  const message = first.message
    .replaceAll(token, '***')
    .replace(/[^\x20-\x7e]+/g, ' ')
    .slice(0, 200);
  return ` (${first.code}: ${message})`;
}

/** Seconds of a Retry-After in either form (RFC 9110, section 10.2.3), at most a day. */
function secondsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^[0-9]{1,9}$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(86_400, Math.max(1, Math.ceil(seconds))) : undefined;
}

/** The kind of a failed fetch. The error itself may hold the request, and with it the token. */
function nameOf(cause: unknown): string {
  if (!(cause instanceof Error)) return 'unknown';
  const inner = cause.cause;
  return inner instanceof Error && 'code' in inner ? `${cause.name} ${String(inner.code)}` : cause.name;
}
