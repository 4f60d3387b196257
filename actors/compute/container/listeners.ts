/** What listens inside a container: how that is asked, and what follows from it for its user. Pure functions. */

/** Whatever there is of `ss`, `netstat` and the kernel's own tables (Linux, proc(5)), these with who holds sockets. */
export const LISTENERS =
  'ss -H -l -t -n -p 2>/dev/null || netstat -l -t -n -p 2>/dev/null || { cat /proc/net/tcp /proc/net/tcp6; ' +
  'for p in /proc/[0-9]*; do read -r name <$p/comm && echo "program $name"; ls -l $p/fd; done; } 2>/dev/null';

/** One that listens. */
interface InsideListener {
  /** The name of its program; undefined where that is not known. */
  readonly program: string | undefined;
  readonly host: string;
  readonly port: number;
}

const SS = /^LISTEN\s+\S+\s+\S+\s+(\S+):([0-9]{1,5})\s+\S+(?:\s+users:\(\("([^"]+)")?/;
const NETSTAT = /^tcp6?\s+\S+\s+\S+\s+(\S+):([0-9]{1,5})\s+\S+\s+LISTEN(?:\s+(?:[0-9]+\/(\S+)|-))?/;
/** What an address may look like. Whoever owns the container may have put another program in the place of `ss`. */
const HOST = /^[[\]0-9A-Za-z.:*%_-]{1,64}$/;
/** State 0A is LISTEN. */
const KERNEL = /^\s*[0-9]+:\s+([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})\s+\S+\s+0A(?:\s+\S+){5}\s+([0-9]+)/;
const PROGRAM = /^program (.+)$/;
const SOCKET = /socket:\[([0-9]+)\]$/;
/** The engine's own resolver listens there. */
const RESOLVER = '127.0.0.11';
const MOST_NAMED = 5;
const MOST_LINES = 10_000;

/** What `LISTENERS` printed, without SSH servers and what is the engine's. */
export function insideListeners(text: string): readonly InsideListener[] {
  const found = new Map<string, InsideListener>();
  const lines = text.split('\n').slice(0, MOST_LINES);
  const owners = ownersOf(lines);
  for (const line of lines) {
    const listener = listenerOf(line, owners);
    if (listener === undefined || listener.host === RESOLVER) continue;
    if (listener.port === 22 || listener.program === 'sshd') continue;
    found.set(`${listener.program} ${listener.host} ${listener.port}`, listener);
  }
  return [...found.values()];
}

/** The programs that hold sockets, by the sockets' numbers. */
function ownersOf(lines: readonly string[]): ReadonlyMap<string, string> {
  const owners = new Map<string, string>();
  let program: string | undefined;
  for (const line of lines) {
    program = PROGRAM.exec(line)?.[1] ?? program;
    const socket = SOCKET.exec(line)?.[1];
    if (program !== undefined && socket !== undefined) owners.set(socket, program);
  }
  return owners;
}

/** Names are what programs choose to be called. */
const plain = (name: string | undefined) => name?.replace(/[^\x21-\x7e]/g, '').slice(0, 40) || undefined;

function listenerOf(line: string, owners: ReadonlyMap<string, string>): InsideListener | undefined {
  const [, host, port, program] = SS.exec(line) ?? NETSTAT.exec(line) ?? [];
  if (host !== undefined) {
    if (!HOST.test(host)) return undefined;
    return { program: plain(program), host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
  }
  const [, address, hexPort, socket = ''] = KERNEL.exec(line) ?? [];
  if (address === undefined) return undefined;
  const owner = plain(owners.get(socket));
  return { program: owner, host: hostOf(address), port: Number.parseInt(hexPort ?? '', 16) };
}

/** An address as the kernel's tables have it: words of 32 bits, each of the machine's order, which is little-endian. */
function hostOf(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) => [...Buffer.from(word, 'hex')].reverse());
  if (bytes.length === 4) return bytes.join('.');
  const isAny = bytes.every((byte) => byte === 0);
  if (isAny) return '::';
  return bytes.slice(0, 15).every((byte) => byte === 0) && bytes[15] === 1 ? '::1' : 'an IPv6 address';
}

const isV6 = (host: string) => host.includes(':');

/** What its user reads of them, who waits for `port`; empty when nothing listens. */
export function listenersSentence(listeners: readonly InsideListener[], port: number): string {
  if (listeners.length === 0) return 'Nothing listens inside the container.';
  const named = listeners
    .slice(0, MOST_NAMED)
    .map(({ program = 'something', host, port }) => `${program} listens on ${isV6(host) ? `[${host}]` : host}:${port}`);
  const here = listeners.find((each) => each.port === port && /^127\.|^::1$/.test(each.host));
  const advice =
    here === undefined ? '' : ` Let it listen on 0.0.0.0:${port}: ${here.host} is reached from inside alone.`;
  return `Inside, ${named.join(', ')}.${advice}`;
}
