/** One call of the provider's v4 API: bounded in time and size, and every way it can fail as one error. */

import { z } from 'zod';
import { jsonOf, readAtMost } from '../../../lib/input.ts';
import { ProviderError } from '../../../proto/ports/dns.ts';

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

export interface ProviderCall {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below the base URL, with its query. */
  readonly path: string;
  readonly token: string;
  readonly body?: unknown;
}

/** Makes one call. Rejects with ProviderError. */
export async function call(
  base: string,
  { method, path, token, body }: ProviderCall,
  timeoutMs: number,
): Promise<ApiAnswer> {
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
