/** Commands that follow a container, through a network that fails and a platform that ends: what they showed. */
import type { Box } from '../clients/container.ts';
import { spawnTroupe } from '../cluster/platform.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { atTerminal } from './terminal.ts';

/** What the commands of one trial showed so far. */
export interface Followers {
  /** Numbers of the lines that `troupe logs -f` printed. */
  readonly logged: () => number[];
  /** Numbers of the lines on the terminal of `troupe shell`: a list for each time that it was drawn anew. */
  readonly shown: () => number[][];
  /** Ids of what `troupe notifications -f` printed. */
  readonly told: () => number[];
  /** Resolves once log and terminal have gone on by some lines. */
  readonly goOn: () => Promise<void>;
  /** The shell has ended with the platform: begins to count in the one that took its place. */
  readonly countAgain: () => Promise<void>;
}

const ENOUGH_LINES = 40;
/** What `troupe shell` prints before the terminal is drawn anew. */
const CLEAR = '\x1b[0m\x1b[2J\x1b[3J\x1b[H';
/** A line each 50 ms. */
const COUNT = 'i=0; while :; do i=$((i+1)); echo "$0 $i"; usleep 50000 2>/dev/null || sleep 0.05; done';

/** Busybox asks the terminal where the cursor is after its prompt. */
const PROMPT = /[#$] $/;
const ASKS_FOR_CURSOR = '\x1b[6n';

/**
 * Starts the three commands in `box`, ended with `t`, and waits until each has shown something. `folder` holds what they
 * need.
 */
export async function startFollowers(
  t: Cleanup,
  box: Box,
  { folder, env }: { readonly folder: string; readonly env: Record<string, string> },
): Promise<Followers> {
  const log = follow(t, ['logs', box.id, '-f', '--tail', '0'], env);
  const notifications = follow(t, ['notifications', '-f', '--limit', '1', '--json'], env);
  const shell = await atTerminal(['shell', box.id], { folder, env });
  t.after(async () => {
    shell.stop();
    await shell.ended;
  });
  const prompt = (screen: () => string) =>
    until(() => PROMPT.test(screen().replaceAll(ASKS_FOR_CURSOR, '')), {
      what: 'the shell is there',
      timeoutMs: 60_000,
    }).catch((cause) => {
      throw new Error(`no shell: ${JSON.stringify(screen().slice(-300))}`, { cause });
    });
  let shells = 0;
  let drawnBefore = 0;
  const drawings = () => shell.screen().split(CLEAR).slice(drawnBefore);
  const logged = () => numbersOf(log.output(), /^logged (\d+)$/gm);
  const shown = () => drawings().map((text) => numbersOf(text, new RegExp(`^shown${shells} (\\d+)\\r$`, 'gm')));
  const goOn = async () => {
    const lastShown = () => shown().at(-1)?.at(-1) ?? 0;
    const [line = 0, drawn] = [logged().at(-1), lastShown()];
    const isOn = () => (logged().at(-1) ?? 0) > line + ENOUGH_LINES && lastShown() > drawn + ENOUGH_LINES;
    await until(isOn, { what: 'the log and the terminal go on', timeoutMs: 90_000 });
  };
  const count = async () => {
    await prompt(() => drawings().at(-1) ?? '');
    shells++;
    shell.type(`sh -c '${COUNT}' shown${shells}\r`);
  };
  await prompt(shell.screen);
  shell.type(`(sh -c '${COUNT}' logged >/proc/1/fd/1 2>&1 &)\r`);
  await until(() => logged().length > 0, { what: 'the log begins', timeoutMs: 60_000 });
  await count();
  await goOn();
  return {
    logged,
    shown,
    told: () => numbersOf(notifications.output(), /^\{.*?"id":(\d+)/gm),
    goOn,
    countAgain: async () => {
      const drawn = shell.screen().split(CLEAR).length;
      await until(() => shell.screen().split(CLEAR).length > drawn, {
        what: 'the terminal is back',
        timeoutMs: 90_000,
      });
      drawnBefore = shell.screen().split(CLEAR).length - 1;
      await count();
    },
  };
}

/** What is missing in a run of numbers, or there twice. */
export function faultsIn(numbers: readonly number[]): string[] {
  return numbers.flatMap((number, at) => {
    const expected = (numbers[at - 1] ?? number - 1) + 1;
    return number === expected ? [] : [`${number} instead of ${expected}`];
  });
}

function numbersOf(text: string, pattern: RegExp): number[] {
  return [...text.matchAll(pattern)].map(([, number]) => Number(number));
}

function follow(t: Cleanup, args: readonly string[], env: Record<string, string>) {
  const child = spawnTroupe(args, env);
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk));
  child.stderr.resume();
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  t.after(() => {
    child.kill('SIGKILL');
    return ended;
  });
  return { output: () => output };
}
