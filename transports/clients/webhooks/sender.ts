/**
 * Sends to webhooks. The name is resolved once for each request, every address of it is checked, and the connection
 * goes to the address that was checked: an answer that changes in between leads nowhere else.
 */
import { Resolver } from 'node:dns/promises';
import { type IncomingMessage, request as plainRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { isIP } from 'node:net';
import { errorText } from '../../../lib/errors.ts';
import { anySignal, withTimeout } from '../../../lib/waiting.ts';
import { WebhookError, type WebhookRequest, type WebhookSender } from '../../../proto/ports/webhooks.ts';
import { isCallablePort, isPublic, type Networks } from './targets.ts';

/** For all of a request. */
const TIMEOUT_MS = 10_000;
/** For one try of a resolver, of two. */
const RESOLVE_MS = 2000;
/** How much of an answer's body is read: it is not looked at, but a receiver may want to have sent it. */
const MOST_READ = 4096;
const MAX_HEADER_BYTES = 16 * 1024;
/** Of one name; more are not looked at, and the name is not called. */
const MOST_ADDRESSES = 32;

interface SenderOptions {
  /** Networks that are called although they are not public, also without TLS. */
  readonly allowed: Networks;
  /** Resolvers to ask; none: the system's. */
  readonly servers?: readonly string[];
  /** Certificates of authorities that are trusted instead of the system's. */
  readonly ca?: string;
  /** Default 10,000 ms. */
  readonly timeoutMs?: number;
  /** The addresses of a name; for tests. */
  readonly resolve?: (hostname: string) => Promise<readonly string[]>;
}

/** Where a request goes. */
interface WebhookTarget {
  readonly url: URL;
  readonly address: string;
}

/** Makes the sender. */
export function webhookSender(options: SenderOptions): WebhookSender {
  const { timeoutMs = TIMEOUT_MS } = options;
  const resolve = options.resolve ?? resolver(options.servers ?? []);
  const target = (url: string) => findTarget(url, options.allowed, resolve);
  return {
    check: async (url) => {
      await withTimeout(target(url), timeoutMs, tooLate);
    },
    send: async (request, signal) => {
      const late = AbortSignal.timeout(timeoutMs);
      const any = anySignal([signal, late]);
      try {
        const found = await withTimeout(target(request.url), timeoutMs, tooLate);
        any.signal.throwIfAborted();
        return await exchange(found, request, any.signal, options.ca);
      } catch (error) {
        signal.throwIfAborted();
        if (late.aborted) return tooLate();
        throw error;
      } finally {
        any.release();
      }
    },
  };
}

function tooLate(): never {
  throw new WebhookError('timeout', 'It did not answer in time.');
}

/** Finds the address to connect to. Rejects with WebhookError. */
async function findTarget(
  text: string,
  isAllowed: Networks,
  resolve: (hostname: string) => Promise<readonly string[]>,
): Promise<WebhookTarget> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    throw new WebhookError('forbidden', 'It is no address with https://.');
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    throw new WebhookError('forbidden', 'It must have no user name, password or fragment.');
  const isTls = url.protocol === 'https:';
  const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port);
  if (!isCallablePort(port)) throw new WebhookError('forbidden', `Port ${port} is not called.`);
  // The parser has made one form of all ways to write an IPv4 address.
  const hostname = url.hostname.replace(/^\[|\]$/g, '');
  const addresses = isIP(hostname) === 0 ? await resolve(hostname) : [hostname];
  const [address] = addresses;
  if (address === undefined) throw new WebhookError('unreachable', `${hostname} has no address.`);
  // All of them: which is taken must not depend on luck.
  for (const one of addresses) {
    if (isAllowed(one)) continue;
    if (!isPublic(one)) throw new WebhookError('forbidden', `${hostname} is not in the public internet.`);
    if (!isTls) throw new WebhookError('forbidden', 'Without TLS nothing is sent: use https://.');
  }
  return { url, address };
}

