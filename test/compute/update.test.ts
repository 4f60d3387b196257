/** Changes of a container after its creation: its image, its sizes, its keys, and what becomes of it when a node dies. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createContainer, deleteSshKey, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { ComputeNews } from '../../proto/compute/events.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { getSettings } from '../../proto/compute/workload.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { computeNews } from '../../storage/compute/news.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, PLATFORM_KEY, REGISTRY } from '../support/service/compute.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const [ONE, TWO, MISSING] = [1, 2, 9].map((tag) => `${REGISTRY}/ann/app:${tag}`) as [string, string, string];
const withImages = { engine: { images: [ONE, TWO] } };

const change = (compute: ComputeUnderTest, id: string, body: object, who = ann) =>
  compute.call(updateContainer, who, { params: { id }, body });
const count = (compute: ComputeUnderTest, call: string) => compute.engine.calls.filter((each) => each === call).length;
const auditOf = async (compute: ComputeUnderTest, action = 'container.update') =>
  (await readAudit(compute.db, { action, limit: 10 })).map(({ detail }) => detail);
/** Waits until no image waits, and the container runs. */
const settles = (compute: ComputeUnderTest, id: string) =>
  until(
    async () => {
      const view = await compute.view(ann, id);
      return view.status === 'running' && view.next_image === undefined ? view : undefined;
    },
    { what: 'it runs, and no image waits', timeoutMs: 60_000 },
  );

