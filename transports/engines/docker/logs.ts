import type { IncomingMessage } from 'node:http';
import type { LogOptions } from '../../../proto/ports/engine.ts';
import { toEngineError } from '../common/calls.ts';
import { afterStamp, beforeStamp, checkedTail, LineAssembler } from '../common/log-lines.ts';
import type { DockerClient } from './api/client.ts';
import { FrameDemuxer } from './api/demux.ts';
import type { DockerContainerView } from './container-view.ts';

/** Most lines and most lines' characters in one batch. */
const BATCH_LINES = 1000;
const BATCH_CHARACTERS = 256 * 1024;

type Logged = Pick<DockerContainerView, 'Id' | 'Config'>;

/**
 * `Engine.logs` on Docker. The reader's pace is the stream's pace: while it works on a batch, nothing more is read.
 * Ends quietly when `signal` aborts; rejects with EngineError when the engine breaks off.
 */
export async function* readLogs(
  client: DockerClient,
  containers: { mustFind(id: string): Promise<Logged> },
  id: string,
  options: LogOptions,
): AsyncGenerator<string[]> {
  if (options.signal.aborted) return;
  try {
    yield* linesOf(client, await containers.mustFind(id), options);
  } catch (error) {
    if (!options.signal.aborted) throw toEngineError(error);
  }
}

/** As `readLogs`, of a container that was found. */
export async function* linesOf(
  client: DockerClient,
  { Id, Config }: Logged,
  options: LogOptions,
): AsyncGenerator<string[]> {
  if (options.signal.aborted) return;
  const until = options.until === undefined ? undefined : beforeStamp(options.until);
  // Docker takes such a time for none.
  if (until !== undefined && Number(until) <= 0) return;
  let stream: IncomingMessage | undefined;
  try {
    stream = await client.stream('GET', `/containers/${Id}/logs`, {
      query: {
        stdout: options.stream !== 'stderr',
        stderr: options.stream !== 'stdout',
        timestamps: true,
        follow: options.follow,
        tail: checkedTail(options.tail) ?? 'all',
        since: options.since === undefined ? undefined : afterStamp(options.since),
        until,
      },
      signal: options.signal,
    });
    yield* Config.Tty ? rawLines(stream) : framedLines(stream);
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

/** Lines of a container with a terminal: one output, no frames. */
async function* rawLines(stream: AsyncIterable<unknown>): AsyncGenerator<string[]> {
  const output = new LineAssembler();
  const batch = new LogBatch();
  for await (const chunk of stream) {
    if (!Buffer.isBuffer(chunk)) continue;
    output.push(chunk, batch.add);
    while (batch.some) yield batch.take();
  }
  output.end(batch.add);
  while (batch.some) yield batch.take();
}

/** Lines on their way to the reader. */
class LogBatch {
  #lines: string[] = [];
  #characters = 0;

  readonly add = (line: string): void => {
    this.#lines.push(line);
    this.#characters += line.length;
  };

  get some(): boolean {
    return this.#lines.length > 0;
  }

  get full(): boolean {
    return this.#lines.length >= BATCH_LINES || this.#characters >= BATCH_CHARACTERS;
  }

  /** At most `batchLines` lines; the rest stays. */
  take(): string[] {
    const lines = this.#lines.splice(0, BATCH_LINES);
    this.#characters = this.#lines.reduce((sum, line) => sum + line.length, 0);
    return lines;
  }
}
