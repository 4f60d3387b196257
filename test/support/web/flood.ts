/** A container whose log is more than anybody reads, and what a page of the console keeps of it. */
import type { CDPSession, Page } from 'playwright-core';
import { z } from 'zod';
import { execSocket } from '../clients/exec.ts';
import type { Cleanup } from '../temp.ts';
import type { OwnContainer } from './own-container.ts';

/** Writes numbered lines into the log of a container, from 1 on. */
export interface Flood {
  /** So many lines, as fast as they go. */
  burst(lines: number): Promise<void>;
  /** So many lines a second from now on, until the container ends. It needs the image with perl. */
  flow(perSecond: number): Promise<void>;
}

/** What a page keeps of a flooded log. */
export interface KeptLines {
  readonly kept: number;
  readonly first: number;
  readonly last: number;
  /** Places between the first and the last where lines are left out, and where some come again. */
  readonly gaps: readonly string[];
  readonly repeats: readonly string[];
}

/** What a page takes after a forced collection. */
export interface PageMemory {
  /** Bytes of JavaScript's objects. */
  readonly heap: number;
  /** Nodes of the document, and those that something still holds. */
  readonly nodes: number;
  readonly listeners: number;
}

/** As a web server writes it, a tenth in colour: about 100 characters. */
const TAIL = 'GET /api/v1/items/$((i % 97)) 200 12ms from 10.0.0.$((i % 200)) as Mozilla/5.0 (X11; Linux)';
const PERL = `
use POSIX (); $| = 1;
my ($rate, $i, $sent) = (@ARGV, 0);
my $begun = (POSIX::times())[0];
for (;;) {
  my $due = int(((POSIX::times())[0] - $begun) * $rate / 100);
  for (; $sent < $due; $sent++, $i++) {
    my $word = $i % 10 ? "info" : "\\e[33mwarn\\e[0m";
    syswrite STDOUT, "flood $i $word GET /api/v1/items/" . $i % 97 . " 200 12ms from 10.0.0." . $i % 200
      . " as Mozilla/5.0 (X11; Linux)\\n";
  }
  select undef, undef, undef, 0.005;
}`;

export function floodOf(t: Cleanup, container: OwnContainer): Flood {
  let next = 1;
  return {
    burst: async (lines) => {
      const from = next;
      next += lines;
      const count = `i=${from}; while [ $i -lt ${next} ]; do echo "flood $i info ${TAIL}"; i=$((i+1)); done`;
      await container.sh(`{ ${count}; } >/proc/1/fd/1`);
    },
    flow: async (perSecond) => {
      const url = `${container.url.replace('http', 'ws')}/exec`;
      const command = ['sh', '-c', `exec perl -e '${PERL}' ${perSecond} ${next} >/proc/1/fd/1`];
      await execSocket(t, url, container.token, command);
    },
  };
}

const numbers = z.array(z.number());
const LINES = `[...document.querySelectorAll('.log .line > span')].flatMap((line) => {
  const found = /^flood (\\d+) (?:info|warn) GET .*Linux\\)$/.exec(line.textContent);
  return found === null ? [] : [Number(found[1])];
})`;

/** Reads what the page has of the log. Lines that are not of the flood do not count. */
export async function keptLines(page: Page): Promise<KeptLines> {
  const all = numbers.parse(await page.evaluate(LINES));
  const where = (isOne: (number: number, before: number) => boolean) =>
    all.flatMap((number, at) => {
      const before = all[at - 1];
      return before === undefined || !isOne(number, before) ? [] : [`${number} after ${before}`];
    });
  return {
    kept: all.length,
    first: all[0] ?? 0,
    last: all.at(-1) ?? 0,
    gaps: where((number, before) => number > before + 1),
    repeats: where((number, before) => number <= before),
  };
}

/** Forces a collection first: twice, since what the first one frees may have held more. */
export async function memoryOf(devtools: CDPSession): Promise<PageMemory> {
  await devtools.send('Performance.enable');
  for (const _ of [1, 2]) await devtools.send('HeapProfiler.collectGarbage');
  const { metrics } = await devtools.send('Performance.getMetrics');
  const of = (name: string) => metrics.find((one) => one.name === name)?.value ?? Number.NaN;
  return { heap: of('JSHeapUsedSize'), nodes: of('Nodes'), listeners: of('JSEventListeners') };
}
