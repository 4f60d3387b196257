/** Another image for a container without mount paths: a new one takes the place of the one that runs. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { stopContainer } from '../../proto/compute/endpoints.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { successorId } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { containerById } from '../../storage/compute/containers.ts';
import type { MemoryCommand, MemoryEngine } from '../support/engine/memory-engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { pause } from '../support/pause.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const [ONE, TWO, CRASHING, SILENT] = ['1', '2', 'crash', 'silent'].map((tag) => `${REGISTRY}/ann/app:${tag}`) as [
  string,
  string,
  string,
  string,
];
const stateless = { image: ONE, stateless: true };

/** Each listens at port 22 and, unless it is SILENT, at 8080; CRASHING ends at once. */
function start(id: string, engine: MemoryEngine): void {
  const image = engine.specOf(id)?.image;
  if (image === CRASHING) {
    engine.print(id, ['no database psql://app:hunter2@db']);
    engine.crash(id, { exitCode: 3 });
    return;
  }
  engine.listen(id, 22, (stream) => void stream.on('error', () => undefined).write('SSH-2.0-memory\r\n'));
  if (image !== SILENT) engine.listen(id, 8080, (stream) => void stream.on('error', () => undefined));
}

const open = (t: Parameters<typeof openCompute>[0], more: object = {}) =>
  openCompute(t, {
    engine: { images: [ONE, TWO, CRASHING, SILENT], hasSuccessors: true, onStart: start, ...more },
  });
const change = (compute: ComputeUnderTest, id: string, body: object) =>
  compute.call(updateContainer, ann, { params: { id }, body });
const count = (compute: ComputeUnderTest, call: string) => compute.engine.calls.filter((each) => each === call).length;
const noImageWaits = (compute: ComputeUnderTest, id: string) =>
  until(
    async () => {
      const view = await compute.view(ann, id);
      return view.next_image === undefined ? view : undefined;
    },
    { what: 'no image waits', timeoutMs: 60_000 },
  );
const overlapOf = async (compute: ComputeUnderTest, id: string) => {
  const { overlap, changes_without_pause } = await compute.view(ann, id);
  return [overlap, changes_without_pause];
};
const row = (compute: ComputeUnderTest, id: string) => containerById(compute.db, id);
const predecessorIsGone = (compute: ComputeUnderTest, id: string) =>
  until(async () => (await row(compute, id))?.predecessorSince === null, { what: 'the one before is ended' });

/** One whose new container is ready, while the engine is held at taking it in: `release` lets it go on. */
async function promoting(t: Parameters<typeof open>[0]) {
  const compute = await open(t);
  const id = await compute.running(ann, stateless);
  const release = compute.engine.hold('promote');
  await change(compute, id, { image: TWO });
  await until(() => count(compute, `promote ${id}`) === 1, { what: 'the new one is ready' });
  return { compute, id, release };
}

