/** Uploads that fill the disk of the platform's own registry: the real docker-registry, and a disk that a test decides. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { registryTokens } from '../../actors/auth/registry/registry-tokens.ts';
import { registryFiles, registryKeyOf, writeRegistryFiles } from '../../cmd/node/registry/files.ts';
import { endRegistry, keepRegistry, runningRegistry, startRegistry } from '../../cmd/node/registry/process.ts';
import { unfinishedUploads } from '../../cmd/node/registry/store.ts';
import type { RegistryRoom } from '../../proto/ports/local-registry.ts';
import { movableClock } from '../support/clock.ts';
import { keptLog } from '../support/log.ts';
import { skipWithout } from '../support/require.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const HOST = 'registry.cloud.test';
const ISSUER = 'troupe';
const MIB = 2 ** 20;
const options = { skip: skipWithout('docker-registry'), timeout: 900_000 };

/** A registry that is looked after. `room` says what its disk takes. */
async function open(t: TestContext, room: (held: number) => RegistryRoom) {
  // The last first: its process is found by files in the folder.
  const ends: (() => Promise<void> | void)[] = [];
  const cleanup = { after: (end: () => Promise<void> | void) => void ends.unshift(end) };
  t.after(async () => {
    for (const end of ends) await end();
  });
  const files = registryFiles(await tempDir(cleanup));
  const { key, secret } = await registryKeyOf(files);
  const port = await freePort();
  writeRegistryFiles(files, key, { port, host: HOST, issuer: ISSUER, secret });
  await startRegistry(files, port);
  cleanup.after(async () => void (await endRegistry(files)));
  const log = keptLog();
  let looks = 0;
  const keeper = keepRegistry({
    files,
    port,
    log,
    room: async () => {
      looks += 1;
      return room(await heldBy(await unfinishedUploads(files)));
    },
  });
  cleanup.after(() => keeper.close());
  const issue = registryTokens({ clock: movableClock(), issuer: ISSUER, signer: key, jwtSecret: 'x'.repeat(32) });
  const access = [{ type: 'repository', name: 'ann/app', actions: ['pull', 'push'] }] as const;
  const { token } = await issue({ subject: 'ann', service: HOST, access });
  const headers = { authorization: `Bearer ${token}` };
  const at = `http://127.0.0.1:${port}/v2/ann/app/blobs/`;
  const begin = async () => {
    const begun = await fetch(`${at}uploads/`, { method: 'POST', headers });
    assert.equal(begun.status, 202);
    return new URL(begun.headers.get('location') ?? '', at);
  };
  return { files, log, headers, at, begin, looks: () => looks };
}

async function heldBy(uploads: readonly string[]): Promise<number> {
  const sizes = uploads.map((upload) => stat(join(upload, 'data')).catch(() => undefined));
  return (await Promise.all(sizes)).reduce((sum, file) => sum + (file?.size ?? 0), 0);
}

test('an upload without end is ended and removed when the disk is full, and images stay', options, async (t) => {
  const { files, log, headers, at, begin } = await open(t, (held) => (held > 8 * MIB ? 'none' : 'enough'));
  const digest = `sha256:${createHash('sha256').update('kept').digest('hex')}`;
  const whole = await begin();
  whole.searchParams.set('digest', digest);
  assert.equal((await fetch(whole, { method: 'PUT', headers, body: 'kept' })).status, 201);

  const before = runningRegistry(files);
  const upload = request(await begin(), { method: 'PATCH', headers });
  // It stays open: only the registry can end it.
  upload.write(Buffer.alloc(16 * MIB));
  await once(upload, 'error');
  await until(() => runningRegistry(files) !== undefined && runningRegistry(files) !== before, {
    what: 'it runs again',
  });
  await until(async () => (await fetch(`${at}${digest}`, { headers }).catch(() => undefined))?.status === 200, {
    what: 'what was pushed is there',
  });
  assert.deepEqual(await unfinishedUploads(files), []);
  assert.deepEqual(
    log.lines.map(({ level, message, fields }) => [level, message, fields]),
    [['warn', 'the disk is full: unfinished pushes of images were ended and removed', { uploads: 1 }]],
  );
});

test('a disk that something else fills does not end the registry', options, async (t) => {
  const { files, log, looks } = await open(t, () => 'none');
  const before = runningRegistry(files);
  assert.ok(before !== undefined);
  await until(() => looks() >= 3, { what: 'it was looked after' });
  assert.equal(runningRegistry(files), before);
  assert.deepEqual(log.lines, []);
});
