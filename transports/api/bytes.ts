/** Replies whose bytes come from a stream. */
import type { Readable } from 'node:stream';
import type { TransferReply } from '../../proto/endpoint.ts';
import type { ByteSink, ByteSource, HttpPushReply } from '../../proto/ports/http.ts';

/** The reply with those bytes. One that fails breaks off. */
export function bytesReply({ status, headers, bytes }: Extract<TransferReply, { bytes: unknown }>): HttpPushReply {
  return { status, headers, source: new ReadableSource(bytes) };
}

class ReadableSource implements ByteSource {
  readonly #bytes: Readable;

  constructor(bytes: Readable) {
    this.#bytes = bytes;
    // It may fail before it is opened, and after its reader has left.
    bytes.on('error', () => {});
  }

  open(sink: ByteSink): void {
    const bytes = this.#bytes;
    if (bytes.errored !== null) {
      sink.fail();
      return;
    }
    bytes.on('data', (chunk: Buffer) => {
      if (!sink.write(chunk)) bytes.pause();
    });
    bytes.once('end', () => sink.end());
    bytes.once('error', () => sink.fail());
    bytes.once('close', () => {
      if (!bytes.readableEnded) sink.fail();
    });
  }

  drain(): void {
    this.#bytes.resume();
  }

  closed(): void {
    this.#bytes.destroy();
  }
}
