/** A reader of a log who loses the connection again and again, and what it has in the end. */

import { once } from 'node:events';
import { WebSocket } from 'ws';
import { waitAtMost } from '../../../lib/waiting.ts';
import type { Box } from '../clients/container.ts';
import { until } from '../until.ts';

export interface ResumeOptions {
  /** How often the connection is cut. */
  readonly disconnects: number;
  /** Lines that each of stdout and stderr gets. Every 500th is of 100,000 characters. */
  readonly lines: number;
  /** Most messages taken from one connection; as few as none. */
  readonly mostTaken: number;
}

export interface ResumeReport {
  readonly connections: number;
  readonly messages: number;
  /** What was wrong; empty when each line came exactly once and in order. */
  readonly problems: readonly string[];
}

const LONG = 100_000;
const EVERY = 500;
const END = 'end-of-the-trial';

/**
 * Lets the container write numbered lines to both outputs at once while a reader follows them over connections that are cut at
 * random, each resumed by the stamp of the last line.
 */
export async function logResume(box: Box, token: string, options: ResumeOptions): Promise<ResumeReport> {
  const { disconnects, lines, mostTaken } = options;
  await type(box, token, workload(lines));
  const got: string[] = [];
  let since = '1970-01-01T00:00:00Z';
  let ends = 0;
  let connections = 0;
  while (ends < 2) {
    const cut = connections < disconnects;
    const taken = await readSome(`${box.ws}/logs?since=${since}&token=${token}`, {
      most: cut ? Math.floor(Math.random() * (mostTaken + 1)) : Number.POSITIVE_INFINITY,
      // A reader who has it all would otherwise wait for ever.
      longestMs: cut ? 20 + Math.random() * 200 : 60_000,
      until: (text) => text.endsWith(END) && ++ends === 2,
    });
    for (const line of taken) {
      const stamp = line.slice(0, line.indexOf(' '));
      if (stamp <= since && connections > 0) return { connections, messages: got.length, problems: ['went back'] };
      since = stamp;
      got.push(line.slice(stamp.length + 1));
    }
    connections++;
    if (connections > disconnects + 5) break;
  }
  return { connections, messages: got.length, problems: problemsIn(got, lines) };
}

/** Writes both outputs at once, in bursts. What it writes with is the container's own log. */
function workload(lines: number): string {
  const one = (name: string, fd: number) =>
    [
      `( i=0; while [ $i -lt ${lines} ]; do`,
      `if [ $((i % ${EVERY})) = ${EVERY - 1} ]; then head -c ${LONG} /dev/zero | tr '\\0' ${name}; echo;`,
      `else echo "${name} $i"; fi; i=$((i+1));`,
      `[ $((i % 100)) = 0 ] && usleep 20000; done; echo ${END} ) >/proc/1/fd/${fd} &`,
    ].join(' ');
  return `${one('o', 1)} ${one('e', 2)} echo st""arted`;
}

async function type(box: Box, token: string, command: string): Promise<void> {
  const socket = new WebSocket(`${box.ws}/terminal?token=${token}&session=${'trial'.repeat(4)}`);
  let shown = '';
  socket.on('message', (data: Buffer) => {
    shown += data.toString('latin1');
  });
  await once(socket, 'open');
  socket.send(Buffer.from(`trap '' HUP; ${command}\n`));
  await until(() => /started\r/.test(shown), { what: 'the command has started' });
  socket.terminate();
}

interface Reading {
  readonly most: number;
  readonly longestMs: number;
  readonly until: (line: string) => boolean;
}

/** Messages of one connection until it has had enough, then cuts it without a word. */
async function readSome(url: string, { most, longestMs, until }: Reading): Promise<string[]> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  const taken: string[] = [];
  const done = new Promise<void>((resolve, reject) => {
    let over = most === 0;
    socket.on('message', (data: Buffer) => {
      if (over) return;
      taken.push(data.toString());
      over = until(taken.at(-1) ?? '') || taken.length >= most;
      if (over) resolve();
    });
    socket.on('open', () => over && resolve());
    socket.on('close', () => resolve());
    socket.on('error', reject);
  });
  await waitAtMost(done, longestMs);
  socket.on('error', () => {});
  socket.terminate();
  return taken;
}

/** The pieces of a long line are messages of their own, one after the other. */
function problemsIn(got: readonly string[], lines: number): string[] {
  const problems: string[] = [];
  for (const name of ['o', 'e']) {
    const mine = got.filter((text) => text.startsWith(name) && text !== END);
    let at = 0;
    for (let i = 0; i < lines; i++) {
      if (i % EVERY === EVERY - 1) {
        let length = 0;
        while (length < LONG && /^(.)\1*$/.test(mine[at] ?? '')) length += mine[at++]?.length ?? 0;
        if (length !== LONG) problems.push(`${name}: ${length} of ${LONG} characters of line ${i}`);
      } else if (mine[at] === `${name} ${i}`) at++;
      else {
        problems.push(`${name}: ${mine[at]?.slice(0, 20)} instead of line ${i}`);
        break;
      }
    }
    if (problems.length === 0 && at !== mine.length) problems.push(`${name}: ${mine.length - at} lines too many`);
  }
  return problems;
}
