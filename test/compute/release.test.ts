/** The release command of a container: it runs once in a new image, before that gets traffic. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { getSettings } from '../../proto/compute/workload.ts';
import { EngineError, type OnceOutcome } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { containerById } from '../../storage/compute/containers.ts';
import type { MemoryOnce } from '../support/engine/memory-engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const SECRET = 'hunter2-canary';
const [ONE, TWO] = [`${REGISTRY}/ann/app:1`, `${REGISTRY}/ann/app:2`] as const;
const release = ['migrate', '--up'];
const WELL: OnceOutcome = { exitCode: 0, oomKilled: false, lines: [] };
const line = (text: string) => `2026-01-01T00:00:00.000000000Z ${text}`;
const FAILED: OnceOutcome = {
  exitCode: 3,
  oomKilled: false,
  lines: [line('table users'), line(`cannot reach psql://app:${SECRET}@db`)],
};

/** What was run once, in order, and what comes of it: by default it goes well. */
async function open(t: Parameters<typeof openCompute>[0], more: object = {}) {
  const runs: MemoryOnce[] = [];
  const world: { answer: (run: MemoryOnce) => OnceOutcome | Promise<OnceOutcome> } = { answer: () => WELL };
  const onOnce = (run: MemoryOnce) => {
    runs.push(run);
    return world.answer(run);
  };
  const compute = await openCompute(t, { engine: { images: [ONE, TWO], hasSuccessors: true, onOnce, ...more } });
  return { compute, runs, world };
}
const change = (compute: ComputeUnderTest, id: string, body: object, who = ann) =>
  compute.call(updateContainer, who, { params: { id }, body });
const settled = (compute: ComputeUnderTest, id: string) =>
  until(
    async () => {
      const view = await compute.view(ann, id);
      return view.next_image === undefined && view.status === 'running' ? view : undefined;
    },
    { what: 'no image waits', timeoutMs: 60_000 },
  );
const fails = (compute: ComputeUnderTest, id: string) =>
  until(
    async () => {
      const view = await compute.view(ann, id);
      return view.status === 'failed' ? view : undefined;
    },
    { what: 'it has failed' },
  );
const never = ({ signal }: MemoryOnce) =>
  new Promise<OnceOutcome>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

describe('at the first start', () => {
  test('the command runs before the container does, with its settings, and not again at the next starts', async (t) => {
    const { compute, runs } = await open(t);
    const body = { image: ONE, release, env: { PORT: '80' }, secrets: { KEY: SECRET }, working_dir: '/srv' };
    const id = await compute.running(ann, body);
    assert.equal(runs.length, 1);
    assert.deepEqual(runs[0]?.workload, {
      env: { PORT: '80', KEY: SECRET },
      command: release,
      workingDir: '/srv',
    });
    assert.deepEqual([runs[0]?.spec.image, runs[0]?.spec.mountPaths], [ONE, ['/root']]);
    const calls = compute.engine.calls.filter((call) => /^(?:create|runOnce|start) /.test(call));
    assert.deepEqual(calls, [`create ${id}`, `runOnce ${id}`, `start ${id}`]);
    // What the container itself runs is the image's own.
    assert.equal(compute.engine.workloadOf(id)?.command, undefined);
    await compute.on(stopContainer, ann, id);
    await compute.on(startContainer, ann, id);
    await settled(compute, id);
    compute.engine.crash(id);
    await until(() => compute.engine.calls.filter((call) => call === `start ${id}`).length === 3, { what: 'again' });
    assert.equal(runs.length, 1);
  });

  test('one that fails fails the container, and runs again when it is started', async (t) => {
    const { compute, runs, world } = await open(t);
    world.answer = () => FAILED;
    const id = await compute.create(ann, { image: ONE, release, secrets: { KEY: SECRET } });
    const { status_reason } = await fails(compute, id);
    assert.equal(
      status_reason,
      'The release command ended with exit code 3, and said last: table users | cannot reach psql://app:***@db. ' +
        'The container is not started: mend that, and start it again.',
    );
    assert.ok(!compute.engine.calls.includes(`start ${id}`));
    world.answer = () => WELL;
    await change(compute, id, { release: ['other'] });
    await compute.on(startContainer, ann, id);
    await settled(compute, id);
    assert.deepEqual(runs.at(-1)?.workload.command, ['other']);
    assert.ok(!JSON.stringify([await readAudit(compute.db, { limit: 50 }), compute.log.lines]).includes(SECRET));
  });

  test('it runs in another image that is set while the container is stopped', async (t) => {
    const { compute, runs } = await open(t);
    const id = await compute.running(ann, { image: ONE, release });
    await compute.on(stopContainer, ann, id);
    await change(compute, id, { image: TWO });
    await compute.on(startContainer, ann, id);
    await settled(compute, id);
    assert.deepEqual(
      runs.map(({ spec }) => spec.image),
      [ONE, TWO],
    );
  });
});

