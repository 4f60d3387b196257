/** Pushes to the platform's own registry while its store is collected: the real docker-registry behind the real gateway. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { collectionTrial, openTrialRegistry } from '../support/registry/collection-trial.ts';
import { digestOf, imageOfMany, plainImage, RefusedPush } from '../support/registry/registry-client.ts';
import { skipWithout } from '../support/require.ts';
import type { Cleanup } from '../support/temp.ts';

const options = { skip: skipWithout('docker-registry'), timeout: 900_000 };

/** Ends the last first: a process is found by files in a folder. */
function inReverse(t: TestContext): Cleanup {
  const ends: (() => Promise<void> | void)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  return { after: (end) => void ends.unshift(end) };
}

test('a push that says success while the store is collected is whole', options, async (t) => {
  const trial = { pushers: 20, seconds: 14, everyMs: 3000, layerBytes: 50_000 };
  const report = await collectionTrial(inReverse(t), trial);
  assert.deepEqual(report.wrong, []);
  assert.ok(report.pushed > 20 && report.again > 0 && report.collections > 0, JSON.stringify(report));
  assert.ok(report.freedBytes > 0 && report.reads > 0, JSON.stringify(report));
});

test('the same through two gateways and the front of a cluster', options, async (t) => {
  // A front collects nothing in its first ten seconds.
  const trial = { pushers: 20, seconds: 20, everyMs: 3000, layerBytes: 50_000, isFronted: true };
  const report = await collectionTrial(inReverse(t), trial);
  assert.deepEqual(report.wrong, []);
  assert.ok(report.pushed > 20 && report.again > 0 && report.collections > 0, JSON.stringify(report));
  assert.ok(report.freedBytes > 0 && report.reads > 0, JSON.stringify(report));
});

test('a manifest of any kind is refused when a part of it was collected that its client found', options, async (t) => {
  const { client, collect } = await openTrialRegistry(inReverse(t), ['ann/app']);
  const pusher = client();
  for (const form of ['docker', 'oci'] as const) {
    const layer = randomBytes(1000);
    const image = plainImage([layer], form);
    const many = imageOfMany([image], form);
    const send = ({ text, type }: typeof image) => pusher.ask('PUT', '/v2/ann/app/manifests/latest', text, type);
    // All parts are there, and nothing names them yet.
    await pusher.push('ann/app', image);
    await pusher.ask('DELETE', `/v2/ann/app/manifests/${image.digest}`);
    assert.equal((await pusher.ask('HEAD', `/v2/ann/app/blobs/${digestOf(layer)}`)).status, 200);
    await collect();
    const refused = await send(image);
    assert.match(`${refused.status} ${refused.body}`, /^(?:400|404) .*MANIFEST_BLOB_UNKNOWN/s);

    await pusher.push('ann/app', image);
    assert.equal((await pusher.ask('HEAD', `/v2/ann/app/manifests/${image.digest}`)).status, 200);
    await collect();
    const refusedMany = await send(many);
    assert.match(`${refusedMany.status} ${refusedMany.body}`, /^(?:400|404) .*MANIFEST_BLOB_UNKNOWN/s);

    await pusher.push('ann/app', many, 'latest');
    await collect();
    assert.deepEqual(await pusher.wrongIn('ann/app', many.digest), []);
  }
});

test(
  'writes wait at the gateway while it collects, also those whose client leaves; reads go on',
  options,
  async (t) => {
    const { client, barrier } = await openTrialRegistry(inReverse(t), ['ann/app']);
    const [pusher, reader] = [client(), client()];
    const image = plainImage([randomBytes(1000)], 'oci');
    await pusher.push('ann/app', image, 'latest');
    const leaving = client();
    const left: Promise<unknown>[] = [];
    let answered = false;
    await barrier.closedFor(30_000, async () => {
      const begun = pusher.beginUpload('ann/app').then(() => {
        answered = true;
      });
      left.push(begun);
      left.push(assert.rejects(leaving.beginUpload('ann/app'), (error) => !(error instanceof RefusedPush)));
      while (barrier.held < 2) assert.equal((await reader.ask('HEAD', '/v2/ann/app/manifests/latest')).status, 200);
      leaving.close();
      assert.deepEqual(await reader.wrongIn('ann/app', image.digest), []);
      assert.equal(answered, false);
    });
    await Promise.all(left);
    assert.equal(answered, true);
    // Nobody is counted who is gone.
    assert.equal(await barrier.closedFor(30_000, async () => 'closed'), 'closed');
  },
);