describe('another image', () => {
  test('is pulled while the container runs on, which is then made anew with the files at its mount paths', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    compute.engine.files(id)?.set('/root/kept', 'x').set('/opt/lost', 'x');
    const release = compute.engine.hold('ensureImage');
    const asked = await change(compute, id, { image: TWO });
    assert.deepEqual([asked.status, asked.image, asked.next_image], ['running', ONE, TWO]);
    assert.match(asked.status_reason ?? '', /app:2 is being pulled\. The container runs on/);
    await until(() => count(compute, `ensureImage ${TWO}`) === 1, { what: 'it is being pulled' });
    // Asked for again, nothing changes; whoever lists sees that it waits.
    await change(compute, id, { image: TWO });
    assert.equal((await compute.list(ann))[0]?.next_image, TWO);
    assert.equal(count(compute, `stop ${id}`), 0);
    release();
    const done = await settles(compute, id);
    assert.deepEqual([done.image, done.status_reason], [TWO, undefined]);
    assert.equal(compute.engine.specOf(id)?.image, TWO);
    assert.deepEqual(
      [compute.engine.files(id)?.get('/root/kept'), compute.engine.files(id)?.get('/opt/lost')],
      ['x', undefined],
    );
    assert.equal(count(compute, `stop ${id}`), 1);
    await change(compute, id, { image: TWO });
    await turns();
    assert.equal(count(compute, `start ${id}`), 2);
    assert.deepEqual(await auditOf(compute), [{ image: { before: ONE, after: TWO }, restarted: false }]);
  });

  test('null, or the name of the default one, is the platform’s own', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    await change(compute, id, { image: null });
    await settles(compute, id);
    assert.equal(compute.engine.specOf(id)?.image, compute.engine.baseImage);
    assert.equal((await change(compute, id, { image: compute.engine.baseImage })).next_image, undefined);
    assert.equal(count(compute, `start ${id}`), 2);
  });

  test('that cannot be pulled leaves the container as it runs, once, and says what to do', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, env: { A: '1' } });
    await change(compute, id, { image: MISSING, env: { A: '2' }, command: ['new'] });
    const view = await until(async () => {
      const now = await compute.view(ann, id);
      return now.next_image === undefined ? now : undefined;
    });
    assert.deepEqual([view.status, view.image], ['running', ONE]);
    const reason = view.status_reason ?? '';
    assert.match(reason, /^The image was not changed to \S+app:9\. .*cannot be pulled: not found\./);
    assert.match(reason, /runs on with \S+app:1\. Push the image or correct its name, and change it again\.$/);
    await turns();
    assert.equal(count(compute, `ensureImage ${MISSING}`), 1);
    assert.equal(count(compute, `stop ${id}`), 0);
    // What was to come with it did not come either.
    const settings = await compute.on(getSettings, ann, id);
    assert.deepEqual([settings.env, settings.command], [{ A: '1' }, null]);
    assert.ok((await compute.notices(ann.userId)).some((text) => text.startsWith('Image not changed: "box"')));
    await change(compute, id, { image: TWO });
    assert.equal((await settles(compute, id)).image, TWO);
  });

  test('is tried again while the registry is away, and not for ever', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    compute.engine.fail('ensureImage', new EngineError('unavailable', 'The registry is away.'), 1);
    await change(compute, id, { image: TWO });
    await until(async () => /away\. The next try is at/.test((await compute.view(ann, id)).status_reason ?? ''));
    assert.equal((await settles(compute, id)).image, TWO);
    const begun = count(compute, `ensureImage ${ONE}`);
    compute.engine.fail('ensureImage', new EngineError('unavailable', 'The registry is away.'), 2);
    await change(compute, id, { image: ONE });
    await until(() => count(compute, `ensureImage ${ONE}`) === begun + 1);
    compute.clock.advance(11 * 60_000);
    const view = await until(async () => {
      const now = await compute.view(ann, id);
      return now.next_image === undefined ? now : undefined;
    });
    assert.deepEqual([view.status, view.image], ['running', TWO]);
    assert.match(view.status_reason ?? '', /The registry is away/);
  });

  test('comes with the settings that fit it: they are run together or not at all', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann);
    const release = compute.engine.hold('ensureImage');
    await change(compute, id, { image: TWO, command: ['serve'] });
    await change(compute, id, { env: { A: '1' } });
    await until(() => count(compute, `ensureImage ${TWO}`) === 1);
    assert.equal(count(compute, `stop ${id}`), 0);
    assert.deepEqual((await compute.on(getSettings, ann, id)).command, null);
    release();
    await settles(compute, id);
    assert.deepEqual(compute.engine.workloadOf(id), { env: { A: '1' }, command: ['serve'] });
    assert.equal(count(compute, `start ${id}`), 2);
    await change(compute, id, { command: null, entrypoint: ['serve'] });
    await settles(compute, id);
    // The platform's own runs its SSH server: an entrypoint is taken away in the same step, or refused.
    const error = await refused('invalid_request', change(compute, id, { image: null }));
    assert.match(error.message, /"entrypoint" is for other images/);
    await change(compute, id, { image: null, entrypoint: null });
    await settles(compute, id);
    assert.deepEqual(compute.engine.workloadOf(id), { env: { A: '1' } });
  });

  test('is given up when the present one is asked for again', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    const release = compute.engine.hold('ensureImage');
    await change(compute, id, { image: TWO, env: { A: '1' } });
    const back = await change(compute, id, { image: ONE });
    assert.deepEqual([back.image, back.next_image, back.status_reason], [ONE, undefined, undefined]);
    release();
    await turns();
    assert.equal((await settles(compute, id)).image, ONE);
    assert.deepEqual([count(compute, `stop ${id}`), (await compute.on(getSettings, ann, id)).env], [0, {}]);
  });

  test('of one that does not run is its image at once, and counts from the next start', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    await compute.on(stopContainer, ann, id);
    const changed = await change(compute, id, { image: TWO });
    assert.deepEqual([changed.status, changed.image, changed.next_image], ['stopped', TWO, undefined]);
    await turns();
    assert.equal(count(compute, `ensureImage ${TWO}`), 0);
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.equal(compute.engine.specOf(id)?.image, TWO);
    // One that waits when it is stopped, too.
    const release = compute.engine.hold('ensureImage');
    await change(compute, id, { image: ONE });
    await compute.on(stopContainer, ann, id);
    const stopped = await until(async () => {
      const view = await compute.view(ann, id);
      return view.next_image === undefined ? view : undefined;
    });
    assert.deepEqual([stopped.status, stopped.image], ['stopped', ONE]);
    release();
  });

  test('mends a start that fails for its image', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.create(ann, { image: MISSING });
    await compute.reaches(ann, id, 'failed');
    assert.equal((await change(compute, id, { image: ONE })).status, 'failed');
    await compute.on(startContainer, ann, id);
    assert.equal((await compute.reaches(ann, id, 'running')).image, ONE);
  });

  test('is checked as at creation', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann);
    const ssh_key_ids = [await compute.key(ann)];
    for (const image of [
      'nginx',
      `${REGISTRY}/eve/app:1`,
      'elsewhere.test/ann/app:1',
      `${REGISTRY}/app`,
      'x'.repeat(513),
    ]) {
      const [there, here] = await Promise.all(
        [
          async () => compute.call(createContainer, ann, { body: { name: 'x', ssh_key_ids, image } }),
          async () => change(compute, id, { image }),
        ].map((work) => refused('invalid_request', work())),
      );
      assert.equal(here?.message, there?.message);
    }
    assert.equal((await compute.view(ann, id)).next_image, undefined);
  });

  for (const call of ['ensureImage', 'stop', 'create', 'start'] as const) {
    test(`goes on when the node that owns the container is lost at ${call}`, async (t) => {
      const compute = await openCompute(t, withImages);
      const id = await compute.running(ann, { image: ONE });
      compute.engine.files(id)?.set('/root/kept', 'x');
      const what = call === 'ensureImage' ? TWO : id;
      const before = count(compute, `${call} ${what}`);
      const release = compute.engine.hold(call);
      await change(compute, id, { image: TWO, env: { A: '1' } });
      await until(() => count(compute, `${call} ${what}`) > before, { what: `it is at ${call}` });
      await compute.stop();
      release();
      await compute.start();
      const view = await settles(compute, id);
      assert.deepEqual([view.image, compute.engine.specOf(id)?.image], [TWO, TWO]);
      assert.deepEqual(compute.engine.workloadOf(id)?.env, { A: '1' });
      assert.equal(compute.engine.files(id)?.get('/root/kept'), 'x');
    });
  }
});

