/** Zones and records at Cloudflare, or at whatever speaks its v4 API. */
import { z } from 'zod';
import { type DnsProvider, ProviderError, type ProviderZone } from '../../../proto/ports/dns.ts';
import { call, type ProviderCall } from './answer.ts';

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
