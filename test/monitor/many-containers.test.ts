import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { countingEngine } from '../../bench/monitor/engine.ts';
import { newId } from '../../proto/ids.ts';
import { dockerMetrics } from '../../transports/engines/docker/stats/metrics.ts';
import { silentLog } from '../support/log.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

test('many containers that appear at once are measured, and no warning is written about it', async (t) => {
  const warnings: string[] = [];
  const warn = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`);
  process.on('warning', warn);
  t.after(() => process.off('warning', warn));
  const path = join(await tempDir(t), 'engine.sock');
  const engine = await countingEngine(
    path,
    'test',
    Array.from({ length: 40 }, () => ({ id: newId(), userId: newId() })),
  );
  t.after(() => engine.close());
  const source = dockerMetrics({ host: `unix://${path}`, installation: 'test', node: 'here', log: silentLog });
  t.after(() => source.close());
  const { signal } = new AbortController();
  await until(
    async () =>
      ((await source.read(signal)).pods ?? []).filter(({ cpuCapacityMillis }) => cpuCapacityMillis === 500).length ===
      40,
    {
      what: 'the limits of all are known',
      everyMs: 100,
    },
  );
  assert.deepEqual(warnings, []);
});
