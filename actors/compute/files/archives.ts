/** Streams of tar archives: looked through, bounded, or cut down to the one file in them. */
import { type Readable, Transform, type TransformCallback } from 'node:stream';
import { TarError, TarScanner } from '../../../lib/tar-scanner.ts';
import { Refusal } from '../../../proto/errors.ts';
import { FileError } from '../../../proto/ports/files.ts';

/** The bytes of `source`, which fail past `limit`. */
export function atMost(source: Readable, limit: number): Readable {
  let size = 0;
  return through(source, (chunk, push) => {
    size += chunk.length;
    if (size > limit) throw tooLarge(limit);
    push(chunk);
  });
}

/** The bytes of an archive of at most `limit` bytes. Fails with TarError at what is not taken. */
export function checkedTar(source: Readable, limit: number): Readable {
  const scanner = new TarScanner();
  let size = 0;
  return through(
    source,
    (chunk, push) => {
      size += chunk.length;
      if (size > limit) throw tooLarge(limit);
      for (const _part of scanner.push(chunk));
      push(chunk);
    },
    () => {
      if (!scanner.isWhole) throw new TarError('it breaks off');
    },
  );
}

/** Bytes of the file in an archive that has one. Fails when the file has become shorter. */
export function contentOf(source: Readable, begin: number, end: number): Readable {
  const scanner = new TarScanner();
  let at = 0;
  let isFile = false;
  return through(
    source,
    (chunk, push) => {
      for (const part of scanner.push(chunk)) {
        if (part.kind === 'entry') isFile = part.type === '0';
        else if (isFile) {
          const data = part.data.subarray(Math.max(0, begin - at), Math.max(0, end - at));
          at += part.data.length;
          if (data.length > 0) push(Buffer.from(data));
        }
        if (at >= end) return 'enough';
      }
      return undefined;
    },
    () => {
      if (at < end) throw new FileError('refused', 'the file changed while it was read');
    },
  );
}

/** A stream of what `take` makes of the chunks of `source`; `enough` ends it. What either throws fails it. */
function through(
  source: Readable,
  take: (chunk: Buffer, push: (data: Buffer) => void) => unknown,
  finish: () => void = () => {},
): Readable {
  let isOver = false;
  const guard = (work: () => void, done: TransformCallback): void => {
    try {
      work();
      done();
    } catch (error) {
      done(error instanceof Error ? error : new Error('a stream failed', { cause: error }));
    }
  };
  const out: Transform = new Transform({
    transform: (chunk: Buffer, _encoding, done) =>
      guard(() => {
        if (isOver || take(chunk, (data) => out.push(data)) !== 'enough') return;
        isOver = true;
        out.push(null);
        source.destroy();
      }, done),
    flush: (done) => guard(() => isOver || finish(), done),
  });
  out.on('error', () => source.destroy());
  out.once('close', () => source.destroy());
  source.on('error', (error) => {
    if (!isOver) out.destroy(error);
  });
  source.once('close', () => {
    if (!isOver && !source.readableEnded && source.errored === null)
      out.destroy(new FileError('refused', 'the stream broke off'));
  });
  return source.pipe(out);
}

const MB = 1024 * 1024;

/** More than `limit` bytes. */
export function tooLarge(limit: number): Refusal {
  return new Refusal('body_too_large', { message: `More than ${limit / MB} MiB cannot be transferred at once.` });
}
