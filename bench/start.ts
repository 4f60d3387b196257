/**
 * How long does one wait for what starts: the platform, a command, a page of the console?
 *
 * `npm run bench -- start [ROUNDS] [OTHER...]`: OTHER is the `dist/program/main.js` of another checkout, measured in turns with this
 * one. On DOCKER_HOST. `up` has a folder of data and is measured to its ready line. A command runs to its end, beside a Node.js that
 * runs nothing. A visit lasts until the page shows its heading, in a browser that has kept nothing of the console or all of it.
 * Medians: ms / ms of a processor.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { launchChromium } from '../test/support/clients/chromium.ts';
import { type RunningPlatform, startPlatform } from '../test/support/cluster/platform.ts';
import { tinyImage } from '../test/support/engine/docker-client.ts';
import { projectRoot } from '../test/support/project.ts';
import { type Cleanup, tempDir, tidily } from '../test/support/temp.ts';

const PASSWORD = 'the admin of this benchmark';
/** What the parent and all ended children of a process have used is counted so (proc(5)). */
const TICK_MS = 10;
/** Of the fields behind a program's name in proc(5)'s stat: its own time, and that of children that were waited for. */
const OWN = [11, 13] as const;
const CHILDREN = [13, 15] as const;

/** A version of the platform: what Node runs as `troupe`, and where its data is. */
interface Version {
  readonly program: readonly string[];
  readonly data: string;
  readonly env: Record<string, string>;
}

interface Times {
  readonly wall: number[];
  readonly processor: number[];
}

const [roundsText = '7', ...others] = process.argv.slice(2);
const rounds = Number(roundsText);
const programs = [join(projectRoot, 'dist/program/main.js'), ...others].map((path) => [path]);
const rows = new Map<string, Times[]>();

// What people start is bundled; the runner of benchmarks builds the files alone.
spawnSync(process.execPath, [join(projectRoot, 'scripts/bundle.mjs')], { stdio: 'inherit' });
await tidily(async (t) => {
  const versions = await Promise.all(programs.map((program) => versionOf(t, program)));
  for (const version of versions) await (await up(version)).stop(); // Makes the data.
  for (let round = 0; round < rounds; round++) {
    for (const [at, version] of versions.entries()) {
      const begun = performance.now();
      const platform = await up(version);
      note('up', at, performance.now() - begun, processorMs(platform.child.pid ?? 'self', OWN));
      await platform.stop();
    }
  }
  for (const [at, version] of versions.entries()) {
    const platform = await up(version);
    try {
      commands(version, at);
      await visits(await launchChromium(t), platform, at);
    } finally {
      await platform.stop();
    }
  }
});

const heads = ['this', ...others];
process.stdout.write(`| | ${heads.join(' | ')} |\n|---|${heads.map(() => '---|').join('')}\n`);
for (const [row, times] of rows) {
  const cells = times.map(({ wall, processor }) => [wall, processor].map(median).filter(Number.isFinite).join(' / '));
  process.stdout.write(`| ${row} | ${cells.join(' | ')} |\n`);
}

async function versionOf(t: Cleanup, program: readonly string[]): Promise<Version> {
  const data = await tempDir(t);
  const env = { DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: PASSWORD, XDG_CONFIG_HOME: join(data, 'config') };
  return { program, data, env };
}

function up({ program, data, env }: Version): Promise<RunningPlatform> {
  return startPlatform({ data, env, program: [...program] });
}

function commands({ program, data, env }: Version, at: number): void {
  const run = (args: readonly string[]) => {
    const before = processorMs('self', CHILDREN);
    const begun = performance.now();
    const { status, stderr } = spawnSync(process.execPath, args, { env: { ...process.env, ...env }, input: PASSWORD });
    const wall = performance.now() - begun;
    if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${stderr}`);
    return [wall, processorMs('self', CHILDREN) - before] as const;
  };
  run([...program, 'login', '--data', data, '--user', 'admin', '--password-stdin']);
  const asked = { '--help': [], 'ps --help': [], ps: [], 'users list': ['--data', data] };
  for (let round = 0; round < 2 * rounds; round++) {
    note('bare Node.js', at, ...run(['-e', '0']));
    for (const [name, more] of Object.entries(asked)) note(name, at, ...run([...program, ...name.split(' '), ...more]));
  }
}

async function visits(browser: Browser, { ready }: RunningPlatform, at: number): Promise<void> {
  const origin = ready.urls.console;
  if (origin === null) throw new Error('the console is not built');
  const opened = async (page: Page, path: string, heading: string) => {
    const begun = performance.now();
    await page.goto(new URL(path, origin).href);
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    return performance.now() - begun;
  };
  for (let round = 0; round < rounds; round++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    note('first visit of the console', at, await opened(page, '/', 'Log in'));
    await page.getByLabel('Username').fill('admin');
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Log in', exact: true }).click();
    await page.getByRole('link', { name: 'Containers', exact: true }).first().waitFor();
    note('next visit, logged in', at, await opened(page, '/containers', 'Containers'));
    await context.close();
  }
}

function note(row: string, version: number, wall: number, processor = Number.NaN): void {
  const of = rows.get(row) ?? programs.map(() => ({ wall: [], processor: [] }));
  rows.set(row, of);
  of[version]?.wall.push(wall);
  of[version]?.processor.push(processor);
}

function median(numbers: readonly number[]): number {
  return Math.round(numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN);
}

function processorMs(pid: number | 'self', [from, to]: readonly [number, number]): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.slice(from, to).reduce((sum, field) => sum + Number(field), 0) * TICK_MS;
}
