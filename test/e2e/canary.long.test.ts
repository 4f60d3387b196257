/** No secret of a container is anywhere but in the container: a short round of `npm run soak -- canary`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Canaries } from '../support/canary/canaries.ts';
import { runCanary } from '../support/canary/trial.ts';
import { DEPLOY_PROGRAMS } from '../support/engine/app-image.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { skipWithout } from '../support/require.ts';

test('a canary is found in each form, wherever it stands', () => {
  const canaries = new Canaries();
  const value = canaries.make('one');
  canaries.make('another');
  const forms = [
    ...[value, JSON.stringify(value), encodeURIComponent(value), Buffer.from(value).toString('hex').toUpperCase()],
    ...['', 'a', 'ab', 'abc'].map((before) => Buffer.from(`${before}${value}`).toString('base64url')),
  ];
  for (const form of forms) {
    const found = canaries.find('here', Buffer.from(`\0\xff before ${form} behind`, 'latin1'));
    assert.deepEqual(
      found.map(({ canary }) => canary),
      ['one'],
      form,
    );
  }
  assert.deepEqual(canaries.find('here', 'nothing'), []);
});

const skip = skipWithoutDocker() || skipWithout(...DEPLOY_PROGRAMS);

describe('canaries', { skip, timeout: 900_000 }, () => {
  test('are in no log, reply, report, file, process or image outside', async (t) => {
    const { found, ...figures } = await runCanary({ isShort: true });
    t.diagnostic(JSON.stringify(figures));
    assert.deepEqual(found, []);
  });
});
