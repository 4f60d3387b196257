/** `troupe logs`. */
import type { LogLine, StreamState } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import { containerOf } from './names.ts';
import { clean } from './output.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

export interface LogsOptions extends ClientCommandOptions {
  readonly follow?: boolean;
  readonly tail?: number;
  readonly since?: string;
  readonly stamps?: boolean;
  readonly grep?: string;
}

/** Without -f the log is over when no line came for so long, ms: the socket does not tell. */
const QUIET_MS = 600;
const NOTHING_MS = 2500;
const RESET = '\x1b[0m';

/** Prints the log of a container; with -f on and on, until it stops. */
export async function showLogs(name: string | undefined, options: LogsOptions): Promise<void> {
  const session = openSession(options);
  const pattern = options.grep === undefined ? undefined : patternOf(options.grep);
  const container = await containerOf(session, name);
  let quiet: NodeJS.Timeout | undefined;
  const over = (ms: number) => {
    clearTimeout(quiet);
    if (!options.follow) quiet = setTimeout(() => following.close(), ms);
  };
  const notice = connectionNotice(session);
  const following = session.client.follow.logs({
    id: container.id,
    tail: options.tail,
    since: options.since === undefined ? undefined : timeOf(options.since),
    onLine(line) {
      over(QUIET_MS);
      if (pattern === undefined || pattern.test(line.text)) print(session, line, options);
    },
    onState(state) {
      if (state.state === 'open') over(NOTHING_MS);
      notice(state);
    },
  });
  process.once('SIGINT', () => {
    following.close();
    process.exitCode = 130;
  });
  // Whoever reads the output has gone: `troupe logs | head`.
  process.stdout.on('error', () => following.close());
  const { error, how, reason } = await following.done;
  clearTimeout(quiet);
  if (error !== undefined) throw error;
  if (how === 'ended' && options.follow && session.out.isTerminal) session.out.note(`The log ends: ${reason}.`);
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

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** An RFC 3339 time of a time or an age such as `15m`. */
function timeOf(text: string): string {
  const [, number, unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? [];
  if (number !== undefined) return new Date(Date.now() - Number(number) * (UNITS[unit] ?? 1) * 1000).toISOString();
  if (Number.isNaN(Date.parse(text)))
    throw new ClientFailure(
      'usage',
      `--since ${text} is no age such as 15m, and no time such as 2026-01-31T12:00:00Z.`,
    );
  return /T.*(Z|[+-]\d\d:\d\d)$/.test(text) ? text : new Date(text).toISOString();
}
