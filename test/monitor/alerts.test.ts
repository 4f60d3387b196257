import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alertText, stateOfAlert } from '../../actors/monitor/alert-rules.ts';
import type { PodSample } from '../../proto/ports/metrics-source.ts';
import { DockerClient } from '../../transports/engines/docker/api/client.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { ContainerHistory } from '../../transports/engines/docker/stats/metrics.ts';
import { cpuMillisBetween, parseStats } from '../../transports/engines/docker/stats/stats-stream.ts';

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;

function pod(more: Partial<PodSample>): PodSample {
  return {
    ...{ name: 'c', namespace: 'compute-u-c', node: 'n', userId: 'u', containerId: 'c' },
    ...{ cpuMillis: 0, cpuCapacityMillis: 500, memoryBytes: 0, memoryCapacityBytes: 2 ** 29, diskBytes: 0 },
    ...{ diskCapacityBytes: 100, restarts: 0, crashedAt: [], oomKills: 0 },
    ...more,
  };
}

test('alerts: three crashes in ten minutes are a loop, which ends after ten without', () => {
  const crashes = (...minutesAgo: number[]) =>
    stateOfAlert('crash_loop', pod({ crashedAt: minutesAgo.map((ago) => NOW - ago * MINUTE) }), NOW);
  assert.deepEqual([crashes(3, 2, 1), crashes(12, 2, 1), crashes(12, 11), crashes()], ['yes', 'maybe', 'no', 'no']);
});

test('alerts: a disk is nearly full from nine tenths, and well again below eight', () => {
  const disk = (diskBytes: number) => stateOfAlert('disk_nearly_full', pod({ diskBytes }), NOW);
  assert.deepEqual([disk(79), disk(80), disk(89), disk(90), disk(120)], ['no', 'maybe', 'maybe', 'yes', 'maybe']);
  assert.equal(disk(0), 'maybe', 'nothing was counted yet');
  const text = alertText('disk_nearly_full', 'web', pod({ diskBytes: 95 }));
  assert.deepEqual(
    [text.category, text.scope, text.message],
    ['storage', 'compute-u-c', '"web" uses 95 % of its disk.'],
  );
});

test('alerts: a container that holds more than its storage_gb is told so, and not that it is nearly full', () => {
  const disk = (diskBytes: number) => stateOfAlert('disk_full', pod({ diskBytes }), NOW);
  assert.deepEqual([disk(89), disk(90), disk(99), disk(100), disk(117)], ['no', 'maybe', 'maybe', 'yes', 'yes']);
  assert.equal(disk(0), 'maybe', 'nothing was counted yet');
  assert.equal(
    stateOfAlert('disk_full', pod({ diskBytes: 5, diskCapacityBytes: 0 }), NOW),
    'no',
    'nothing was promised',
  );
  const text = alertText('disk_full', 'web', pod({ diskBytes: 117 }));
  assert.deepEqual(
    [text.category, text.scope, text.title, text.message],
    ['storage', 'compute-u-c', 'Disk full', '"web" uses 117 % of its disk: delete what it does not need.'],
  );
  assert.match(alertText('disk_nearly_full', 'web', pod({ diskBytes: 99.9 })).message, / 99 % /);
});

test('alerts: ends that were asked for are no crashes, and an event that comes twice counts once', () => {
  const lives = new ContainerHistory(new DockerClient('unix:///nowhere'), namingOf('here'));
  let time = NOW * 1e6;
  const event = (Action: string, timeNano: number) =>
    lives.count({
      ...{ Type: 'container', Action, timeNano },
      Actor: { Attributes: { 'troupe.installation': 'here', 'troupe.container': 'abc', name: 'troupe-here-abc' } },
    });
  const tell = (...actions: string[]) => {
    for (const action of actions) {
      time += 1e9;
      event(action, time);
    }
  };
  tell('start', 'kill', 'die', 'start');
  assert.deepEqual([lives.of('abc')?.restarts, lives.of('abc')?.crashedAt.length], [0, 0]);
  tell('oom', 'die', 'start');
  // The last two come again.
  event('die', time - 1e9);
  event('start', time);
  assert.deepEqual(
    [lives.of('abc')?.restarts, lives.of('abc')?.crashedAt.length, lives.of('abc')?.oomKills],
    [1, 1, 1],
  );
  for (let i = 0; i < 30; i++) tell('die', 'start');
  assert.equal(lives.of('abc')?.crashedAt.length, 10);
  // The clock of the engine's machine is set back: its events count on.
  const { restarts = 0 } = lives.of('abc') ?? {};
  time -= 3600e9;
  tell('die', 'start');
  assert.equal(lives.of('abc')?.restarts, restarts + 1);
  tell('destroy');
  assert.equal(lives.of('abc'), undefined);
});

test('statistics: the mean of two moments, and nothing across a restart', () => {
  const line = (read: string, used: number) =>
    parseStats(JSON.stringify({ read, cpu_stats: { cpu_usage: { total_usage: used } } }));
  const [a, b] = [line('2026-01-01T00:00:00.5Z', 1e9), line('2026-01-01T00:00:05.500000001Z', 3.5e9)];
  assert.ok(a !== undefined && b !== undefined);
  assert.equal(Math.round(cpuMillisBetween(a.cpu, b.cpu) ?? 0), 500);
  assert.equal(cpuMillisBetween(b.cpu, { usedNs: 0, atNs: b.cpu.atNs + 1e9 }), undefined);
  assert.equal(line('0001-01-01T00:00:00Z', 0), undefined);
  assert.equal(parseStats('{'), undefined);
});
