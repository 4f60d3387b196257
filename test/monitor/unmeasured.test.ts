/** A container that was not measured yet: no zero stands for it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { dockerMetrics } from '../../transports/engines/docker/stats/metrics.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

/** A line as Docker writes it: its first has no moment before it. */
function line(second: number): string {
  const at = (s: number): string => new Date(Date.UTC(2026, 0, 1) + s * 1000).toISOString();
  const cpu = (s: number): object => ({ cpu_usage: { total_usage: s * 25e7 } });
  return `${JSON.stringify({
    ...{ read: at(second), preread: second === 1 ? '0001-01-01T00:00:00Z' : at(second - 1) },
    ...{ cpu_stats: cpu(second), precpu_stats: second === 1 ? cpu(0) : cpu(second - 1) },
    memory_stats: { usage: 5_000_000, limit: 64_000_000 },
  })}\n`;
}

test('a container on Docker is shown with its first measurement, and not with zeros before', async (t) => {
  const path = join(await tempDir(t), 'd.sock');
  let stats: ServerResponse | undefined;
  const labels = { 'troupe.installation': 'here', 'troupe.container': 'abc', 'troupe.user': 'ann' };
  const answers: Record<string, unknown> = {
    '/containers/json': [{ Id: 'f00', Names: ['/troupe-here-abc'], State: 'running', Labels: labels }],
    '/system/df': { Containers: [], Volumes: [] },
    '/containers/f00/json': {
      ...{ Id: 'f00', State: { Status: 'running', Running: true, ExitCode: 0, StartedAt: '' }, Config: {} },
      ...{ HostConfig: { NanoCpus: 5e8 }, NetworkSettings: {} },
    },
  };
  const server = createServer((request, response) => {
    const url = (request.url ?? '').replace(/\?.*/, '').replace(/^\/v[\d.]+/, '');
    response.setHeader('api-version', '1.41');
    if (url === '/containers/f00/stats') {
      stats = response;
      response.write(line(1));
    } else if (url === '/events') response.flushHeaders();
    else response.end(JSON.stringify(answers[url] ?? 'OK'));
  }).listen(path);
  await once(server, 'listening');
  const metrics = dockerMetrics({ host: `unix://${path}`, installation: 'here', node: 'n', log: silentLog });
  t.after(async () => {
    await metrics.close();
    server.closeAllConnections();
    server.close();
  });
  const read = async () => (await metrics.read(AbortSignal.timeout(5000))).pods ?? [];
  assert.deepEqual(await read(), []);
  await until(() => stats !== undefined, { what: 'its statistics are asked for' });
  for (let i = 0; i < 5; i += 1) assert.deepEqual(await read(), []);
  stats?.write(line(2));
  const first = await until(async () => (await read())[0], { what: 'it is shown' });
  const { cpuMillis, cpuCapacityMillis, memoryBytes, memoryCapacityBytes } = first;
  assert.deepEqual(
    { cpuMillis, cpuCapacityMillis, memoryBytes, memoryCapacityBytes },
    { cpuMillis: 250, cpuCapacityMillis: 500, memoryBytes: 5_000_000, memoryCapacityBytes: 64_000_000 },
  );
});
