/** What listens inside a container: how that is asked, and what follows from it for its user. Pure functions. */

/** Whatever there is of `ss`, `netstat` and the kernel's own tables (Linux, proc(5)). */
export const LISTENERS =
  'ss -H -l -t -n -p 2>/dev/null || netstat -l -t -n -p 2>/dev/null || cat /proc/net/tcp /proc/net/tcp6 2>/dev/null';

/** One that listens. */
interface InsideListener {
  /** The name of its program; undefined where that is not known. */
  readonly program: string | undefined;
  readonly host: string;
  readonly port: number;
}

const SS = /^LISTEN\s+\S+\s+\S+\s+(\S+):([0-9]+)\s+\S+(?:\s+users:\(\("([^"]+)")?/;
const NETSTAT = /^tcp6?\s+\S+\s+\S+\s+(\S+):([0-9]+)\s+\S+\s+LISTEN(?:\s+(?:[0-9]+\/(\S+)|-))?/;
/** State 0A is LISTEN. */
const KERNEL = /^\s*[0-9]+:\s+([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})\s+\S+\s+0A\s/;
/** The engine's own resolver listens there. */
const RESOLVER = '127.0.0.11';
const MOST_NAMED = 5;

/** What `LISTENERS` printed, without SSH servers and what is the engine's. */
export function insideListeners(text: string): readonly InsideListener[] {
  const found = new Map<string, InsideListener>();
  for (const line of text.split('\n').slice(0, 1000)) {
    const listener = listenerOf(line);
    if (listener === undefined || listener.host === RESOLVER) continue;
    if (listener.port === 22 || listener.program === 'sshd') continue;
    found.set(`${listener.program} ${listener.host} ${listener.port}`, listener);
  }
  return [...found.values()];
}

function listenerOf(line: string): InsideListener | undefined {
  const [, host, port, program] = SS.exec(line) ?? NETSTAT.exec(line) ?? [];
  // Names are what programs choose to be called.
  const name = program?.replace(/[^\x21-\x7e]/g, '').slice(0, 40);
  if (host !== undefined) return { program: name, host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
  const [, address, hexPort] = KERNEL.exec(line) ?? [];
  if (address === undefined) return undefined;
  return { program: undefined, host: hostOf(address), port: Number.parseInt(hexPort ?? '', 16) };
}

/** An address as the kernel's tables have it: words of 32 bits, each of the machine's order, which is little-endian. */
function hostOf(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) => [...Buffer.from(word, 'hex')].reverse());
  if (bytes.length === 4) return bytes.join('.');
  const isAny = bytes.every((byte) => byte === 0);
  if (isAny) return '::';
  return bytes.slice(0, 15).every((byte) => byte === 0) && bytes[15] === 1 ? '::1' : 'an IPv6 address';
}

/** What its user reads of them, who waits for `port`; empty when nothing listens. */
export function listenersSentence(listeners: readonly InsideListener[], port: number): string {
  if (listeners.length === 0) return 'Nothing listens inside the container.';
  const named = listeners
    .slice(0, MOST_NAMED)
    .map(({ program = 'something', host, port }) => `${program} listens on ${host}:${port}`);
  const here = listeners.find((each) => each.port === port && /^127\.|^::1$/.test(each.host));
  const advice =
    here === undefined ? '' : ` Let it listen on 0.0.0.0:${port}: ${here.host} is reached from inside alone.`;
  return `Inside, ${named.join(', ')}.${advice}`;
}
