/**
 * What the bad neighbours (attack.ts) take of the machine's processors, without what they do to the platform: a process that is busy
 * for its argument, a share of one processor, in pieces of about a millisecond, until its input ends.
 */
const share = Number(process.argv[2]);
const EVERY_MS = 2;
/** What it was kept from is made up for in pieces. */
const MOST_MS = 20;

const began = performance.now();
const start = process.cpuUsage();
setInterval(() => {
  const { user, system } = process.cpuUsage(start);
  const owed = (performance.now() - began) * share - (user + system) / 1000;
  const until = performance.now() + Math.min(owed, MOST_MS);
  while (performance.now() < until);
}, EVERY_MS);
process.stdin.resume().on('end', () => process.exit());
