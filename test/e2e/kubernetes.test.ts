/** COMPUTE_ENGINE=kubernetes on the command line. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { troupe } from '../kit/platform.ts';
import { tempDir } from '../kit/temp.ts';

test('a cluster that is not there is named before anything starts', async (t) => {
  const data = await tempDir(t);
  const env = { COMPUTE_ENGINE: 'kubernetes', DEFAULT_IMAGE: 'registry.example/base:1' };
  const args = ['up', '--data', data, '--port-offset', 'auto'];
  const missing = await troupe(args, { env: { ...env, KUBECONFIG: `${data}/none` } });
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /KUBECONFIG is .*none, which is not there/);
  const noImage = await troupe(args, { env: { COMPUTE_ENGINE: 'kubernetes' } });
  assert.equal(noImage.code, 1);
  assert.match(noImage.stderr, /needs DEFAULT_IMAGE/);
});
