/** What connections cost in memory, wherever it is: objects of JavaScript, the C heap of their server, and the kernel's own part. */
import { readFileSync } from 'node:fs';

/** What a process, and the kernel for all of them, have in use at one moment, KB. */
export interface Memory {
  /** Objects that JavaScript holds after a collection, and what they hold outside of its heap. */
  readonly liveKb: number;
  /** What is resident of the heap that malloc grows: uWebSockets.js has its own there. */
  readonly nativeKb: number;
  /** Both ends of all TCP connections of this machine; undefined where it may not be read: that takes root. */
  readonly kernelKb: number | undefined;
  /** Anonymous pages of the process, with those that V8 keeps for garbage to come. */
  readonly residentKb: number;
}

/** Looks at process `pid`, which has just collected its garbage and said what is left, bytes. */
export function memoryOf(pid: number | undefined, live: number): Memory {
  const [, heap = ''] = readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^.* \[heap\]$/m);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    liveKb: live / 1024,
    nativeKb: Number(/^Rss:\s+(\d+)/m.exec(heap)?.[1] ?? 0),
    kernelKb: kernelKb(),
    residentKb: Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1]),
  };
}

/** Caches of the kernel whose objects belong to sockets, most of them (slabinfo(5)). Those of TCP are one for each end of a connection. */
const TCP = ['TCP', 'TCPv6'];
const OF_SOCKETS = [...TCP, 'sock_inode_cache', 'filp', 'eventpoll_epi'];
/** Of these each end has one, too; but file systems have a million, which come and go, so they are counted by the ends. */
const SHARED = ['dentry', 'lsm_inode_cache'];
const PAGE_KB = 4;

function kernelKb(): number | undefined {
  let text: string;
  try {
    text = readFileSync('/proc/slabinfo', 'utf8');
  } catch {
    return undefined;
  }
  const caches = new Map<string, { count: number; bytes: number }>();
  for (const line of text.split('\n')) {
    const [name = '', count, , bytes] = line.split(/\s+/);
    caches.set(name, { count: Number(count), bytes: Number(bytes) });
  }
  const of = (name: string) => caches.get(name) ?? { count: 0, bytes: 0 };
  const ends = TCP.reduce((sum, name) => sum + of(name).count, 0);
  const own = OF_SOCKETS.reduce((sum, name) => sum + of(name).count * of(name).bytes, 0);
  const shared = SHARED.reduce((sum, name) => sum + of(name).bytes, 0);
  // What waits in their buffers.
  const pages = Number(/^TCP: .* mem (\d+)$/m.exec(readFileSync('/proc/net/sockstat', 'utf8'))?.[1]);
  return (own + ends * shared) / 1024 + pages * PAGE_KB;
}
