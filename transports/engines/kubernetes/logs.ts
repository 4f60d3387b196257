import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../../../lib/waiting.ts';
import { EngineError, type LogOptions } from '../../../proto/ports/engine.ts';
import { afterStamp, checkedTail, LineAssembler } from '../common/log-lines.ts';
import type { KubeClient } from './client.ts';
import { isReply } from './errors.ts';
import { names } from './naming.ts';
import { type PodPlace, type Pods, pathOf } from './pods.ts';
import { workloadOf } from './views.ts';

const BATCH_LINES = 1000;
const RESUME_TRIES = 8;
const BACKOFF = { minMs: 100, maxMs: 5000 };

/** Where the pod of a container is found. */
interface LoggedPods {
  mustFind(id: string): Promise<PodPlace>;
  readonly pods: Pick<Pods, 'of'>;
}

/**
 * `Engine.logs` on Kubernetes. While it follows, a connection that breaks, or is closed although the workload still
 * runs, is taken up where it was. Ends quietly when `signal` aborts. The API does not tell the outputs apart, and knows
 * no end of a time.
 */
export async function* readKubeLogs(
  client: Pick<KubeClient, 'stream'>,
  containers: LoggedPods,
  id: string,
  options: LogOptions,
): AsyncGenerator<string[]> {
  if (options.signal.aborted) return;
  if (options.since !== undefined) afterStamp(options.since);
  if (options.until !== undefined) afterStamp(options.until);
  if (options.stream !== undefined)
    throw new EngineError('refused', 'Kubernetes does not tell what was written to stdout from what was to stderr.');
  const until = options.until === undefined ? undefined : normal(options.until);
  const place = await containers.mustFind(id);
  const pod = await containers.pods.of(place);
  const begun = pod && workloadOf(pod);
  if (begun === undefined || (begun.state.running === undefined && begun.state.terminated === undefined)) return;
  const read = new LogPlace(options.since);
  const path = `${pathOf(place)}/log`;
  let tail = checkedTail(options.tail);
  for (let failures = 0; ; ) {
    try {
      const stream = await client.stream(path, {
        query: {
          container: names.container,
          timestamps: true,
          follow: options.follow,
          tailLines: tail,
          sinceTime: read.stamp?.replace(/\.\d+Z$/, 'Z'),
        },
        accept: '*/*',
        signal: options.signal,
      });
      try {
        for await (const lines of assembled(stream)) {
          const over = until === undefined ? -1 : lines.findIndex((line) => line.slice(0, until.length) >= until);
          const fresh = (over < 0 ? lines : lines.slice(0, over)).filter((line) => read.takes(line));
          if (fresh.length > 0) {
            failures = 0;
            yield fresh;
          }
          if (over >= 0) return;
        }
      } finally {
        stream.destroy();
      }
    } catch (error) {
      if (options.signal.aborted) return;
      if (isReply(error, 404, 400)) return;
      failures += 1;
      if (!options.follow || failures > RESUME_TRIES) throw error;
    }
    if (!options.follow || options.signal.aborted) return;
    await delay(backoffMs(failures, BACKOFF), undefined, { signal: options.signal }).catch(() => undefined);
    if (options.signal.aborted) return;
    const now = await containers.pods.of(place).catch((error: unknown) => {
      if (error instanceof EngineError && error.code === 'unavailable' && failures <= RESUME_TRIES)
        return 'away' as const;
      throw error;
    });
    if (now === 'away') continue;
    const workload = now && workloadOf(now);
    if (workload === undefined || workload.containerID !== begun.containerID) return;
    // It ended: what it said last was read, unless the connection broke before.
    if (workload.state.running === undefined && failures === 0) return;
    if (read.stamp !== undefined) tail = undefined;
    read.again();
  }
}

/** The place of a reader: the API tells lines by whole seconds, and a line may share its stamp with others. */
class LogPlace {
  /** Of the last line taken, or where to begin after. */
  stamp: string | undefined;
  #taken: number;
  #skip: number;

  constructor(since: string | undefined) {
    this.stamp = since === undefined ? undefined : normal(since);
    this.#taken = 0;
    // All of that very stamp.
    this.#skip = since === undefined ? 0 : Number.POSITIVE_INFINITY;
  }

  /** A connection begins anew: what was taken of the last stamp comes again. */
  again(): void {
    this.#skip = Math.max(this.#taken, this.#skip === Number.POSITIVE_INFINITY ? this.#skip : 0);
    this.#taken = 0;
  }

  takes(line: string): boolean {
    const stamp = line.slice(0, line.indexOf(' '));
    if (this.stamp === undefined || stamp > this.stamp) {
      this.stamp = stamp;
      this.#taken = 1;
      this.#skip = 0;
      return true;
    }
    if (stamp < this.stamp) {
      // The two outputs are stamped on their own: in a first reading a line may be a little earlier than the one
      // before.
      return this.#skip === 0;
    }
    this.#taken += 1;
    return this.#taken > this.#skip;
  }
}

/** Nine digits and UTC, so that stamps are compared as texts. */
function normal(stamp: string): string {
  const match = /^(.{19})(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/i.exec(stamp);
  if (match === null) return stamp;
  const seconds = new Date(`${match[1]}${match[3]}`).toISOString().slice(0, 19);
  return `${seconds}.${(match[2] ?? '').padEnd(9, '0').slice(0, 9)}Z`;
}

async function* assembled(stream: AsyncIterable<unknown>): AsyncGenerator<string[]> {
  const output = new LineAssembler();
  let lines: string[] = [];
  const add = (line: string): void => {
    const space = line.indexOf(' ');
    lines.push(`${normal(line.slice(0, space))}${line.slice(space)}`);
  };
  for await (const chunk of stream) {
    if (!(chunk instanceof Uint8Array)) continue;
    output.push(Buffer.from(chunk), add);
    while (lines.length > 0) {
      const batch = lines.slice(0, BATCH_LINES);
      lines = lines.slice(BATCH_LINES);
      yield batch;
    }
  }
  output.end(add);
  if (lines.length > 0) yield lines;
}
