/** The time in which the platform builds its own image does not count as time of waiting. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, askByKey, requestsTo } from '../support/client/account-command.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

/** `troupe start --wait` with one second, of a container that is pending for this reason at its first looks. */
function start(reason: string, waits: number) {
  const container = { id: 'abcdefghijk1', name: 'shop', status: 'stopped' };
  let looks = 0;
  const transport = requestsTo((method, path) => {
    if (path.endsWith('/containers')) return answer(200, { containers: [container] });
    if (method === 'POST') return answer(200, { ...container, status: 'pending' });
    const now = looks++ < waits ? { status: 'pending', status_reason: reason } : { status: 'running' };
    return answer(200, { ...container, ...now });
  });
  return askByKey(transport, 'start shop --wait --timeout 1');
}

test('a build is waited for, with its progress, and nothing else', async () => {
  const [built, waiting, pulled] = await Promise.all([
    start('86% importing the image (140 s)', 5),
    start('0% waiting for the build of another image', 5),
    start('a1b2c3: Downloading 40%', 5),
  ]);
  assert.equal(built.code, 0, built.said);
  assert.match(built.said, /^pending {2}shop {2}86% importing the image \(140 s\)\n/);
  assert.equal(waiting.code, 0, waiting.said);
  assert.equal(pulled.code, 124, pulled.said);
  assert.match(pulled.said, /shop is not running after 1 s; /);
});
