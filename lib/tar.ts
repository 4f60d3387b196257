/**
 * Something to put into a tar archive. Owner and group are root, unless a file names another owner (a number up to
 * 2,097,151). `path` is relative, without a leading slash.
 */
export type TarEntry =
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly mode: number;
      readonly data: Uint8Array;
      readonly owner?: number;
    }
  | { readonly kind: 'directory'; readonly path: string; readonly mode: number }
  | { readonly kind: 'symlink'; readonly path: string; readonly target: string };

const BLOCK = 512;

/**
 * A tar archive in POSIX ustar form (IEEE Std 1003.1, pax interchange format, "ustar Interchange Format"), with a pax
 * header before each entry whose names do not fit. `mtimeSeconds` stamps every entry: one input, one archive.
 */
export function tar(entries: readonly TarEntry[], mtimeSeconds = 0): Buffer {
  const parts: Buffer[] = [];
  for (const entry of entries) {
    const path = entry.kind === 'directory' && !entry.path.endsWith('/') ? `${entry.path}/` : entry.path;
    const target = entry.kind === 'symlink' ? entry.target : '';
    const data =
      entry.kind === 'file' ? Buffer.from(entry.data.buffer, entry.data.byteOffset, entry.data.byteLength) : undefined;
    const type = { file: '0', directory: '5', symlink: '2' }[entry.kind];
    const mode = entry.kind === 'symlink' ? 0o777 : entry.mode;
    const owner = entry.kind === 'file' ? (entry.owner ?? 0) : 0;
    parts.push(...headers({ path, target, type, mode, owner, size: data?.length ?? 0, mtimeSeconds }));
    if (data !== undefined) parts.push(padded(data));
  }
  parts.push(Buffer.alloc(2 * BLOCK));
  return Buffer.concat(parts);
}

/** What stands in an archive before the `size` bytes of a file; after them come `fileEnd` bytes of nothing. */
export function fileBegin(path: string, mode: number, size: number, mtimeSeconds: number): Buffer {
  return Buffer.concat(headers({ path, target: '', type: '0', mode, size, mtimeSeconds }));
}

/** What stands after a file of that size that is the last of its archive. */
export function fileEnd(size: number): Buffer {
  return Buffer.alloc(((BLOCK - (size % BLOCK)) % BLOCK) + 2 * BLOCK);
}

interface Header {
  readonly path: string;
  readonly target: string;
  readonly type: string;
  readonly mode: number;
  readonly owner?: number;
  readonly size: number;
  readonly mtimeSeconds: number;
}

/** The header of an entry, after one with the names that do not fit into it. */
function headers(h: Header): Buffer[] {
  const { path, target, mtimeSeconds } = h;
  const pax = Buffer.concat([
    ...(fits(path) ? [] : [record('path', path)]),
    ...(fits(target) ? [] : [record('linkpath', target)]),
  ]);
  if (pax.length === 0) return [header(h)];
  const before = header({ path: 'pax', target: '', type: 'x', mode: 0o644, size: pax.length, mtimeSeconds });
  return [before, padded(pax), header(h)];
}

function header(h: Header): Buffer {
  const out = Buffer.alloc(BLOCK);
  out.write(fits(h.path) ? h.path : 'long-name', 0, 100, 'utf8');
  octal(out, h.mode, 100, 8);
  octal(out, h.owner ?? 0, 108, 8);
  octal(out, h.owner ?? 0, 116, 8);
  octal(out, h.size, 124, 12);
  octal(out, h.mtimeSeconds, 136, 12);
  out.fill(0x20, 148, 156);
  out.write(h.type, 156, 'latin1');
  if (fits(h.target)) out.write(h.target, 157, 100, 'utf8');
  out.write('ustar\x0000', 257, 'latin1');
  if (!h.owner) {
    out.write('root', 265, 'latin1');
    out.write('root', 297, 'latin1');
  }
  let sum = 0;
  for (const byte of out) sum += byte;
  out.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return out;
}

function octal(out: Buffer, value: number, at: number, width: number): void {
  out.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1');
}

/** Names of at most 100 ASCII bytes go into the header itself. */
function fits(name: string): boolean {
  return name.length <= 100 && /^[\x20-\x7e]*$/.test(name);
}

/** A pax record: its own length in decimal, a space, `key=value`, a newline; the length counts its own digits. */
function record(key: string, value: string): Buffer {
  const rest = Buffer.from(` ${key}=${value}\n`, 'utf8');
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length), 'latin1'), rest]);
}

function padded(data: Buffer): Buffer {
  const spare = (BLOCK - (data.length % BLOCK)) % BLOCK;
  return spare === 0 ? data : Buffer.concat([data, Buffer.alloc(spare)]);
}
