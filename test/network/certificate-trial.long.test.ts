/** The short form of `npm run soak -- certificates`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { runCertificateTrial } from '../support/network/certificate-trial.ts';
import { skipWithoutPebble } from '../support/network/pebble.ts';

failOnLeaks();

test('strangers by the hundred cause no order, after a gateway was killed while many hostnames were ordered', {
  skip: skipWithoutPebble() || skipWithoutDocker(),
  timeout: 900_000,
}, async () => {
  const report = await runCertificateTrial({ seed: 7, names: 6, kills: 1, strangers: 600, atOnce: 16 });
  assert.equal(report.refused, 600);
});
