import type { IncomingMessage } from 'node:http';
import { EngineError, type LogOptions } from '../../../proto/ports/engine.ts';
import { toEngineError } from '../common/calls.ts';
import { afterStamp, checkedTail, LineAssembler, LogBatch, linesOf } from '../common/log-lines.ts';
import type { DockerClient } from './api/client.ts';
import type { Containers } from './containers.ts';

/**
 * `Engine.logs` on Docker. The reader's pace is the stream's pace: while it works on a batch, nothing more is read.
 * Ends quietly when `signal` aborts; rejects with EngineError when the engine breaks off.
 */
export async function* readLogs(
  client: DockerClient,
  containers: Containers,
  id: string,
  options: LogOptions,
): AsyncGenerator<string[]> {
  if (options.signal.aborted) return;
  let stream: IncomingMessage | undefined;
  try {
    const view = await containers.mustFind(id);
    stream = await client.stream('GET', `/containers/${view.Id}/logs`, {
      query: {
        stdout: true,
        stderr: true,
        timestamps: true,
        follow: options.follow,
        tail: checkedTail(options.tail) ?? 'all',
        since: options.since === undefined ? undefined : afterStamp(options.since),
      },
      signal: options.signal,
    });
    yield* view.Config.Tty ? linesOf(stream) : framedLines(stream);
  } catch (error) {
    if (!options.signal.aborted) throw toEngineError(error);
  } finally {
    stream?.destroy();
  }
}

/** Lines of a container without a terminal: two outputs in frames, each frame one entry. */
async function* framedLines(stream: AsyncIterable<unknown>): AsyncGenerator<string[]> {
  const demuxer = new FrameDemuxer();
  const outputs = { 1: new LineAssembler(), 2: new LineAssembler() };
  const batch = new LogBatch();
  for await (const chunk of stream) {
    if (!Buffer.isBuffer(chunk)) continue;
    for (const piece of demuxer.push(chunk)) {
      const output = outputs[piece.stream];
      if (piece.first) output.beginEntry();
      output.push(piece.data, batch.add);
      if (batch.full) yield batch.take();
    }
    if (batch.some) yield batch.take();
  }
  outputs[1].end(batch.add);
  outputs[2].end(batch.add);
  if (batch.some) yield batch.take();
}

/** A piece of a frame: `first` and `last` tell where in the frame it stands. */
interface FramePiece {
  /** 1 stdout, 2 stderr. */
  readonly stream: 1 | 2;
  readonly data: Buffer;
  readonly first: boolean;
  readonly last: boolean;
}

/** Docker writes log entries of at most 16 KiB and a stamp; a frame far past that is not one of its. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;

/**
 * Takes apart Docker's multiplexed stream (Engine API, "Attach to a container", stream format: type, three zeros,
 * length as big-endian 32 bit, payload), however the bytes are cut. A frame's payload is passed on as it comes, so
 * nothing is held but a torn header. Throws EngineError `unavailable` on a header that cannot be one, and on the
 * engine's own error frames.
 */
export class FrameDemuxer {
  readonly #header = Buffer.alloc(8);
  #headerBytes = 0;
  #stream: 1 | 2 = 1;
  #left = 0;
  #first = false;

  /** The pieces in `chunk`, in order. They are views into it. */
  *push(chunk: Buffer): Generator<FramePiece> {
    let at = 0;
    while (at < chunk.length) {
      if (this.#left === 0) {
        const taken = chunk.copy(this.#header, this.#headerBytes, at, at + 8 - this.#headerBytes);
        this.#headerBytes += taken;
        at += taken;
        if (this.#headerBytes < 8) return;
        this.#headerBytes = 0;
        this.#begin();
        continue;
      }
      const data = chunk.subarray(at, at + this.#left);
      at += data.length;
      this.#left -= data.length;
      yield { stream: this.#stream, data, first: this.#first, last: this.#left === 0 };
      this.#first = false;
    }
  }

  /** Whether the stream may end here: not inside a frame. */
  get whole(): boolean {
    return this.#left === 0 && this.#headerBytes === 0;
  }

  #begin(): void {
    const type = this.#header[0] ?? 0;
    const length = this.#header.readUInt32BE(4);
    if (type > 3 || this.#header.readUIntBE(1, 3) !== 0 || length > MAX_FRAME_BYTES) {
      throw new EngineError('unavailable', 'The container engine sent a garbled log.');
    }
    if (type === 3) throw new EngineError('unavailable', 'The container engine reported an error while sending a log.');
    this.#stream = type === 2 ? 2 : 1;
    this.#left = length;
    this.#first = true;
  }
}
