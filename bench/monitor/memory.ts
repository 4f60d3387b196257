/** What connections cost in memory, wherever it is: objects of JavaScript, the C heap of their server, and the kernel's own part. */
import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

/** What a process, and the kernel for all of them, have in use at one moment, KB. */
export interface Memory {
  /** Objects that JavaScript holds after a collection, and what they hold outside of its heap. */
  readonly liveKb: number;
  /** What is in use of the heap that malloc grows: uWebSockets.js has its own there. */
  readonly nativeKb: number;
  /** Both ends of all TCP connections of this machine; NaN where it may not be read. */
  readonly kernelKb: number;
  /** Anonymous pages of the process, with those that V8 keeps for garbage to come. */
  readonly residentKb: number;
}

/** Looks at a process of ours, which has just collected its garbage and said what is left, bytes. */
export function memoryOf(child: ChildProcess, live: number): Memory {
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
  return {
    liveKb: live / 1024,
    nativeKb: mallocKb(child),
    kernelKb: kernelKb(),
    residentKb: Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1]),
  };
}

// A chunk of glibc's malloc (malloc/malloc.c) begins with 8 bytes of the one before it, and its own size with three flags.
const SIZE_AT = 8;
const FLAGS = 7;
const BEFORE_IS_USED = 1;
const SMALLEST = 32;

/**
 * Walks the chunks of a process that is held still meanwhile, and adds up those in use. Its pages would say less: what was freed before leaves holes
 * that are filled first, more of them in a large program than in a small one.
 */
function mallocKb(child: ChildProcess): number {
  child.kill('SIGSTOP');
  try {
    const bytes = brkHeap(child.pid);
    let used = 0;
    let at = 0;
    for (;;) {
      const size = bytes.readUInt32LE(at + SIZE_AT) & ~FLAGS;
      const next = at + size;
      // The last one is what is left.
      if (next + SMALLEST > bytes.length) return used / 1024;
      if (size < SMALLEST) throw new Error('the C heap is none of glibc');
      if ((bytes.readUInt32LE(next + SIZE_AT) & BEFORE_IS_USED) !== 0) used += size;
      at = next;
    }
  } finally {
    child.kill('SIGCONT');
  }
}

function brkHeap(pid: number | undefined): Buffer {
  const maps = readFileSync(`/proc/${pid}/maps`, 'utf8');
  const [, from = '0', to = '0'] = /^([0-9a-f]+)-([0-9a-f]+) .*\[heap\]$/m.exec(maps) ?? [];
  const start = Number.parseInt(from, 16);
  const bytes = Buffer.alloc(Number.parseInt(to, 16) - start);
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  try {
    for (let at = 0; at < bytes.length; ) at += readSync(memory, bytes, at, bytes.length - at, start + at);
  } finally {
    closeSync(memory);
  }
  return bytes;
}

/** Caches of the kernel whose objects belong to sockets, most of them (slabinfo(5)). Those of TCP are one for each end of a connection. */
const TCP = ['TCP', 'TCPv6'];
const OF_SOCKETS = [...TCP, 'sock_inode_cache', 'filp', 'eventpoll_epi'];
/** Of these each end has one, too; but file systems have a million, which come and go, so they are counted by the ends. */
const SHARED = ['dentry', 'lsm_inode_cache'];
const PAGE_KB = 4;

/** What the kernel has for both ends of all TCP connections of this machine, KB; NaN where it may not be read: that takes root. */
export function kernelKb(): number {
  let text: string;
  try {
    text = readFileSync('/proc/slabinfo', 'utf8');
  } catch {
    return Number.NaN;
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