describe('before another image', () => {
  for (const [what, more] of Object.entries({
    'takes the place of one without mount paths': { stateless: true },
    'makes one with mount paths anew': {},
  }))
    test(`${what}, it runs once with the settings to come, and leaves nothing to be read`, async (t) => {
      const { compute, runs } = await open(t);
      const id = await compute.running(ann, { image: ONE, ...more });
      assert.equal(runs.length, 0);
      await change(compute, id, {
        image: TWO,
        release,
        env: { A: '2' },
        egress: 'none',
        network: 'shop',
        alias: 'app',
      });
      const view = await settled(compute, id);
      assert.deepEqual([view.image, view.status_reason], [TWO, undefined]);
      assert.equal(runs.length, 1);
      const [{ spec, workload, network } = {} as MemoryOnce] = runs;
      assert.deepEqual([spec.image, spec.egress, spec.mountPaths, workload.env], [TWO, [], [], { A: '2' }]);
      assert.deepEqual([network?.name, network?.owner], ['shop', ann.userId]);
      const { releaseDue, nextReleased } = (await containerById(compute.db, id)) ?? {};
      assert.deepEqual([releaseDue, nextReleased], [false, false]);
      // A change of the settings alone restarts it, and runs nothing.
      await change(compute, id, { env: { A: '3' }, release: ['other'] });
      await settled(compute, id);
      assert.equal(runs.length, 1);
    });

  test('with `overlap` it has the mount paths', async (t) => {
    const { compute, runs } = await open(t);
    const id = await compute.running(ann, { image: ONE, overlap: true });
    await change(compute, id, { image: TWO, release });
    await settled(compute, id);
    assert.deepEqual(runs[0]?.spec.mountPaths, ['/root']);
  });

  test('one that fails leaves the container as it is, with the reason, which holds no secret', async (t) => {
    const { compute, world } = await open(t);
    const id = await compute.running(ann, { image: ONE, secrets: { KEY: SECRET } });
    const before = await compute.engine.inspect(id);
    world.answer = () => FAILED;
    await change(compute, id, { image: TWO, release });
    const { image, status_reason = '' } = await settled(compute, id);
    assert.equal(image, ONE);
    assert.match(
      status_reason,
      /^The image was not changed to \S+app:2\. The release command ended with exit code 3, /,
    );
    assert.match(
      status_reason,
      /said last: table users \| cannot reach psql:\/\/app:\*\*\*@db\. The container runs on/,
    );
    assert.match(status_reason, /runs on with \S+app:1\. Mend that, and change it again\.$/);
    assert.deepEqual(await compute.engine.inspect(id), before);
    assert.deepEqual((await compute.call(getSettings, ann, { params: { id } })).release, undefined);
    const notices = await compute.notices(ann.userId);
    assert.ok(
      notices.some((text) => /^Image not changed: "box": .*exit code 3/.test(text)),
      notices.join('\n'),
    );
    const traces = [notices, await readAudit(compute.db, { limit: 50 }), compute.log.lines];
    assert.ok(!JSON.stringify(traces).includes(SECRET));
    for (const [outcome, sentence] of [
      [{ ...WELL, exitCode: null }, /The release command did not end within 10 minutes\. /],
      [{ ...WELL, exitCode: 137, oomKilled: true }, /The release command ran out of memory\. /],
    ] as const) {
      world.answer = () => outcome;
      await change(compute, id, { image: TWO, release });
      assert.match((await settled(compute, id)).status_reason ?? '', sentence);
    }
  });

  test('what keeps it from being run is told without secrets, and tried again where that may pass', async (t) => {
    const { compute, runs, world } = await open(t);
    const id = await compute.running(ann, { image: ONE, secrets: { KEY: SECRET } });
    world.answer = () => Promise.reject(new EngineError('refused', `exec: "${SECRET}": not found.`));
    await change(compute, id, { image: TWO, release });
    assert.match(
      (await settled(compute, id)).status_reason ?? '',
      /The release command could not be run\. exec: "\*\*\*": not found\. .* Mend that, and change it again\.$/,
    );
    world.answer = () => Promise.reject(new EngineError('unavailable', 'No node has room.'));
    await change(compute, id, { image: TWO, release });
    const reads = async () => (await compute.view(ann, id)).status_reason ?? '';
    await until(async () => /^The release command could not be run\. No node has room\. /.test(await reads()), {
      what: 'its user reads of it',
    });
    world.answer = () => WELL;
    assert.equal((await settled(compute, id)).image, TWO);
    assert.ok(runs.length >= 3);
    assert.ok(!JSON.stringify([await readAudit(compute.db, { limit: 50 }), compute.log.lines]).includes(SECRET));
  });

  test('its user reads that it runs, and it is ended when the change is taken back', async (t) => {
    const { compute, runs, world } = await open(t);
    const id = await compute.running(ann, { image: ONE });
    world.answer = never;
    await change(compute, id, { image: TWO, release });
    await until(
      async () => /^The release command runs in the new image/.test((await compute.view(ann, id)).status_reason ?? ''),
      {
        what: 'its user reads of it',
      },
    );
    await change(compute, id, { image: ONE });
    assert.equal((await settled(compute, id)).image, ONE);
    await until(() => runs[0]?.signal.aborted, { what: 'it is ended' });
  });

  test('settings that come meanwhile have it run with those', async (t) => {
    const { compute, runs, world } = await open(t);
    const id = await compute.running(ann, { image: ONE });
    let finish: (outcome: OnceOutcome) => void = () => undefined;
    world.answer = () => new Promise((resolve) => (finish = resolve));
    await change(compute, id, { image: TWO, release });
    await until(() => runs.length === 1, { what: 'it runs' });
    world.answer = () => WELL;
    await change(compute, id, { env: { A: '2' } });
    finish(WELL);
    assert.equal((await settled(compute, id)).image, TWO);
    assert.deepEqual(
      runs.map(({ workload }) => workload.env),
      [{}, { A: '2' }],
    );
  });

  test('it is not run again by the next owner once it went well, and is when it was cut off', async (t) => {
    const { compute, runs, world } = await open(t);
    const id = await compute.running(ann, { image: ONE, stateless: true });
    world.answer = never;
    await change(compute, id, { image: TWO, release });
    await until(() => runs.length === 1, { what: 'it runs' });
    await compute.stop();
    world.answer = () => WELL;
    const goOn = compute.engine.hold('beginSuccessor');
    await compute.start();
    await until(async () => (await containerById(compute.db, id))?.nextReleased, { what: 'it went well' });
    assert.equal(runs.length, 2);
    await until(() => compute.engine.calls.includes(`beginSuccessor ${id}`), { what: 'the new one begins' });
    const ending = compute.stop();
    goOn();
    await ending;
    await compute.start();
    assert.equal((await settled(compute, id)).image, TWO);
    assert.equal(runs.length, 2);
  });
});

describe('the setting', () => {
  test("is shown while there is one, sealed and audited by name, and is its owner's to change", async (t) => {
    const { compute } = await open(t);
    const id = await compute.running(ann, { image: ONE, release: ['migrate', SECRET] });
    const settings = () => compute.call(getSettings, ann, { params: { id } });
    assert.deepEqual((await settings()).release, ['migrate', SECRET]);
    const sealed = await compute.db.many(
      z.object({ text: z.string() }),
      'select c::text || s::text as text from containers c join container_settings s on container_id = id',
    );
    assert.ok(!JSON.stringify(sealed).includes(SECRET));
    await refused('not_found', change(compute, id, { release: null }, bob));
    await change(compute, id, { release: null });
    assert.equal((await settings()).release, undefined);
    const [detail] = (await readAudit(compute.db, { action: 'container.settings', limit: 1 })).map((one) => one.detail);
    assert.deepEqual(detail, { replaced: ['release'], restarted: false });
    for (const words of [[], [''], 'migrate', ['a\0b']])
      await refused('invalid_request', change(compute, id, { release: words }));
  });
});
