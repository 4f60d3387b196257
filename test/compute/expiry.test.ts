/** Containers whose time is over: stopped at it, deleted a day later, and kept if their user says so in between. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { readAudit } from '../../storage/audit.ts';
import { containerById } from '../../storage/compute/containers.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const SOON_MS = 2000;
const HOUR_MS = 3_600_000;
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();
const change = (compute: ComputeUnderTest, id: string, expires_at: string | null, who = ann) =>
  compute.call(updateContainer, who, { params: { id }, body: { expires_at } });
/** Moves its expiry, and its stop if it has stopped, back by so many hours. */
const age = (compute: ComputeUnderTest, id: string, hours: number) =>
  compute.db.run(
    `update containers set expires_at = expires_at - make_interval(hours => $2),
       status_since = status_since - make_interval(hours => $2) where id = $1`,
    [id, hours],
  );
const isGone = (compute: ComputeUnderTest, id: string) =>
  until(async () => (await containerById(compute.db, id)) === undefined, { what: 'it is gone', timeoutMs: 60_000 });

describe('expiry', { concurrency: true }, () => {
  test('a container is stopped at its time, says so, and cannot be started before it has another', async (t) => {
    const compute = await openCompute(t);
    const expires_at = inMs(SOON_MS);
    const id = await compute.create(ann, { expires_at });
    const other = await compute.running(ann);
    const ended = await compute.reaches(ann, id, 'stopped');
    assert.equal(ended.expires_at, expires_at);
    assert.ok(Date.now() >= Date.parse(expires_at));
    const plain = await compute.view(ann, other);
    assert.deepEqual([plain.status, 'expires_at' in plain], ['running', false]);
    const notices = await compute.notices(ann.userId);
    const expired = /^Container expired: The time of "box" is over, .* deleted after 20..-..-.. ..:.. UTC/;
    assert.ok(
      notices.some((notice) => expired.test(notice)),
      notices.join('\n'),
    );
    const [entry] = await readAudit(compute.db, { action: 'container.expire', limit: 10 });
    assert.deepEqual([entry?.username, entry?.target], ['platform', id]);
    const refusal = await refused('conflict', compute.on(startContainer, ann, id));
    assert.match(refusal.message, /time of the container is over: .* `troupe update NAME --expires never`/);
    assert.equal((await change(compute, id, inMs(HOUR_MS))).status, 'stopped');
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
  });

  test('a container is deleted a day after it was stopped at its time', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.create(ann, { expires_at: inMs(SOON_MS) });
    await compute.reaches(ann, id, 'stopped');
    // Not yet.
    await age(compute, id, 23);
    await compute.stop();
    await compute.start();
    assert.equal((await compute.view(ann, id)).status, 'stopped');
    await age(compute, id, 2);
    await compute.stop();
    await compute.start();
    await compute.on(startContainer, ann, id).catch(() => {});
    await isGone(compute, id);
    assert.ok((await compute.notices(ann.userId)).some((notice) => notice.startsWith('Container deleted: "box"')));
    const [entry] = await readAudit(compute.db, { action: 'container.delete', limit: 10 });
    assert.deepEqual([entry?.username, entry?.target], ['platform', id]);
  });

  test('a time that comes while nothing runs is kept afterwards, with a whole day until the deletion', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann, { expires_at: inMs(HOUR_MS) });
    const expires_at = inMs(SOON_MS);
    await change(compute, id, expires_at);
    await compute.stop();
    await until(() => Date.now() > Date.parse(expires_at), { what: 'its time is over' });
    await age(compute, id, 48);
    await compute.start();
    await compute.reaches(ann, id, 'stopped');
    assert.equal(compute.engine.calls.filter((call) => call === `remove ${id}`).length, 0);
  });

  test('another time and none take the place of the one before; one that is over, and a stranger’s, are refused', async (t) => {
    const compute = await openCompute(t);
    const inAnHour = inMs(HOUR_MS);
    const [later, never] = [await compute.running(ann, { expires_at: inAnHour }), await compute.running(ann)];
    // Long enough for two changes on a busy machine.
    const soon = inMs(2 * SOON_MS);
    assert.equal((await change(compute, later, soon)).expires_at, soon);
    assert.equal((await change(compute, later, inAnHour)).expires_at, inAnHour);
    assert.equal((await change(compute, never, soon)).expires_at, soon);
    assert.ok(!('expires_at' in (await change(compute, never, null))));
    const body = { name: 'late', ssh_key_ids: [await compute.key(ann)] };
    for (const expires_at of [inMs(-1000), '2001-01-01T00:00:00Z']) {
      assert.match((await refused('invalid_request', change(compute, later, expires_at))).message, /future/);
      await refused('invalid_request', compute.call(createContainer, ann, { body: { ...body, expires_at } }));
    }
    const far = new Date(Date.now() + 101 * 366 * 24 * HOUR_MS).toISOString();
    for (const expires_at of [far, '9999-12-31T23:59:59-23:59', 'tomorrow', '2030-01-31', '2030-13-01T00:00:00Z'])
      await refused('invalid_request', change(compute, later, expires_at));
    await refused('not_found', change(compute, later, inMs(HOUR_MS), bob));
    const [entry] = await readAudit(compute.db, { action: 'container.update', limit: 1 });
    assert.deepEqual(entry?.detail, { expires_at: { before: soon, after: null }, restarted: false });
    // Both have lived past the time that they do not have any more.
    await until(() => Date.now() > Date.parse(soon) + SOON_MS, { what: 'the time of before is over' });
    for (const id of [later, never]) assert.equal((await compute.view(ann, id)).status, 'running');
  });

  test('one that its user stopped before is deleted a day after its user was told that its time is over', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann, { expires_at: inMs(HOUR_MS) });
    await compute.on(stopContainer, ann, id);
    await compute.reaches(ann, id, 'stopped');
    // Nothing ran at its time, nor for a day after it.
    await age(compute, id, 26);
    await compute.stop();
    await compute.start();
    assert.equal((await compute.view(ann, id)).status, 'stopped');
    const isTold = async () =>
      (await compute.notices(ann.userId)).some((notice) => notice.startsWith('Container expired'));
    await until(isTold, { what: 'its user is told' });
    assert.equal((await compute.view(ann, id)).status, 'stopped');
    await age(compute, id, 25);
    await compute.stop();
    await compute.start();
    await compute.on(startContainer, ann, id).catch(() => {});
    await isGone(compute, id);
  });
});
