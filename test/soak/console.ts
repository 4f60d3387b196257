/**
 * Does the console bear a log that nobody can read? `npm run soak -- console [MINUTES]`, with an engine in
 * DOCKER_HOST and a built console. First, the list of containers is loaded ten times, with nothing kept and with the
 * files kept. Then the page of a container is open that writes 200 lines a second, for MINUTES (10), while somebody
 * types into the log's search and the terminal. All goes through TLS. It fails when a line is missing or comes again,
 * also where Docker begins a file, when memory grows once the log is full, when one key in a hundred waits for 100 ms,
 * or when half of the first loads take a second.
 */
import { tidily } from '../support/temp.ts';
import { type FloodMinute, floodTrial } from '../support/web/flood-trial.ts';
import { listLoads } from '../support/web/list-loads.ts';

const MIB = 1024 ** 2;
const MOST_WAIT_MS = 100;
const LOADS = 10;
const MOST_LOAD_MS = 1000;
/**
 * The log is full after 50 s; what came later must take the place of what was there. A block that is begun has up to 600
 * nodes, and marks of words that are looked for a few in each line that is in sight.
 */
const FULL_AFTER = 2;
const MOST_GROWN = { heap: 4 * MIB, nodes: 3000, listeners: 20 } as const;

const minutes = Number(process.argv[2] ?? 10);
const row = (cells: readonly (string | number)[]) =>
  process.stdout.write(`${cells.map((cell) => String(cell).padStart(9)).join(' ')}\n`);

const { cold, warm, bytes, load: loadThen } = await tidily((t) => listLoads(t, LOADS));
process.stdout.write(`list, nothing kept: ${JSON.stringify(cold)} ms, ${bytes.cold} bytes\n`);
process.stdout.write(
  `list, files kept: ${JSON.stringify(warm)} ms, ${bytes.warm} bytes; load ${loadThen.toFixed(1)}\n`,
);
row(['minute', 'line', 'kept', 'heap MiB', 'nodes', 'listeners', 'RSS MiB', 'page CPU', 'platform', 'load']);
const report = await tidily((t) =>
  floodTrial(t, minutes, ({ at, last, kept, heap, nodes, listeners, resident, renderer, platform, load }) =>
    row([at, last, kept, (heap / MIB).toFixed(2), nodes, listeners, resident, renderer, platform, load.toFixed(1)]),
  ),
);
process.stdout.write(`lines again: ${JSON.stringify(report.repeats)}\n`);
const broken = [...report.faults.slice(0, 20)];
if (report.repeats.length > 0) broken.push('lines come again');
for (const place of ['filter', 'terminal'] as const) {
  const { keys, delay, shown } = report[place];
  process.stdout.write(`${place}: ${JSON.stringify({ keys, delay, shown })}\n`);
  if (delay.p99 >= MOST_WAIT_MS) broken.push(`a key in the ${place} waits for ${delay.p99} ms (p99)`);
}
if (cold.p50 >= MOST_LOAD_MS) broken.push(`the list can be used after ${cold.p50} ms (p50)`);
const [full, last] = [report.minutes[FULL_AFTER - 1], report.minutes.at(-1)];
if (full !== undefined && last !== undefined)
  for (const what of ['heap', 'nodes', 'listeners'] as const) broken.push(...growthOf(what, full, last));
for (const line of broken) process.stdout.write(`BROKEN: ${line}\n`);
if (broken.length > 0) process.exitCode = 1;

function growthOf(what: keyof typeof MOST_GROWN, from: FloodMinute, to: FloodMinute): string[] {
  const grown = to[what] - from[what];
  return grown > MOST_GROWN[what] ? [`${what} grew from ${from[what]} to ${to[what]}`] : [];
}