describe('sizes', () => {
  test('are applied to a container that runs, without a restart', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const body = { memory_mb: 1024, instance_type: 'small', storage_gb: 20 };
    const changed = await change(compute, id, body);
    assert.deepEqual(
      [changed.status, changed.memory_mb, changed.instance_type, changed.storage_gb],
      ['running', 1024, 'small', 20],
    );
    await until(async () => (await compute.engine.inspect(id))?.limits?.memoryMb === 1024, { what: 'the limits' });
    assert.equal((await compute.engine.inspect(id))?.limits?.cpus, 2);
    await change(compute, id, body);
    assert.deepEqual([count(compute, `stop ${id}`), count(compute, `start ${id}`)], [0, 1]);
    assert.deepEqual(await auditOf(compute), [
      {
        memory_mb: { before: 512, after: 1024 },
        instance_type: { before: 'nano', after: 'small' },
        storage_gb: { before: 5, after: 20 },
        restarted: false,
      },
    ]);
  });

  test('below what the container uses are refused, and what it does not use may go', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann, { memory_mb: 1024, storage_gb: 10 });
    compute.engine.setUsage(id, { memoryBytes: 600 * 2 ** 20, storageBytes: 3.5 * 2 ** 30 });
    const memory = await refused('invalid_request', change(compute, id, { memory_mb: 512 }));
    assert.match(memory.message, /"memory_mb" must be at least 600, which the container uses now: stop it first/);
    const storage = await refused('invalid_request', change(compute, id, { storage_gb: 3 }));
    assert.match(storage.message, /"storage_gb" must be at least 4, which the container uses: delete files first/);
    assert.equal((await change(compute, id, { memory_mb: 600, storage_gb: 4 })).memory_mb, 600);
    await compute.on(stopContainer, ann, id);
    assert.equal((await change(compute, id, { memory_mb: 128 })).memory_mb, 128);
  });

  test('restart it where the engine must, once it is said that files may go', async (t) => {
    const compute = await openCompute(t, {
      engine: { images: [ONE], keepsFiles: false, resizesRunning: false, shrinksStorage: false },
    });
    const id = await compute.running(ann);
    const error = await refused('discards_files', change(compute, id, { memory_mb: 1024 }));
    assert.match(error.message, /loses all files outside \/root: send "discard": true/);
    // A volume grows as it is.
    assert.equal((await change(compute, id, { storage_gb: 6 })).status, 'running');
    await refused('invalid_request', change(compute, id, { storage_gb: 5 }));
    assert.equal((await change(compute, id, { memory_mb: 1024, discard: true })).status, 'pending');
    await compute.reaches(ann, id, 'running');
    assert.equal((await compute.engine.inspect(id))?.limits?.memoryMb, 1024);
    assert.equal(count(compute, `start ${id}`), 2);
    // With another image it is made anew once, and that was asked for.
    await change(compute, id, { memory_mb: 2048, image: ONE });
    await settles(compute, id);
    assert.equal((await compute.engine.inspect(id))?.limits?.memoryMb, 2048);
    assert.equal(count(compute, `start ${id}`), 3);
  });

  test('are bounded as at creation', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.create(ann);
    const bad = [{ memory_mb: 127 }, { memory_mb: 65_537 }, { storage_gb: 0 }, { storage_gb: 1025 }];
    for (const body of [...bad, { instance_type: 'huge' }, { pull_policy: 'Never' }, { ssh_key_ids: [] }])
      assert.throws(() => callFrom(updateContainer, ann, { params: { id }, body }), { code: 'invalid_request' });
  });
});

