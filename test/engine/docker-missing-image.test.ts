import assert from 'node:assert/strict';
import { test } from 'node:test';
import { missingImage } from '../../transports/engines/docker/image/missing-image.ts';

test('an image that is gone from the machine is told by the name that people type, and with what to do', () => {
  const [hash, digest] = ['0'.repeat(16), 'a'.repeat(64)];
  const rest =
    ' is not on this machine any more. Send the change again, or start the container again, which fetches it anew.';
  for (const [image, said] of [
    [`troupe.invalid/node:${hash}`, "The platform's image node"],
    [`troupe.invalid/base:${hash}`, "The platform's image default"],
    [`r.example:5000/ann/app:_sha256-${digest}`, `The image r.example:5000/ann/app@sha256:${digest}`],
    ['r.example:5000/ann/app:1', 'The image r.example:5000/ann/app:1'],
  ] as const) {
    const { code, message } = missingImage(image, new Error('no such image'));
    assert.deepEqual([code, message], ['image_not_found', said + rest]);
  }
});
