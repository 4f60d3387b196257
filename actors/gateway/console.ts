/**
 * The console at `https://<domain>/`: the files of its build, and its page for every address that browsers ask a page
 * of and no route takes, since the page itself says what there is (docs/reference/console.md).
 */
import type { ConsoleFile, ConsoleFiles } from '../../proto/gateway/console-files.ts';
import { pathOf } from '../../proto/gateway/routes.ts';
import type { ProxyReply, ProxyRequest } from '../../proto/gateway/traffic.ts';

const PAGE = '/index.html';
/** Files whose names have a hash. One that is missing here is of another version. */
const ASSETS = '/assets/';

/** Nothing from elsewhere, nothing inline; one script policy, which admits the console's own workers. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "font-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "worker-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types troupe',
].join('; ');

const PERMISSIONS = [
  'publickey-credentials-get=(self)',
  'publickey-credentials-create=(self)',
  'clipboard-write=(self)',
  'camera=()',
  'microphone=()',
  'geolocation=()',
].join(', ');

const HEADERS: readonly (readonly [string, string])[] = [
  ['Content-Security-Policy', POLICY],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
  ['Referrer-Policy', 'no-referrer'],
  ['Permissions-Policy', PERMISSIONS],
  ['X-Content-Type-Options', 'nosniff'],
  ['Accept-Ranges', 'none'],
  ['Vary', 'Accept-Encoding'],
];

/** What the console answers; undefined where it has nothing to say. */
export function consoleReply(files: ConsoleFiles, request: ProxyRequest): ProxyReply | undefined {
  if (request.method !== 'GET' && request.method !== 'HEAD') return undefined;
  const path = pathOf(request.target);
  const file = path === '/' ? files.get(PAGE) : files.get(path);
  if (file !== undefined) return fileReply(file, request);
  const page = files.get(PAGE);
  const isAsked = !path.startsWith(ASSETS) && request.field('accept')?.includes('text/html') === true;
  return isAsked && page !== undefined ? fileReply(page, request) : undefined;
}

function fileReply(file: ConsoleFile, request: ProxyRequest): ProxyReply {
  const { type, tag, isForever } = file;
  const { bytes, encoding } = encoded(file, request.field('accept-encoding') ?? '');
  // A strong validator names the bytes as they are sent (RFC 9110, section 8.8.3).
  const etag = encoding === undefined ? `"${tag}"` : `"${tag}-${encoding}"`;
  const headers: (readonly [string, string])[] = [
    ...HEADERS,
    ['Cache-Control', isForever ? 'public, max-age=31536000, immutable' : 'no-cache'],
    ['ETag', etag],
  ];
  if (isKnown(request.field('if-none-match'), etag)) return { status: 304, headers, body: '' };
  if (encoding !== undefined) headers.push(['Content-Encoding', encoding]);
  return { status: 200, headers, contentType: type, bytes };
}

function encoded({ bytes, gzip, brotli }: ConsoleFile, accepted: string): { bytes: Buffer; encoding?: 'br' | 'gzip' } {
  const takes = (name: string) => accepts(accepted, name);
  if (brotli !== undefined && takes('br')) return { bytes: brotli, encoding: 'br' };
  return gzip !== undefined && takes('gzip') ? { bytes: gzip, encoding: 'gzip' } : { bytes };
}

/** Whether `Accept-Encoding` names the coding, and not with a weight of zero. */
function accepts(accepted: string, name: string): boolean {
  return accepted.split(',').some((part) => {
    const [coding = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    return coding === name && !parameters.some((text) => /^q=0(?:\.0{0,3})?$/.test(text));
  });
}

/** If-None-Match (RFC 9110, section 13.1.2): weak comparison. */
function isKnown(field: string | undefined, etag: string): boolean {
  if (field === undefined) return false;
  return field.trim() === '*' || field.split(',').some((one) => one.trim().replace(/^W\//, '') === etag);
}
