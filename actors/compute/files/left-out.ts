/** A tar archive without one of its folders. */
import { type Readable, Transform } from 'node:stream';
import { FileError } from '../../../proto/ports/files.ts';

const BLOCK = 512;
/** What stands before an entry and tells more of it: names, attributes. */
const BEFORE_ENTRY = new Set(['x', 'L', 'K']);
/** Most bytes of all of it. */
const MAX_BEFORE_BYTES = 4 * 1024 * 1024;
/** Entries that have no content, whatever their size says. */
const WITHOUT_CONTENT = new Set(['1', '2', '3', '4', '5', '6']);

/**
 * The archive in `source`, of a folder on the way to `tree`, without `tree` and what is in it. `tree` is an absolute
 * path; an entry's name begins with the archived folder's own, or at the root. Fails with FileError at what it cannot
 * read, so that nothing passes unseen. Names of `tree` must fit into a header, as those of the platform's folder do.
 */
export function withoutTree(source: Readable, tree: string): Readable {
  const cutter = new Cutter(tree);
  const out: Transform = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      try {
        for (const kept of cutter.push(chunk)) out.push(kept);
        done();
      } catch (error) {
        done(error instanceof Error ? error : new Error('a stream failed', { cause: error }));
      }
    },
  });
  out.once('close', () => source.destroy());
  source.on('error', (error) => out.destroy(error));
  source.once('close', () => {
    if (!source.readableEnded && source.errored === null) out.destroy(new FileError('refused', 'the stream broke off'));
  });
  return source.pipe(out);
}

/** Where the bytes of an archive go, however they are cut. */
class Cutter {
  readonly #names: readonly string[];
  readonly #header = Buffer.alloc(BLOCK);
  #headerBytes = 0;
  /** Bytes until the next header, and what becomes of them. */
  #left = 0;
  #goes: 'on' | 'away' | 'before' = 'on';
  /** What stands before the next entry. */
  #before: Buffer[] = [];
  #beforeBytes = 0;

  constructor(tree: string) {
    this.#names = partsOf(tree);
  }

  *push(chunk: Buffer): Generator<Buffer> {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left > 0) {
        const data = chunk.subarray(at, at + this.#left);
        at += data.length;
        this.#left -= data.length;
        if (this.#goes === 'on') yield Buffer.from(data);
        else if (this.#goes === 'before') this.#keep(data);
        continue;
      }
      const taken = chunk.copy(this.#header, this.#headerBytes, at, at + BLOCK - this.#headerBytes);
      at += taken;
      this.#headerBytes += taken;
      if (this.#headerBytes < BLOCK) return;
      this.#headerBytes = 0;
      yield* this.#entry(Buffer.from(this.#header));
    }
  }

  *#entry(header: Buffer): Generator<Buffer> {
    const isEnd = header.every((byte) => byte === 0);
    if (!isEnd && !isRight(header)) throw new FileError('refused', 'the archive cannot be read');
    const type = String.fromCharCode(header[156] ?? 0);
    const size = isEnd || WITHOUT_CONTENT.has(type) ? 0 : sizeOf(header);
    this.#left = Math.ceil(size / BLOCK) * BLOCK;
    if (BEFORE_ENTRY.has(type)) {
      this.#goes = 'before';
      this.#keep(header);
      return;
    }
    const before = this.#before;
    [this.#before, this.#beforeBytes] = [[], 0];
    this.#goes = !isEnd && this.#isInTree(header) ? 'away' : 'on';
    if (this.#goes === 'on') yield Buffer.concat([...before, header]);
  }

  #keep(data: Buffer): void {
    this.#beforeBytes += data.length;
    if (this.#beforeBytes > MAX_BEFORE_BYTES) throw new FileError('refused', 'a name in the archive is too long');
    this.#before.push(Buffer.from(data));
  }

  #isInTree(header: Buffer): boolean {
    const text = (at: number, width: number) => header.toString('utf8', at, at + width).replace(/\0.*$/s, '');
    const prefix = text(257, 5) === 'ustar' && header[262] === 0 ? `${text(345, 155)}/` : '';
    const parts = partsOf(prefix + text(0, 100));
    return this.#names.every((name, at) => parts[at] === name);
  }
}

/** The names that a path consists of. */
function partsOf(path: string): readonly string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}

/** Whether a header has the sum that it says. */
function isRight(header: Buffer): boolean {
  let sum = 0;
  for (const [at, byte] of header.entries()) sum += at >= 148 && at < 156 ? 0x20 : byte;
  return octalOf(header, 148, 8) === sum;
}

/** The size of an entry: octal, or binary where it is larger than that can tell. */
function sizeOf(header: Buffer): number {
  const size = (header[124] ?? 0) >= 0x80 ? header.readUIntBE(130, 6) : octalOf(header, 124, 12);
  if (!Number.isSafeInteger(size)) throw new FileError('refused', 'the archive cannot be read');
  return size;
}

/** A number of a header; NaN if it is none. */
function octalOf(header: Buffer, at: number, width: number): number {
  const text = header.toString('latin1', at, at + width).replace(/[\0 ]+$/, '');
  return Number.parseInt(text, 8);
}
