/** The log of a container: followed, resumed by the stamp of its last line, or read once. */
import { TroupeError } from '../errors.ts';
import { ENDPOINTS } from '../generated/endpoints.ts';
import { fill } from '../path.ts';
import type { Following } from '../socket.ts';
import type { CallControl } from '../types.ts';
import type { ClientCore, FollowOptions } from './core.ts';

/** RFC 3339 to the nanosecond, as every line begins with. */
const STAMP_LENGTH = 30;

/** A line of a log. */
export interface LogLine {
  /** RFC 3339 in UTC, to the nanosecond; of one log they strictly increase. */
  readonly stamp: string;
  readonly text: string;
}

export interface LogFollowOptions extends FollowOptions {
  /** The container. */
  readonly id: string;
  /** Newest lines to begin with: 100 unless given, with `since` all. */
  readonly tail?: number | undefined;
  /** Only lines after this time, RFC 3339. */
  readonly since?: string | undefined;
  readonly onLine: (line: LogLine) => void;
}

export interface LogReadOptions {
  /** The container. */
  readonly id: string;
  /** Newest lines of those that the others choose: 100 unless given, with `since` all. */
  readonly tail?: number | 'all' | undefined;
  /** Only lines later than this: RFC 3339, or Unix seconds. */
  readonly since?: string | undefined;
  /** Only lines earlier than this. */
  readonly until?: string | undefined;
  /** Only what was written there. The platform refuses with `conflict` if its engine does not tell them apart. */
  readonly stream?: 'stdout' | 'stderr' | undefined;
}

/** What there is of a log, whatever the container does. */
export async function readLog(
  core: ClientCore,
  { id, ...query }: LogReadOptions,
  control?: CallControl,
): Promise<LogLine[]> {
  const path = fill(ENDPOINTS.readLogs.slice('GET '.length), { id }, query);
  const { body } = await core.request('GET', path, undefined, control);
  return body.split('\n').slice(0, -1).map(lineOf);
}

/**
 * Each line once, in order, over lost connections and restarts of the platform. Ends when the container stops. A
 * container that is about to run is waited for; one that is stopped ends it with the code `not_running`.
 */
export function followLogs(core: ClientCore, { id, tail, since, onLine, onState }: LogFollowOptions): Following {
  let last = '';
  return core.stream({
    onState,
    path() {
      const query = last === '' ? { tail, since } : { since: last };
      return fill(ENDPOINTS.logs.slice('WS '.length), { id }, query);
    },
    text(line) {
      const { stamp, text } = lineOf(line);
      // What comes twice at the seam of two connections is not later than the last.
      if (stamp <= last) return;
      last = stamp;
      onLine({ stamp, text });
    },
    check: () => aboutToRun(core, id),
  });
}

function lineOf(line: string): LogLine {
  return { stamp: line.slice(0, STAMP_LENGTH), text: line.slice(STAMP_LENGTH + 1) };
}

/** Rejects with `not_running` unless the container runs or will by itself. */
export async function aboutToRun(core: ClientCore, id: string): Promise<void> {
  const { status } = await core.call('getContainer', { params: { id } });
  if (status === 'stopped' || status === 'failed')
    throw new TroupeError('not_running', `The container is ${status}: start it first.`, { status: 409 });
}
