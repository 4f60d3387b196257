/** Settings of a workload: what it is started with, who sees what, and that secrets are nowhere else. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { createContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { getSettings } from '../../proto/compute/workload.ts';
import { readAudit } from '../../storage/audit.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const SECRET = 'canary-7f3a9c';
const IMAGE = `${REGISTRY}/ann/app:1`;
const withImage = { engine: { images: [IMAGE] } };

const change = (compute: ComputeUnderTest, id: string, body: object, who = ann) =>
  compute.call(updateContainer, who, { params: { id }, body });
const settings = (compute: ComputeUnderTest, id: string) => compute.on(getSettings, ann, id);
const starts = (compute: ComputeUnderTest, id: string) =>
  compute.engine.calls.filter((call) => call === `start ${id}`).length;
const auditOf = async (compute: ComputeUnderTest, action: string) =>
  (await readAudit(compute.db, { action, limit: 10 })).map(({ detail }) => detail);

describe('at creation', () => {
  test('the workload gets what was said, and views are as without', async (t) => {
    const compute = await openCompute(t, withImage);
    const body = {
      env: { PORT: '8080', GONE: null },
      secrets: { KEY: SECRET },
      command: ['serve', '--all'],
      entrypoint: ['/bin/app'],
      working_dir: '/srv',
    };
    const id = await compute.running(ann, { ...body, image: IMAGE });
    assert.deepEqual(compute.engine.workloadOf(id), {
      env: { PORT: '8080', KEY: SECRET },
      command: ['serve', '--all'],
      entrypoint: ['/bin/app'],
      workingDir: '/srv',
    });
    assert.equal(compute.engine.specOf(id)?.isConfigured, true);
    assert.deepEqual(await settings(compute, id), {
      ...{ ...body, env: { PORT: '8080' }, secrets: ['KEY'] },
      ...{ stop_grace: 10, restart: 'always', health: null },
    });
    const plain = await compute.running(ann, { image: IMAGE });
    assert.equal(compute.engine.workloadOf(plain), undefined);
    assert.equal(compute.engine.specOf(plain)?.isConfigured, undefined);
    assert.deepEqual(await settings(compute, plain), {
      ...{
        env: {},
        secrets: [],
        command: null,
        entrypoint: null,
        working_dir: null,
        stop_grace: 10,
        restart: 'always',
        health: null,
      },
    });
    const fields = async (of: string) => Object.keys(await compute.view(ann, of));
    assert.deepEqual(await fields(id), await fields(plain));
    const said = { name: 'box', instance_type: 'nano', image: IMAGE };
    const news = { env: ['PORT'], secrets: ['KEY'], replaced: ['command', 'entrypoint', 'working_dir'] };
    assert.deepEqual(await auditOf(compute, 'container.create'), [{ ...said, settings: news }, said]);
  });

  test('what is out of bounds is refused, and named', async (t) => {
    const compute = await openCompute(t, withImage);
    const ssh_key_ids = [await compute.key(ann)];
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`V${i}`, '']));
    const bad: [body: object, said: RegExp][] = [
      [{ env: { '1A': 'x' } }, /1 to 128 letters/],
      [{ env: { 'A-B': 'x' } }, /1 to 128 letters/],
      [{ env: { ['A'.repeat(129)]: 'x' } }, /1 to 128 letters/],
      [{ env: { TROUPE_ID: 'x' } }, /name of the platform/],
      [{ env: { A: 'a\0b' } }, /NUL/],
      [{ env: { A: '\ud800' } }, /Unicode/],
      [{ secrets: { A: `${SECRET}${'x'.repeat(32_768)}` } }, /32768 bytes/],
      [{ env: { A: 1 } }, /a string/],
      [{ env: { A: 'x' }, secrets: { A: 'y' } }, /already/],
      [{ env: many, secrets: Object.fromEntries(Object.keys(many).map((name) => [`S${name}`, ''])) }, /200 variables/],
      [{ env: Object.fromEntries([...'ABCDE'].map((name) => [name, 'x'.repeat(32_000)])) }, /131072 bytes/],
      [{ entrypoint: ['run'] }, /for other images/],
      [{ command: [] }, /null leaves it to the image/],
      [{ command: [''] }, /name of a program/],
      [{ entrypoint: 'sh -c x' }, /a list/],
      [{ working_dir: 'srv' }, /absolute path/],
      [{ working_dir: '/a\nb' }, /absolute path/],
    ];
    for (const [body, said] of bad) {
      const error = await refused(
        'invalid_request',
        compute.call(createContainer, ann, { body: { name: 'x', ssh_key_ids, ...body } }),
      );
      const text = JSON.stringify([error.message, error.fields]);
      assert.match(text, said);
      assert.ok(!text.includes(SECRET));
    }
    assert.deepEqual(await compute.list(ann), []);
  });
});

describe('a change', () => {
  test('merges variables by name, and restarts what runs, once', async (t) => {
    const compute = await openCompute(t, withImage);
    const id = await compute.running(ann, { image: IMAGE, env: { A: '1', B: '1' }, secrets: { KEY: SECRET } });
    const changed = await change(compute, id, { env: { B: '2', A: null, C: '3' }, command: ['run'] });
    assert.equal(changed.status, 'pending');
    await compute.reaches(ann, id, 'running');
    await until(() => starts(compute, id) === 2, { what: 'it was started again' });
    assert.deepEqual(compute.engine.workloadOf(id), { env: { B: '2', C: '3', KEY: SECRET }, command: ['run'] });
    assert.deepEqual(await auditOf(compute, 'container.settings'), [
      { env: ['B', 'C'], removed: ['A'], replaced: ['command'], restarted: true },
    ]);
    // What is so already.
    const same = await change(compute, id, { env: { B: '2', Z: null }, secrets: { KEY: SECRET }, command: ['run'] });
    assert.equal(same.status, 'running');
    assert.equal((await auditOf(compute, 'container.settings')).length, 1);
    assert.equal(starts(compute, id), 2);
    // A variable becomes a secret in one step.
    await refused('invalid_request', change(compute, id, { secrets: { B: 'x' } }));
    await change(compute, id, { env: { B: null }, secrets: { B: 'x' }, name: 'renamed' });
    assert.deepEqual((await settings(compute, id)).secrets, ['B', 'KEY']);
    assert.equal((await compute.view(ann, id)).name, 'renamed');
  });

  test('of a stopped container counts from its next start', async (t) => {
    const compute = await openCompute(t, withImage);
    const id = await compute.running(ann);
    await compute.on(stopContainer, ann, id);
    const changed = await change(compute, id, { env: { A: '1' } });
    assert.equal(changed.status, 'stopped');
    assert.equal(starts(compute, id), 1);
    assert.deepEqual(await auditOf(compute, 'container.settings'), [{ env: ['A'], restarted: false }]);
  });

  test('while it starts is what it runs with in the end', async (t) => {
    const compute = await openCompute(t, withImage);
    const release = compute.engine.hold('start');
    const id = await compute.create(ann, { env: { A: '1' } });
    await until(() => starts(compute, id) === 1, { what: 'it is being started' });
    await change(compute, id, { env: { A: '2' } });
    release();
    await until(() => compute.engine.workloadOf(id)?.env.A === '2', { what: 'it was started with the change' });
    await compute.reaches(ann, id, 'running');
  });

  test('is its owner’s alone, as is the look at it', async (t) => {
    const compute = await openCompute(t, withImage);
    const id = await compute.create(ann, { env: { A: '1' } });
    await refused('not_found', change(compute, id, { env: { A: '2' } }, bob));
    await refused('not_found', compute.on(getSettings, bob, id));
    await refused('invalid_request', (async () => change(compute, id, { privileged: true }))());
    assert.deepEqual((await settings(compute, id)).env, { A: '1' });
  });
});

test('a secret is in no row, log, notice or audit entry as it is', async (t) => {
  const compute = await openCompute(t, withImage);
  const id = await compute.running(ann, { image: IMAGE, secrets: { KEY: SECRET }, command: ['run', SECRET] });
  await change(compute, id, { secrets: { KEY: `${SECRET}-2`, OTHER: SECRET } });
  await compute.reaches(ann, id, 'running');
  const tables = await compute.db.many(
    z.object({ name: z.string() }),
    `select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`,
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await compute.db.many(
      z.object({ row: z.string() }),
      `select row_to_json(t)::text as row from ${name} t`,
    );
    const hex = Buffer.from(SECRET).toString('hex');
    if (rows.some(({ row }) => row.includes(SECRET) || row.includes(hex))) found.push(name);
  }
  assert.ok(tables.some(({ name }) => name === 'container_settings'));
  assert.deepEqual(found, []);
  assert.ok(!JSON.stringify(compute.log.lines).includes(SECRET));
  assert.ok(!JSON.stringify(await compute.list(ann)).includes(SECRET));
});

describe('one that ends by itself', () => {
  test('is started again as its settings say, and else is stopped with the reason', async (t) => {
    const compute = await openCompute(t, withImage);
    const once = await compute.running(ann, { image: IMAGE, restart: 'no' });
    compute.engine.crash(once, { exitCode: 3 });
    await compute.reaches(ann, once, 'stopped');
    assert.match((await compute.view(ann, once)).status_reason ?? '', /ended with exit code 3/);
    assert.equal((await settings(compute, once)).restart, 'no');

    // Nothing is restarted by the change itself.
    const begun = starts(compute, once);
    await change(compute, once, { restart: 'on-failure' });
    await compute.on(startContainer, ann, once);
    await compute.reaches(ann, once, 'running');
    assert.equal(starts(compute, once), begun + 1);
    compute.engine.crash(once, { exitCode: 3 });
    await until(() => starts(compute, once) === begun + 2, { what: 'it is started again' });
    await compute.reaches(ann, once, 'running');
    compute.engine.crash(once, { exitCode: 0 });
    await compute.reaches(ann, once, 'stopped');
    assert.equal(starts(compute, once), begun + 2);
  });

  test('has the seconds between its signals that its settings say', async (t) => {
    const compute = await openCompute(t, withImage);
    const id = await compute.running(ann, { image: IMAGE, stop_grace: 42 });
    await compute.on(stopContainer, ann, id);
    await compute.reaches(ann, id, 'stopped');
    // What its owner wants is shown at once; the engine is told then.
    await until(() => compute.engine.gracesOf(id).length > 0, { what: 'it was ended' });
    assert.deepEqual(compute.engine.gracesOf(id), [42]);
    await change(compute, id, { stop_grace: 7 });
    assert.equal((await settings(compute, id)).stop_grace, 7);
    assert.deepEqual((await auditOf(compute, 'container.settings'))[0], { replaced: ['stop_grace'], restarted: false });
    for (const stop_grace of [0, 301, 1.5]) await refused('invalid_request', change(compute, id, { stop_grace }));
  });
});
