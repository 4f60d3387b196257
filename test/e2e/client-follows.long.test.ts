/** The commands that follow, through a cut and an end of the platform. The long form is `npm run soak -- follows`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { followTrial } from '../support/client/follow-trial.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { skipWithout } from '../support/require.ts';

describe('commands that follow', { skip: skipWithoutDocker() || skipWithout('script'), timeout: 900_000 }, () => {
  test('log, terminal and notifications go on by themselves, nothing missing, nothing twice', async () => {
    const env = { DEFAULT_IMAGE: await tinyImage() };
    const { faults, told, drawn } = await followTrial({ events: ['cut', 'kill'], env, keepsShell: false });
    assert.deepEqual(faults, []);
    assert.ok(told >= 2);
    assert.ok(drawn >= 1);
  });
});