/** Asks for the addresses of a name, IPv4 first. No thread of the system's is held meanwhile. */
function resolver(servers: readonly string[]) {
  const dns = new Resolver({ timeout: RESOLVE_MS, tries: 2 });
  if (servers.length > 0) dns.setServers(servers);
  return async (hostname: string): Promise<string[]> => {
    const found = await Promise.all([addressesOf(dns.resolve4(hostname)), addressesOf(dns.resolve6(hostname))]);
    const addresses = found.flatMap((one) => (Array.isArray(one) ? one : []));
    const [failure] = found.filter((one) => !Array.isArray(one));
    if (addresses.length > MOST_ADDRESSES)
      throw new WebhookError('forbidden', `${hostname} has more than ${MOST_ADDRESSES} addresses.`);
    if (addresses.length === 0 && failure !== undefined)
      throw new WebhookError('unreachable', `${hostname} could not be looked up.`, { cause: failure });
    return addresses;
  };
}

/** What is found; nothing when there is no such name; or why it is not known. */
async function addressesOf(answer: Promise<string[]>): Promise<string[] | Error> {
  try {
    return await answer;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENODATA' || code === 'ENOTFOUND') return [];
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** One request, on a connection of its own that ends with it. Rejects with WebhookError. */
function exchange(
  { url, address }: WebhookTarget,
  { headers, body }: WebhookRequest,
  signal: AbortSignal,
  ca: string | undefined,
): Promise<number> {
  const hostname = url.hostname.replace(/^\[|\]$/g, '');
  const bytes = Buffer.from(body);
  const options = {
    method: 'POST',
    host: address,
    port: url.port,
    path: `${url.pathname}${url.search}`,
    headers: { ...headers, host: url.host, 'content-length': String(bytes.length), connection: 'close' },
    agent: false,
    maxHeaderSize: MAX_HEADER_BYTES,
    signal,
  } as const;
  return new Promise((resolve, reject) => {
    let isAnswered = false;
    const answered = (response: IncomingMessage): void => {
      isAnswered = true;
      // It has answered, whatever becomes of the rest.
      const end = () => resolve(response.statusCode ?? 0);
      readSome(response).then(end, end);
    };
    const request =
      url.protocol === 'http:'
        ? plainRequest(options, answered)
        : tlsRequest(
            // The certificate must be for the name, not for the address.
            { ...options, ...(isIP(hostname) === 0 ? { servername: hostname } : {}), ...(ca && { ca }) },
            answered,
          );
    request.on('error', (error) => reject(failure(error)));
    // One that answers with another protocol ends the request without an error.
    request.on('close', () => {
      if (!isAnswered) reject(new WebhookError('unreachable', 'It ended the connection.'));
    });
    request.end(bytes);
  });
}

/** Reads the beginning of the body; the connection ends with what is more. */
async function readSome(response: IncomingMessage): Promise<void> {
  let size = 0;
  for await (const chunk of response) {
    size += chunk instanceof Uint8Array ? chunk.byteLength : 0;
    if (size >= MOST_READ) break;
  }
  response.destroy();
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'It refuses connections.',
  ECONNRESET: 'It ended the connection.',
  EHOSTUNREACH: 'It cannot be reached.',
  ENETUNREACH: 'It cannot be reached.',
  ETIMEDOUT: 'It did not answer in time.',
  CERT_HAS_EXPIRED: 'Its certificate has expired.',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'Its certificate is not of an authority that is trusted.',
  SELF_SIGNED_CERT_IN_CHAIN: 'Its certificate is not of an authority that is trusted.',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'Its certificate is not of an authority that is trusted.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'Its certificate is for another name.',
};

function failure(error: unknown): Error {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ABORT_ERR') return error instanceof Error ? error : new Error(errorText(error));
  return new WebhookError('unreachable', REASONS[code] ?? `It could not be called (${code || 'unknown'}).`, {
    cause: error,
  });
}
