/** The barrier before the platform's own registry, and when its store is collected. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pastBarrier } from '../../actors/gateway/barrier.ts';
import { RegistryBarrier } from '../../cmd/node/registry/barrier.ts';
import { type CollectTimes, keepCollected } from '../../cmd/node/registry/collect.ts';
import { registryFiles } from '../../cmd/node/registry/files.ts';
import { folderStore } from '../../cmd/node/registry/store.ts';
import { keptLog } from '../support/log.ts';
import { pause } from '../support/pause.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const AT = { host: '127.0.0.1', port: 7006 };
const TO = { forward: AT, target: '/v2/' };
const options = { timeout: 60_000 };

test('it closes when the last write is over, and whoever comes meanwhile waits', options, async () => {
  const barrier = new RegistryBarrier(AT);
  const leave = barrier.enter();
  assert.ok(typeof leave === 'function');
  let isClosed = false;
  const events: string[] = [];
  const collected = barrier.closedFor(30_000, async () => {
    isClosed = true;
    await until(() => events.includes('came'));
    events.push('collected');
    return 'done';
  });
  await pause(50, 'watch');
  assert.equal(isClosed, false, 'a write is under way');
  const waiting = Promise.resolve(barrier.enter()).then((later) => {
    events.push('entered');
    return later;
  });
  leave();
  leave();
  await until(() => isClosed);
  assert.equal(barrier.held, 1);
  events.push('came');
  assert.equal(await collected, 'done');
  const later = await waiting;
  assert.deepEqual(events, ['came', 'collected', 'entered']);
  assert.equal(barrier.quietMs, 0, 'the one that waited writes now');
  later?.();
  assert.equal(typeof barrier.enter(), 'function');
});

test('it opens again when writes go on for too long, and when the work fails', options, async () => {
  const barrier = new RegistryBarrier(AT);
  const leave = barrier.enter();
  assert.ok(typeof leave === 'function');
  assert.equal(await barrier.closedFor(30, () => Promise.reject(new Error('not begun'))), undefined);
  assert.equal(typeof barrier.enter(), 'function');
  const failing = new RegistryBarrier(AT);
  await assert.rejects(
    failing.closedFor(30_000, () => Promise.reject(new Error('the disk'))),
    /the disk/,
  );
  assert.equal(typeof failing.enter(), 'function');
});

const asked = (method: string) => ({ method, field: () => undefined });

test('reads pass, writes elsewhere pass, and who waits for too long is told to come again', options, async () => {
  const barrier = new RegistryBarrier(AT, { heldMs: 20 });
  const end = new AbortController();
  const work = barrier.closedFor(30_000, () => until(() => end.signal.aborted));
  const elsewhere = { forward: { host: '127.0.0.1', port: 7001 }, target: '/v2/token' };
  assert.deepEqual(pastBarrier(barrier, asked('HEAD'), TO), TO);
  assert.deepEqual(pastBarrier(barrier, asked('POST'), elsewhere), elsewhere);
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    const decision = await pastBarrier(barrier, asked(method), TO);
    assert.ok('reply' in decision);
    assert.equal(decision.reply.status, 503);
    assert.ok(decision.reply.headers?.some(([name]) => name === 'Retry-After'));
  }
  assert.equal(barrier.held, 0);
  end.abort();
  await work;
  assert.ok('forward' in (await pastBarrier(barrier, asked('PUT'), TO)));
});

const NEVER = 24;
const TIMES: CollectTimes = { everyMs: 100, quietMs: 400, quietHour: NEVER, patienceMs: 50, lookMs: 10 };

/** A store with a blob that nothing needs, collected at these times. */
async function collected(t: TestContext, times: Partial<CollectTimes>, last?: number) {
  const files = registryFiles(await tempDir(t));
  const folder = join(files.store, 'docker/registry/v2/blobs/sha256/aa', 'a'.repeat(64));
  const put = async () => {
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'data'), 'nobody');
    const old = new Date(Date.now() - 2 * 24 * 3_600_000);
    await utimes(join(folder, 'data'), old, old);
  };
  await put();
  const barrier = new RegistryBarrier(AT);
  const log = keptLog();
  const open = () => keepCollected({ store: folderStore(files), barrier, last, log, times: { ...TIMES, ...times } });
  return { barrier, log, put, open, isThere: () => existsSync(join(folder, 'data')) };
}

test('it is collected at a quiet moment, again and again, and logged when something went', options, async (t) => {
  const { barrier, log, put, open, isThere } = await collected(t, {});
  const leave = barrier.enter();
  assert.ok(typeof leave === 'function');
  const keeper = open();
  t.after(() => keeper.close());
  await pause(600, 'watch');
  assert.ok(isThere(), 'somebody writes');
  leave();
  const from = performance.now();
  await until(() => !isThere());
  assert.ok(performance.now() - from >= 380, 'not before the quiet moment');
  await until(() => log.lines.length > 0);
  const went = { manifests: 0, blobs: 1, uploads: 0, bytes: 6 };
  assert.deepEqual(
    log.lines.map(({ message, fields }) => [message, fields]),
    [['images without a name were collected', went]],
  );
  await put();
  await until(() => log.lines.length === 2);
  assert.ok(!isThere());
});

test('it is not collected again before its time', options, async (t) => {
  const { open, isThere } = await collected(t, { everyMs: 3_600_000, quietMs: 0 }, Date.now());
  const keeper = open();
  await pause(100, 'watch');
  await keeper.close();
  assert.ok(isThere());
});

test('in the quiet hour, writes under way are waited for', options, async (t) => {
  const quietHour = new Date().getHours();
  const { barrier, open, isThere } = await collected(t, { quietMs: 3_600_000, quietHour, patienceMs: 20_000 });
  const leave = barrier.enter();
  assert.ok(typeof leave === 'function');
  const keeper = open();
  t.after(() => keeper.close());
  const isClosed = () => {
    const entered = barrier.enter();
    if (entered instanceof Promise) void entered.then((later) => later?.());
    else entered();
    return entered instanceof Promise;
  };
  await until(isClosed, { what: 'it is closed' });
  assert.ok(isThere());
  leave();
  await until(() => !isThere());
});
