/** Reads a tar archive as it comes: headers of its entries, and what is in them. */

const BLOCK = 512;
/** Headers of the next entry's name: bigger ones are not read. */
const MAX_NAMES_BYTES = 1024 * 1024;
/** Entries that have no content, whatever their size says. */
const WITHOUT_CONTENT = new Set(['1', '2', '3', '4', '5', '6']);
/** Names of the next entry, and remarks. */
const REMARKS = new Set(['x', 'g', 'L', 'K']);
/** Files, links, folders and pipes. Not devices, nor forms whose length is told in more than one place. */
const ALLOWED = new Set(['0', '1', '2', '5', '6', ...REMARKS]);

/** Why bytes are not taken for a tar archive. */
export class TarError extends Error {}

/** A piece of an archive: the header of an entry, or some of its content. */
type TarPart =
  | { readonly kind: 'entry'; readonly type: string; readonly size: number }
  | { readonly kind: 'content'; readonly data: Buffer };

/**
 * Takes an archive apart, however its bytes are cut. Nothing is held but a torn header. Strict, so that what another
 * reader sees is what this one saw. Throws TarError.
 */
export class TarScanner {
  readonly #header = Buffer.alloc(BLOCK);
  #headerBytes = 0;
  /** Of the entry: what is left of its content, and of the bytes that fill its last block. */
  #left = 0;
  #padding = 0;
  #isRemark = false;
  #remark: Buffer[] = [];
  #type = '';
  #zeros = 0;

  /** Whether the archive may end here. */
  get isWhole(): boolean {
    return this.#zeros >= 1 && this.#headerBytes === 0;
  }

  /** The parts in `chunk`, in order. Contents are views into it. */
  *push(chunk: Buffer): Generator<TarPart> {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left > 0) {
        const data = chunk.subarray(at, at + this.#left);
        at += data.length;
        this.#left -= data.length;
        if (this.#isRemark) this.#remember(data);
        else yield { kind: 'content', data };
      } else if (this.#padding > 0) {
        const skipped = Math.min(this.#padding, chunk.length - at);
        at += skipped;
        this.#padding -= skipped;
      } else {
        const taken = chunk.copy(this.#header, this.#headerBytes, at, at + BLOCK - this.#headerBytes);
        at += taken;
        this.#headerBytes += taken;
        if (this.#headerBytes < BLOCK) return;
        this.#headerBytes = 0;
        const entry = this.#begin();
        if (entry !== undefined) yield entry;
      }
    }
  }

  #begin(): TarPart | undefined {
    const header = this.#header;
    if (header.every((byte) => byte === 0)) {
      this.#zeros++;
      return undefined;
    }
    if (this.#zeros > 0) throw new TarError('something follows the end of the archive');
    let sum = 0;
    for (const [at, byte] of header.entries()) sum += at >= 148 && at < 156 ? 0x20 : byte;
    if (octal(header, 148, 8) !== sum) throw new TarError('it is not a tar archive, or it is compressed');
    const type = String.fromCharCode(header[156] ?? 0);
    if (!ALLOWED.has(type)) throw new TarError(`an entry is of a kind that is not taken (${JSON.stringify(type)})`);
    const size = WITHOUT_CONTENT.has(type) ? 0 : octal(header, 124, 12);
    this.#type = type;
    this.#isRemark = REMARKS.has(type);
    if (this.#isRemark && size > MAX_NAMES_BYTES) throw new TarError('the name of an entry is too long');
    this.#remark = [];
    this.#left = size;
    this.#padding = (BLOCK - (size % BLOCK)) % BLOCK;
    return this.#isRemark ? undefined : { kind: 'entry', type, size };
  }

  /** A remark that tells another length than the header would be read differently by others. */
  #remember(data: Buffer): void {
    this.#remark.push(Buffer.from(data));
    if (this.#left > 0 || (this.#type !== 'x' && this.#type !== 'g')) return;
    const text = Buffer.concat(this.#remark).toString('latin1');
    this.#remark = [];
    if (/(?:^|\n)\d+ (?:size|GNU\.sparse\.[a-z]+)=/.test(text))
      throw new TarError('an entry is larger than 8 GiB, or sparse');
  }
}

/** A number of a header. Throws TarError. */
function octal(header: Buffer, at: number, width: number): number {
  const text = header
    .toString('latin1', at, at + width)
    .replace(/[\0 ]+$/, '')
    .trimStart();
  if (!/^[0-7]+$/.test(text)) throw new TarError('a header of the archive is garbled');
  return Number.parseInt(text, 8);
}