describe('SSH keys', () => {
  test('of a container are replaced, and whose sessions must end is told', async (t) => {
    const compute = await openCompute(t);
    const [first, second, third] = [publicKey('first'), publicKey('second'), publicKey('third')];
    const ids = [await compute.key(ann, first), await compute.key(ann, second), await compute.key(ann, third)];
    const id = await compute.running(ann, { ssh_key_ids: ids.slice(0, 2), ssh_enabled: true });
    const told: ComputeNews[] = [];
    const listening = computeNews(compute.db).onNews((news) => void told.push(news));
    t.after(() => listening.close());
    await until(() => told.some(({ kind }) => kind === 'all') || told.length === 0);
    const changed = await change(compute, id, { ssh_key_ids: [ids[2], ids[1], ids[2]] });
    assert.deepEqual([changed.status, changed.ssh_key_ids], ['running', [ids[1], ids[2]]]);
    await until(() => compute.engine.keysOf(id).join() === [PLATFORM_KEY, second, third].join());
    await until(() => told.some((news) => news.kind === 'key' && news.userId === ann.userId));
    assert.equal(told.filter(({ kind }) => kind === 'key').length, 1, 'only of the key that was removed');
    const renewals = count(compute, `renewKeys ${id}`);
    await change(compute, id, { ssh_key_ids: [ids[1], ids[2]] });
    await turns();
    assert.equal(count(compute, `renewKeys ${id}`), renewals);
    assert.deepEqual(await auditOf(compute), [
      { ssh_key_ids: { before: ids.slice(0, 2), after: [ids[1], ids[2]] }, restarted: false },
    ]);
    assert.equal(count(compute, `start ${id}`), 1);
  });

  test('of others and unknown ones are refused, and nothing of the call is done', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const own = await compute.key(ann);
    const theirs = await compute.key(bob);
    const gone = await compute.key(ann);
    await compute.call(deleteSshKey, ann, { params: { id: String(gone) } });
    for (const key of [theirs, gone]) {
      const body = { ssh_key_ids: [own, key], memory_mb: 1024, name: 'other' };
      const error = await refused('invalid_request', change(compute, id, body));
      assert.match(error.message, new RegExp(`you have no SSH key ${key}`));
    }
    const view = await compute.view(ann, id);
    assert.deepEqual([view.name, view.memory_mb, view.ssh_key_ids?.includes(own)], ['box', 512, false]);
    assert.deepEqual(await auditOf(compute), []);
  });
});

test('the pull policy counts from the next start, and the call is its owner’s alone', async (t) => {
  const compute = await openCompute(t, withImages);
  const id = await compute.running(ann, { image: ONE });
  assert.equal((await change(compute, id, { pull_policy: 'Always' })).pull_policy, 'Always');
  assert.deepEqual(await auditOf(compute), [
    { pull_policy: { before: 'IfNotPresent', after: 'Always' }, restarted: false },
  ]);
  await change(compute, id, { pull_policy: 'Always' });
  assert.equal((await auditOf(compute)).length, 1);
  assert.equal(count(compute, `start ${id}`), 1);
  for (const body of [{ image: TWO }, { memory_mb: 1024 }, { pull_policy: 'IfNotPresent' }])
    await refused('not_found', change(compute, id, body, bob));
});