describe('a container without mount paths gets another image', () => {
  test('without ever not running, and what ran before is ended some time later, in its own time', async (t) => {
    const compute = await open(t);
    const id = await compute.running(ann, { ...stateless, stop_grace: 7 });
    const before = await compute.engine.inspect(id);
    const updates = await compute.updates(ann);
    await change(compute, id, { image: TWO, env: { A: '2' } });
    const done = await noImageWaits(compute, id);
    const after = await compute.engine.inspect(id);
    assert.deepEqual([done.status, done.image, done.status_reason], ['running', TWO, undefined]);
    assert.notEqual(after?.address, before?.address);
    assert.deepEqual([compute.engine.specOf(id)?.image, compute.engine.workloadOf(id)?.env], [TWO, { A: '2' }]);
    assert.equal((await row(compute, id))?.address, after?.address);
    assert.equal(count(compute, `stop ${id}`), 0);
    assert.ok(!updates.texts.some((text) => /"status":"(?:pending|initializing|stopped)"/.test(text)));
    // The one before still serves what it had begun.
    assert.deepEqual(compute.engine.gracesOf(id), []);
    await compute.stop();
    compute.clock.advance(30_000);
    await compute.start();
    await predecessorIsGone(compute, id);
    assert.deepEqual(compute.engine.gracesOf(id), [7]);
    assert.equal((await compute.engine.inspect(id))?.address, after?.address);
  });

  test('once its check of health is well', async (t) => {
    const compute = await open(t);
    const health = { tcp: { port: 8080 }, grace: 600 };
    const id = await compute.running(ann, { ...stateless, health });
    await compute.healthBecomes(ann, id, 'healthy');
    await change(compute, id, { image: TWO });
    const done = await noImageWaits(compute, id);
    assert.deepEqual([done.image, done.health], [TWO, 'healthy']);
  });

  test('or keeps the one that runs, with the reason, when the new one is not healthy in time', async (t) => {
    const compute = await open(t);
    const id = await compute.running(ann, { ...stateless, health: { tcp: { port: 8080 }, grace: 600 } });
    await compute.healthBecomes(ann, id, 'healthy');
    const before = await compute.engine.inspect(id);
    await change(compute, id, { image: SILENT, health: { tcp: { port: 8080 }, grace: 1 } });
    const { status, image, status_reason = '' } = await noImageWaits(compute, id);
    assert.deepEqual([status, image], ['running', ONE]);
    assert.match(status_reason, /^The image was not changed to \S+app:silent\. It was not healthy within 1 s: nothing/);
    assert.match(status_reason, /runs on with \S+app:1\. Mend that, and change it again\.$/);
    assert.deepEqual(await compute.engine.inspect(id), before);
    assert.equal(await compute.engine.inspect(successorId(id)), undefined);
    assert.ok((await compute.notices(ann.userId)).some((text) => text.startsWith('Image not changed: "box": ')));
  });

  test('or keeps the one that runs when the new one ends, with what that said last', async (t) => {
    const compute = await open(t);
    const id = await compute.running(ann, stateless);
    await change(compute, id, { image: CRASHING, secrets: { PASSWORD: 'hunter2' } });
    const { status, image, status_reason = '' } = await noImageWaits(compute, id);
    assert.deepEqual([status, image], ['running', ONE]);
    assert.match(
      status_reason,
      /app:crash\. It ended with exit code 3, and said last: no database psql:\/\/app:\*\*\*@db\. The container runs/,
    );
    assert.equal(await compute.engine.inspect(successorId(id)), undefined);
  });

  test('after a way back on the engine: what it runs is what its row says', async (t) => {
    const { compute, id, release } = await promoting(t);
    // Its user does not want it any more; the engine has been told.
    await change(compute, id, { image: ONE });
    release();
    await until(async () => count(compute, `start ${id}`) === 2, { what: 'it is made anew' });
    assert.equal((await compute.reaches(ann, id, 'running')).image, ONE);
    assert.equal(compute.engine.specOf(id)?.image, ONE);
  });

  test('after a way back whose node is lost when the engine was told: nothing of the other one stays', async (t) => {
    const { compute, id, release } = await promoting(t);
    await change(compute, id, { image: ONE });
    await compute.stop();
    release();
    await turns();
    assert.equal(compute.engine.specOf(id)?.image, TWO);
    await compute.start();
    await until(async () => compute.engine.specOf(id)?.image === ONE, { what: 'it is made anew' });
    const view = await compute.reaches(ann, id, 'running');
    assert.deepEqual([view.image, view.next_image, (await row(compute, id))?.isPromoting], [ONE, undefined, false]);
    assert.equal((await row(compute, id))?.address, (await compute.engine.inspect(id))?.address);
    // Of the one before nothing runs on, and this one is let be.
    // Its time may be counted only now.
    const isOver = async () => {
      compute.clock.advance(30_000);
      return (await row(compute, id))?.predecessorSince === null;
    };
    await until(isOver, { what: 'the one before is ended' });
    assert.deepEqual([count(compute, `stop ${id}`), compute.engine.specOf(id)?.image], [1, ONE]);
  });

  test('and what a platform that ended left beside it is ended, when nothing waits any more', async (t) => {
    const compute = await open(t);
    const id = await compute.running(ann, { ...stateless, stop_grace: 7 });
    const before = await compute.engine.inspect(id);
    await compute.stop();
    const spec = compute.engine.specOf(id) ?? assert.fail('it is not there');
    await compute.engine.beginSuccessor(spec, [], undefined, undefined);
    assert.equal((await compute.engine.inspect(id))?.hasOthers, true);
    await compute.start();
    await until(async () => (await compute.engine.inspect(successorId(id))) === undefined, { what: 'it is ended' });
    assert.deepEqual(await compute.engine.inspect(id), before);
    assert.equal(count(compute, `stop ${id}`), 0);
  });

  for (const call of ['beginSuccessor', 'promote'] as const) {
    test(`with the settings of a change that comes while the engine is at ${call}`, async (t) => {
      const compute = await open(t);
      const id = await compute.running(ann, stateless);
      const release = compute.engine.hold(call);
      await change(compute, id, { image: TWO, env: { A: '1' } });
      await until(() => count(compute, `${call} ${id}`) === 1, { what: 'the new one begins' });
      await change(compute, id, { env: { A: '2' } });
      release();
      await noImageWaits(compute, id);
      await compute.reaches(ann, id, 'running');
      assert.deepEqual([compute.engine.specOf(id)?.image, compute.engine.workloadOf(id)?.env], [TWO, { A: '2' }]);
    });
  }

  test('in its private network, under its alias, at one of two places that no other member gets', async (t) => {
    const compute = await open(t);
    const id = await compute.running(ann, { ...stateless, network: 'shop', alias: 'web' });
    const places: (number | undefined)[] = [];
    for (const image of [TWO, ONE, TWO]) {
      const release = compute.engine.hold('promote');
      await change(compute, id, { image });
      await until(() => count(compute, `promote ${id}`) > places.length, { what: 'the new one is ready' });
      assert.equal((await compute.engine.inspect(id))?.network?.alias, 'web');
      assert.equal((await compute.engine.inspect(successorId(id)))?.network?.alias, null);
      release();
      const view = await noImageWaits(compute, id);
      const [now, actual] = [await row(compute, id), await compute.engine.inspect(id)];
      assert.deepEqual([view.status, view.alias, view.changes_without_pause], ['running', 'web', true]);
      assert.deepEqual(actual?.network, { owner: ann.userId, ...now?.network });
      places.push(now?.network?.place);
    }
    assert.deepEqual(places, [13, 1, 13]);
    assert.equal(count(compute, `stop ${id}`), 0);
    const other = await compute.running(ann, { network: 'shop' });
    assert.equal((await row(compute, other))?.network?.place, 2);
  });

  test('once it takes connections where the one before is seen to listen, if others find it by an alias', async (t) => {
    const listening = 'LISTEN 0 511 *:8080 *:* users:(("node",pid=7,fd=18))\nLISTEN 0 511 127.0.0.1:9229 *:*\n';
    const compute = await open(t, {
      onRun: (command: MemoryCommand) => {
        command.stdout.write(listening);
        command.exit(0);
      },
    });
    const id = await compute.running(ann, { ...stateless, network: 'shop', alias: 'web' });
    await change(compute, id, { image: SILENT });
    await until(() => compute.engine.specOf(successorId(id)) !== undefined, { what: 'the new one begins' });
    await pause(1500, 'watch');
    assert.equal(count(compute, `promote ${id}`), 0);
    compute.engine.listen(successorId(id), 8080, (stream) => void stream.on('error', () => undefined));
    assert.equal((await noImageWaits(compute, id)).image, SILENT);
  });

  test('by a later one when its alias is given up meanwhile, which may be of another container then', async (t) => {
    const compute = await open(t);
    const id = await compute.running(ann, { ...stateless, network: 'shop', alias: 'web' });
    const release = compute.engine.hold('beginSuccessor');
    await change(compute, id, { image: TWO });
    await until(() => count(compute, `beginSuccessor ${id}`) === 1, { what: 'the new one begins' });
    await change(compute, id, { alias: 'old' });
    const other = await compute.running(ann, { network: 'shop', alias: 'web' });
    release();
    assert.equal((await noImageWaits(compute, id)).image, TWO);
    assert.deepEqual([count(compute, `beginSuccessor ${id}`), count(compute, `promote ${id}`)], [2, 1]);
    assert.equal((await compute.engine.inspect(id))?.network?.alias, 'old');
    assert.equal((await compute.engine.inspect(other))?.network?.alias, 'web');
  });

  test('some time after the last change, if others find it by an alias: none is ended to whom somebody is on the way', async (t) => {
    const compute = await open(t, { aliasLastsMs: 5000 });
    const id = await compute.running(ann, { ...stateless, network: 'shop', alias: 'web' });
    await change(compute, id, { image: TWO });
    await noImageWaits(compute, id);
    await change(compute, id, { image: ONE });
    await until(async () => (await compute.view(ann, id)).next_image === ONE, { what: 'it waits' });
    await pause(500, 'watch');
    assert.equal(count(compute, `beginSuccessor ${id}`), 1);
    assert.deepEqual(compute.engine.gracesOf(id), []);
    // Half a minute, and as long as it may still be found.
    compute.clock.advance(5000);
    assert.equal((await noImageWaits(compute, id)).image, ONE);
    assert.equal(count(compute, `beginSuccessor ${id}`), 2);
    const later = async (ms: number) => {
      await compute.stop();
      compute.clock.advance(ms);
      await compute.start();
    };
    await later(20_000);
    await pause(500, 'watch');
    assert.notEqual((await row(compute, id))?.predecessorSince, null);
    await later(15_000);
    await predecessorIsGone(compute, id);
  });

  test('not any more once it is stopped: nothing of either runs on', async (t) => {
    const compute = await open(t);
    const id = await compute.running(ann, stateless);
    const release = compute.engine.hold('beginSuccessor');
    await change(compute, id, { image: TWO });
    await until(() => count(compute, `beginSuccessor ${id}`) === 1, { what: 'the new one begins' });
    await compute.on(stopContainer, ann, id);
    release();
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited', { what: 'it is stopped' });
    await until(async () => (await compute.engine.inspect(successorId(id))) === undefined, { what: 'both are' });
    assert.equal((await noImageWaits(compute, id)).image, TWO);
  });

  test('with mount paths, too, once its owner says that two may write to them', async (t) => {
    const compute = await open(t);
    const id = await compute.running(ann, { image: ONE });
    assert.deepEqual(await overlapOf(compute, id), [undefined, false]);
    assert.equal((await change(compute, id, { overlap: true })).overlap, true);
    assert.deepEqual(await overlapOf(compute, id), [true, true]);
    await refused('not_found', compute.call(updateContainer, bob, { params: { id }, body: { overlap: false } }));
    const calls = compute.engine.calls.length;
    await change(compute, id, { image: TWO });
    assert.equal((await noImageWaits(compute, id)).status, 'running');
    assert.deepEqual(
      compute.engine.calls.slice(calls).filter((call) => /^(?:beginSuccessor|promote|stop) /.test(call)),
      [`beginSuccessor ${id}`, `promote ${id}`],
    );
    await change(compute, id, { overlap: false });
    assert.deepEqual(await overlapOf(compute, id), [undefined, false]);
    const [set, unset] = (await readAudit(compute.db, { action: 'container.update', limit: 10 })).filter(
      ({ detail }) => 'overlap' in detail,
    );
    assert.deepEqual(set?.detail.overlap, { before: false, after: true });
    assert.deepEqual(unset?.detail.overlap, { before: true, after: false });
  });

  test('and cannot have that where the engine does not share mount paths', async (t) => {
    const compute = await open(t, { sharesMountPaths: false });
    await refused('invalid_request', compute.create(ann, { image: ONE, overlap: true }));
    const id = await compute.running(ann, { image: ONE, overlap: false });
    await refused('invalid_request', change(compute, id, { overlap: true }));
  });

  test('by a restart where it has mount paths, or where the engine has no successors', async (t) => {
    for (const [body, more] of [
      [{ image: ONE }, {}],
      [stateless, { hasSuccessors: false }],
    ] as const) {
      const compute = await open(t, more);
      const id = await compute.running(ann, body);
      assert.equal((await compute.view(ann, id)).changes_without_pause, false);
      await change(compute, id, { image: TWO });
      await noImageWaits(compute, id);
      await compute.reaches(ann, id, 'running');
      assert.deepEqual([count(compute, `stop ${id}`), count(compute, `beginSuccessor ${id}`)], [1, 0]);
    }
  });

  for (const call of ['beginSuccessor', 'promote', 'endOthers'] as const) {
    test(`also when the node that owns it is lost at ${call}`, async (t) => {
      const compute = await open(t);
      const id = await compute.running(ann, stateless);
      const release = compute.engine.hold(call);
      if (call === 'endOthers') compute.clock.advance(30_000);
      await change(compute, id, { image: TWO, env: { A: '1' } });
      await until(() => count(compute, `${call} ${id}`) > 0, { what: `it is at ${call}` });
      await compute.stop();
      release();
      await turns();
      await compute.start();
      compute.clock.advance(30_000);
      const view = await noImageWaits(compute, id);
      assert.deepEqual([view.image, compute.engine.specOf(id)?.image], [TWO, TWO]);
      assert.deepEqual(compute.engine.workloadOf(id)?.env, { A: '1' });
      await predecessorIsGone(compute, id);
      assert.equal((await row(compute, id))?.address, (await compute.engine.inspect(id))?.address);
    });
  }
});
