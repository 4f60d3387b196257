/** `troupe env` ends when the container runs with the new values, or says that it does not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, askByKey, requestsTo } from '../support/client/account-command.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const ID = 'abcdefghijk1';

/** A container that takes a change, and what it shows each time that it is looked at since. */
function platform(before: string, shown: readonly object[]) {
  const container = { id: ID, name: 'shop', image: 'troupe.invalid/node', status: before };
  let looks = 0;
  return requestsTo((method, path) => {
    if (path.endsWith('/containers')) return answer(200, { containers: [container] });
    if (path.endsWith('/settings')) return answer(200, { env: { KEY: '1' }, secrets: [] });
    if (path.endsWith('/revisions')) return answer(404, { error: 'none', code: 'not_found' });
    if (method === 'PATCH') return answer(200, { ...container, status: before === 'running' ? 'pending' : before });
    return answer(200, { ...container, ...(shown[looks++] ?? shown.at(-1)) });
  });
}

test('a change is waited for until the container runs with it', async () => {
  const shown = [{ status: 'initializing' }, { status: 'running', health: 'starting' }, { status: 'running' }];
  for (const command of ['env set shop KEY=1', 'env rm shop KEY']) {
    const { code, said } = await askByKey(platform('running', shown), command);
    assert.equal(code, 0, said);
    assert.match(said, /^initializing {2}shop\nrunning {2}shop\nshop was restarted, and runs with it\.\n$/);
  }
});

test('a container that does not run with it fails the command, with the reason', async () => {
  const failed = await askByKey(
    platform('running', [{ status: 'failed', status_reason: 'It ended.' }]),
    'env set shop A=1',
  );
  assert.equal(failed.code, 1);
  assert.match(failed.said, /shop failed: It ended\./);
  const back = { status: 'running', status_reason: 'It runs as before, as its check failed.' };
  const taken = await askByKey(platform('running', [back]), 'env set shop A=1');
  assert.equal(taken.code, 1);
  assert.match(taken.said, /shop: It runs as before/);
  const slow = await askByKey(platform('running', [{ status: 'pending' }]), 'env set shop A=1 --timeout 1');
  assert.equal(slow.code, 124);
});

test('nothing is waited for with --no-wait, nor of a container that is stopped', async () => {
  const soon = await askByKey(platform('running', []), 'env set shop A=1 --no-wait');
  assert.deepEqual(soon, { code: 0, said: 'shop is being restarted with it.\n' });
  const stopped = await askByKey(platform('stopped', []), 'env set shop A=1');
  assert.deepEqual(stopped, { code: 0, said: 'shop is changed. It is stopped, and gets this at its next start.\n' });
});
