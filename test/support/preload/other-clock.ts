/**
 * Loaded into a process under test (`node --import`): at each SIGUSR2 its wall clock jumps, an hour ahead, then two back, then to the right time
 * again, where it says one second twice, as over a leap second.
 */
const right = Date.now.bind(Date);
const HOUR = 3_600_000;
const JUMPS = [() => HOUR, () => -HOUR, leap, () => 0] as const;
let jumps = 0;
let leapsAt = 0;

function leap(): number {
  leapsAt ||= right();
  return right() - leapsAt > 1000 ? -1000 : 0;
}

Date.now = () => right() + (jumps === 0 ? 0 : (JUMPS[(jumps - 1) % JUMPS.length]?.() ?? 0));
process.on('SIGUSR2', () => {
  jumps += 1;
});
