/** The access log in the combined format that log readers know, with the time taken and the origin behind it. */
import type { AccessEntry } from '../../proto/gateway/traffic.ts';

/** One line of an entry. What clients sent is quoted, so that no request can write a line of its own. */
export function accessLine(entry: AccessEntry, now: Date): string {
  const { address, method, target, minor, status, bytes, referer, userAgent, host, ms, upstream } = entry;
  const request = `${method} ${redactQuery(target)} HTTP/1.${minor}`;
  return (
    `${quoted(address) || '-'} - - [${logTime(now)}] "${quoted(request)}" ${status} ${bytes} ` +
    `"${quoted(redactQuery(referer)) || '-'}" "${quoted(userAgent) || '-'}" ${quoted(host) || '-'} ` +
    `${ms.toFixed(1)}ms ${upstream || '-'}`
  );
}

/** Parameters that hold what lets somebody in, as they are called after decoding. */
const SECRET = /(?:token|secret|password|signature|api_?key)$/i;

/** The same within a value that is an address itself, such as the one that the console leads back to. */
const INNER = /[?&;][^=&;?]*(?:token|secret|password|signature|api_?key)=/i;

/** Tokens come in queries where headers are impossible, and from there into referers: they are kept out of the log. */
function redactQuery(target: string): string {
  const query = target.indexOf('?');
  if (query < 0) return target;
  const parts = target.slice(query + 1).split(/([&;#])/);
  const shown = parts.map((part) => {
    const equals = part.indexOf('=');
    if (equals < 0) return part;
    const isSecret = SECRET.test(decoded(part.slice(0, equals))) || INNER.test(decoded(part.slice(equals + 1)));
    return isSecret ? `${part.slice(0, equals)}=...` : part;
  });
  return target.slice(0, query + 1) + shown.join('');
}

function decoded(name: string): string {
  return name
    .replace(/%([0-9a-f]{2})/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)))
    .trim();
}

/** Quotes, backslashes, controls and anything beyond ASCII are written as their codes. */
function quoted(text: string): string {
  return text.replace(/[^ !#-[\]-~]/g, (letter) => `\\x${letter.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `10/Oct/2000:13:55:36 +0000` */
function logTime(now: Date): string {
  const two = (n: number) => String(n).padStart(2, '0');
  const time = [now.getUTCHours(), now.getUTCMinutes(), now.getUTCSeconds()].map(two).join(':');
  return `${two(now.getUTCDate())}/${MONTHS[now.getUTCMonth()]}/${now.getUTCFullYear()}:${time} +0000`;
}
