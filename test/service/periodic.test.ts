import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { periodic } from '../../actors/service/periodic.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { keptLog, silentLog } from '../support/log.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const common = { service: 'test', name: 'work', failure: 'it could not be done', log: silentLog };
const AN_HOUR = 3_600_000;

function openSystem(t: TestContext) {
  const system = start({ log: silentLog });
  const close = () => {
    stop(system);
    return stopped(system);
  };
  t.after(close);
  return { system, close };
}

test('work is done at once, and again and again', async (t) => {
  let runs = 0;
  const work = async () => {
    runs += 1;
  };
  await periodic({ ...common, everyMs: 5, work }).start(openSystem(t).system);
  await until(() => runs >= 3);
});

test('a failure is logged, and the work is done the next time', async (t) => {
  const log = keptLog();
  let runs = 0;
  const work = async () => {
    runs += 1;
    if (runs === 1) throw new Error('gone');
  };
  await periodic({ ...common, everyMs: 5, log, work }).start(openSystem(t).system);
  await until(() => runs >= 2);
  assert.deepEqual(
    log.lines.map(({ message }) => message),
    ['it could not be done'],
  );
});

test('what wakes it during a run is made up for after it, and two runs never overlap', async (t) => {
  let wake = () => {};
  let isEnded = false;
  const ends: (() => void)[] = [];
  const { system, close } = openSystem(t);
  await periodic({
    ...common,
    everyMs: AN_HOUR,
    work: () => new Promise<void>((resolve) => ends.push(resolve)),
    wake: (now) => {
      wake = now;
      return {
        close: async () => {
          isEnded = true;
        },
      };
    },
  }).start(system);
  await until(() => ends.length === 1);
  wake();
  wake();
  assert.equal(ends.length, 1);
  ends[0]?.();
  await until(() => ends.length === 2);
  ends[1]?.();
  await turns();
  assert.equal(ends.length, 2);
  await close();
  assert.equal(isEnded, true);
});

test('a part that is stopped ends its work first', async (t) => {
  const { system, close } = openSystem(t);
  const seen: string[] = [];
  const work = async (signal: AbortSignal) => {
    seen.push('begun');
    await once(signal, 'abort');
    seen.push('ended');
  };
  await periodic({ ...common, everyMs: AN_HOUR, work }).start(system);
  await until(() => seen.length === 1);
  await close();
  assert.deepEqual(seen, ['begun', 'ended']);
});
