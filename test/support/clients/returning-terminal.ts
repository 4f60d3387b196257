/** A client of a terminal with a session id that comes back whenever it loses its connection, and knows whether anything was lost. */

import { pause } from '../pause.ts';
import { until } from '../until.ts';
import type { TestSocket } from './websocket.ts';

/** How long it goes on trying to come back. */
const COME_BACK_MS = 60_000;
/** Codes that say: do not come back (docs/reference/streams.md). */
const FINAL = new Set([1000, 1003, 1007, 1008, 1009, 4000]);

export interface ReturningTerminal {
  /** The newest number that the shell printed and the client saw; all before it were seen, too. */
  readonly last: number;
  /** How often it has connected. */
  readonly connections: number;
  /** What was lost, came in the wrong order, or ended when it should not. */
  readonly problems: readonly string[];
  /** Resolves once so many numbers more have come than there are now. */
  advance(by: number): Promise<void>;
  /** Closes the terminal for good, which hangs up its shell. */
  stop(): Promise<void>;
}

/**
 * Opens a terminal whose shell counts for ever, `pauseSeconds` between two numbers. `connect` opens it wherever the client may be served now, with the
 * same session id each time; when it rejects it is asked again. A shell that is not the same when the client comes back does not
 * count on: `advance` rejects then.
 */
export async function returningTerminal(
  connect: () => Promise<TestSocket>,
  pauseSeconds = 0.02,
): Promise<ReturningTerminal> {
  const counted = new Counted();
  const ending = new AbortController();
  let connections = 0;
  let socket = await connect();
  socket.send(
    Buffer.from(`stty -echo -onlcr; PS1=; i=0; while :; do i=$((i+1)); echo "n $i"; sleep ${pauseSeconds}; done\n`),
  );

  const comeBack = async (): Promise<TestSocket | undefined> => {
    const deadline = performance.now() + COME_BACK_MS;
    let last: unknown;
    while (!ending.signal.aborted && performance.now() < deadline) {
      try {
        return await connect();
      } catch (error) {
        last = error;
        await pause(100, 'retry', ending.signal);
      }
    }
    if (!ending.signal.aborted) counted.problems.push(`it could not come back: ${String(last)}`);
    return undefined;
  };
  const follow = async () => {
    for (;;) {
      connections++;
      counted.connected();
      const { code, reason } = await readAll(socket, (text) => counted.take(text));
      if (ending.signal.aborted) return;
      if (FINAL.has(code)) {
        counted.problems.push(`it was closed with ${code} ${reason} after ${counted.last}`);
        return;
      }
      const next = await comeBack();
      if (next === undefined) return;
      socket = next;
    }
  };
  const following = follow();
  return {
    get last() {
      return counted.last;
    },
    get connections() {
      return connections;
    },
    problems: counted.problems,
    advance: async (by) => {
      const goal = counted.last + by;
      await until(() => counted.last >= goal || counted.problems.length > 0, {
        what: `the shell counts from ${counted.last} to ${goal}`,
        timeoutMs: COME_BACK_MS,
      });
    },
    stop: async () => {
      ending.abort();
      await socket.close(1000);
      await following;
    },
  };
}

async function readAll(socket: TestSocket, take: (text: string) => void): Promise<{ code: number; reason: string }> {
  try {
    for (;;) {
      const frame = await socket.next(COME_BACK_MS * 2);
      if ('binary' in frame) take(Buffer.from(frame.binary).toString('latin1'));
    }
  } catch {
    return socket.closed;
  }
}

/** The numbers, over all connections. */
class Counted {
  last = 0;
  readonly problems: string[] = [];
  #rest = '';
  /** The number before on this connection; none yet. */
  #before: number | undefined;

  /** What comes now begins with what was printed last, in the middle of a line perhaps. */
  connected(): void {
    this.#rest = this.last === 0 ? '' : '\0';
    this.#before = undefined;
  }

  take(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#line(line);
  }

  #line(line: string): void {
    const number = Number(/^n (\d+)$/.exec(line)?.[1] ?? Number.NaN);
    if (Number.isNaN(number)) return; // What was typed and printed at the beginning, or half a line.
    const before = this.#before ?? Math.min(this.last, number - 1);
    if (number !== before + 1) this.problems.push(`${number} follows ${before}, seen ${this.last}`);
    this.#before = number;
    this.last = Math.max(this.last, number);
  }
}
