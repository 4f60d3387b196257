import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Teardown } from '../../cmd/node/shutdown.ts';
import { silentLog } from '../support/log.ts';

test('parts end in reverse order, once, and a failing one does not keep the others', async () => {
  const errors: object[] = [];
  const teardown = new Teardown({ ...silentLog, error: (fields) => errors.push(fields) });
  const ended: string[] = [];
  teardown.add('first', async () => ended.push('first'));
  teardown.add('second', async () => {
    throw new Error('cannot');
  });
  teardown.add('third', async () => ended.push('third'));
  await Promise.all([teardown.run(), teardown.run()]);
  assert.deepEqual(ended, ['third', 'first']);
  assert.equal(errors.length, 1);
});

test('a part that hangs is given up', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const errors: object[] = [];
  const teardown = new Teardown({ ...silentLog, error: (fields) => errors.push(fields) });
  let ended = false;
  teardown.add('before', async () => {
    ended = true;
  });
  teardown.add('hangs', () => new Promise(() => {}));
  const running = teardown.run();
  t.mock.timers.tick(15_000);
  await running;
  assert.ok(ended);
  assert.deepEqual(errors, [{ part: 'hangs' }]);
});
