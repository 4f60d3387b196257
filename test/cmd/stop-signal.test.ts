/** How a process is told to end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stopSignal } from '../../cmd/node/shutdown.ts';
import { until } from '../support/until.ts';

test('Ctrl-C under npm, which tells of it twice, ends the process in order; another one ends it at once', async (t) => {
  const { mock } = t.mock.method(process, 'exit', () => undefined);
  const told = stopSignal();
  t.after(() => told.forget());
  process.emit('SIGINT', 'SIGINT');
  process.emit('SIGINT', 'SIGINT');
  await told.promise;
  assert.equal(mock.callCount(), 0);
  await until(() => {
    process.emit('SIGINT', 'SIGINT');
    return mock.callCount() > 0;
  });
  assert.deepEqual(mock.calls[0]?.arguments, [130]);
});
