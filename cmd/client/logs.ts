/** `troupe logs`. */
import type { Following, LogFollowOptions, LogLine, StreamEnd, StreamState } from '../../client/index.ts';
import { clean } from './clean.ts';
import { ClientFailure, EXIT } from './failure.ts';
import { containerOf } from './names.ts';
import { onReaderGone } from './place.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';
import { timeOf } from './times.ts';

export interface LogsOptions extends ClientCommandOptions {
  readonly follow?: boolean;
  readonly tail?: number;
  readonly since?: string;
  readonly until?: string;
  readonly stream?: 'stdout' | 'stderr';
  readonly stamps?: boolean;
  readonly grep?: string;
}

const RESET = '\x1b[0m';

/** Prints the log of a container in any state; with -f on and on, until it stops. */
export async function showLogs(name: string | undefined, options: LogsOptions): Promise<void> {
  const session = openSession(options);
  // A pattern can take for ever, which on the platform is everybody's time.
  if (options.grep !== undefined && session.out.place.machine === undefined)
    throw new ClientFailure('usage', 'By SSH there is no --grep: pipe the log into grep on your machine.');
  const pattern = options.grep === undefined ? undefined : patternOf(options.grep);
  const since = timeOf('--since', options.since);
  const until = timeOf('--until', options.until);
  const { stream, tail } = options;
  if (options.follow && (until !== undefined || stream !== undefined))
    throw new ClientFailure('usage', '-f follows both outputs, without an end: leave out --until and --stream.');
  const { id } = await containerOf(session, name);
  const onLine = (line: LogLine) => {
    if (pattern === undefined || pattern.test(line.text)) print(session, line, options);
  };
  if (options.follow) {
    await follow(session, { id, tail, since, onLine });
    return;
  }
  // Whoever reads the output may leave before its end: `troupe logs | head`.
  const forget = onReaderGone(session.out.place.stdout, () => {});
  for (const line of await session.client.readLog({ id, tail, since, until, stream })) onLine(line);
  forget();
}

async function follow(session: ClientSession, options: LogFollowOptions): Promise<void> {
  const following = session.client.follow.logs({ ...options, onState: connectionNotice(session) });
  const { how, reason } = await untilInterrupted(session, following);
  if (how === 'ended' && session.out.isTerminal) session.out.note(`The log ends: ${reason}.`);
}

/** Resolves when a stream has ended, by itself or by Ctrl-C. Rejects with what broke it. */
export async function untilInterrupted({ out }: ClientSession, following: Following): Promise<StreamEnd> {
  const { place } = out;
  const release = place.onInterrupt(() => {
    following.close();
    place.exitWith(EXIT.interrupted);
  });
  // Whoever reads the output has gone: `troupe logs -f | head`.
  const forget = onReaderGone(place.stdout, () => following.close());
  try {
    const end = await following.done;
    if (end.error !== undefined) throw end.error;
    return end;
  } finally {
    release();
    forget();
  }
}

function print({ out }: ClientSession, { stamp, text }: LogLine, { stamps, json }: LogsOptions): void {
  if (json) {
    out.line(JSON.stringify({ stamp, text }));
    return;
  }
  // A log may hold what a terminal acts on; a program gets it as it is.
  const shown = out.isTerminal ? shownText(text) : text;
  out.line(stamps ? `${out.isTerminal ? out.paint(stamp, 'dim') : stamp} ${shown}` : shown);
}

function shownText(text: string): string {
  const safe = clean(text.replaceAll('\t', '        '));
  return safe.includes('\x1b') ? safe + RESET : safe;
}

/** Says once that the connection is lost, and once that it is back. */
export function connectionNotice({ out }: ClientSession): (state: StreamState) => void {
  let isLost = false;
  return (state) => {
    if (state.state === 'waiting' && !isLost) {
      isLost = true;
      const reason = state.reason === '' ? '' : ` (${state.reason})`;
      out.note(out.paint(`The connection is lost${reason}; trying again ...`, 'dim'));
    } else if (state.state === 'open' && isLost) {
      isLost = false;
      out.note(out.paint('The connection is back; nothing is missing.', 'dim'));
    }
  };
}

function patternOf(text: string): RegExp {
  try {
    return new RegExp(text);
  } catch (cause) {
    throw new ClientFailure('usage', `--grep ${text} is no regular expression.`, { cause });
  }
}
