/** Revisions of a container: what it ran, by the digest of its image, and the way back to one of them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { listRevisions } from '../../proto/compute/revisions.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { getSettings } from '../../proto/compute/workload.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { imagesByDigest } from '../../storage/compute/pinned-images.ts';
import { giveUpRevision, MAX_REVISIONS, revisionsOf } from '../../storage/compute/revisions.ts';
import { seal } from '../../storage/seal.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import { SEAL_KEY } from '../support/service/open-service.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const [ONE, TWO] = [1, 2].map((tag) => `${REGISTRY}/ann/app:${tag}`) as [string, string];
const withImages = { engine: { images: [ONE, TWO] } };

const change = (compute: ComputeUnderTest, id: string, body: object, who = ann) =>
  compute.call(updateContainer, who, { params: { id }, body });
const list = async (compute: ComputeUnderTest, id: string) => (await compute.on(listRevisions, ann, id)).revisions;
const settles = (compute: ComputeUnderTest, id: string) =>
  until(
    async () => {
      const view = await compute.view(ann, id);
      return view.status === 'running' && view.next_image === undefined ? view : undefined;
    },
    { what: 'it runs, and no image waits', timeoutMs: 60_000 },
  );
const becomes = (compute: ComputeUnderTest, id: string, body: object) =>
  change(compute, id, body).then(() => settles(compute, id));

describe('the revisions of a container', () => {
  test('are what it ran: another image, other settings, other names of secrets; newest first', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, env: { A: '1' }, secrets: { S: 'x' } });
    await becomes(compute, id, { image: TWO, env: { B: '1' } });
    await becomes(compute, id, { command: ['serve'] });
    const now = await list(compute, id);
    assert.deepEqual(
      now.map(({ number, image, current, env, secrets, command }) => [number, image, current, env, secrets, command]),
      [
        [3, TWO, true, ['A', 'B'], ['S'], ['serve']],
        [2, TWO, false, ['A', 'B'], ['S'], null],
        [1, ONE, false, ['A'], ['S'], null],
      ],
    );
    for (const { digest } of now) assert.match(digest ?? '', /^sha256:[0-9a-f]{64}$/);
    assert.equal(JSON.stringify(now).includes('"x"'), false);
  });

  test('are not made by a start, a value of a secret, a name or a size', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, secrets: { S: 'x' } });
    await becomes(compute, id, { secrets: { S: 'y' } });
    await becomes(compute, id, { name: 'other', memory_mb: 256 });
    await compute.on(stopContainer, ann, id);
    await compute.reaches(ann, id, 'stopped');
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.deepEqual(
      (await list(compute, id)).map(({ number }) => number),
      [1],
    );
  });

  test('are kept up to a number, and their images are named to the registry by digest', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    for (let at = 1; at <= MAX_REVISIONS; at++) await becomes(compute, id, { env: { A: `${at}` }, image: TWO });
    const now = await list(compute, id);
    assert.deepEqual([now.length, now[0]?.number, now.at(-1)?.number], [MAX_REVISIONS, MAX_REVISIONS + 1, 2]);
    assert.deepEqual(await imagesByDigest(compute.db), [`${TWO}@${now[0]?.digest}`]);
    await refused('invalid_request', change(compute, id, { revision: 1 }));
  });

  test('are kept up to 1 MiB in all, the newest however large it is, and are told of soon', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    // What takes six bytes each in JSON.
    const large = (at: number) => ({ A: '\u0001'.repeat(30_000 + at), B: '\u0001'.repeat(30_000) });
    for (let at = 1; at <= 4; at++) await becomes(compute, id, { env: large(at) });
    const kept = async () => (await list(compute, id)).map(({ number }) => number);
    assert.deepEqual(await kept(), [5, 4]);
    const sealed = await compute.db.many(
      z.object({ length: z.number() }),
      'select length(sealed) from container_revisions',
    );
    assert.ok((sealed[0]?.length ?? Number.POSITIVE_INFINITY) < 1024 * 1024 + 1000);
    const { fields } = await refused('invalid_request', change(compute, id, { revision: 3 }));
    assert.match(fields?.[0]?.message ?? '', /there are 4 to 5, of the last 10/);
    const words = Array.from({ length: 250 }, () => '\u0001'.repeat(120));
    await becomes(compute, id, { env: { C: large(0).A }, command: words, entrypoint: words, release: words });
    assert.deepEqual(await kept(), [6]);
    await compute.db.tx((tx) => giveUpRevision(tx, id, 'It was not well.', SEAL_KEY));
    assert.equal((await list(compute, id))[0]?.given_up, 'It was not well.');
    await becomes(compute, id, { env: { A: '1', B: null, C: null }, command: null, entrypoint: null, release: null });
    assert.deepEqual(await kept(), [7]);
    await becomes(compute, id, { env: { A: '2' } });
    assert.deepEqual(await kept(), [8, 7]);
  });

  test('are seen by their owner alone', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    await refused('not_found', compute.on(listRevisions, bob, id));
    await refused('not_found', change(compute, id, { revision: 1 }, bob));
  });
});

describe('a container goes back to a revision', () => {
  test('with its image and its settings, and with the secrets of now', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, env: { A: '1' }, secrets: { S: 'old' }, command: ['one'] });
    await becomes(compute, id, { image: TWO, env: { A: '2', B: '2' }, secrets: { S: 'new' }, command: null });
    await becomes(compute, id, { revision: 1 });
    const settings = await compute.on(getSettings, ann, id);
    assert.deepEqual([settings.env, settings.secrets, settings.command], [{ A: '1' }, ['S'], ['one']]);
    assert.deepEqual(compute.engine.workloadOf(id)?.env, { A: '1', S: 'new' });
    const [last, , first] = await list(compute, id);
    assert.deepEqual([last?.number, last?.current, last?.image, last?.digest], [3, true, ONE, first?.digest]);
    const view = await compute.view(ann, id);
    assert.deepEqual([view.image, view.image_digest], [ONE, first?.digest]);
  });

  test('by its digest, although the tag has come to name another image', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, pull_policy: 'Always' });
    const digest = await compute.engine.imageDigest(id);
    compute.engine.publish(ONE);
    await becomes(compute, id, { env: { A: '1' } });
    const moved = await compute.engine.imageDigest(id);
    assert.notEqual(moved, digest);
    await becomes(compute, id, { revision: 1 });
    assert.equal(await compute.engine.imageDigest(id), digest);
    // It stays so over restarts, until an image is asked for.
    await compute.on(stopContainer, ann, id);
    await compute.reaches(ann, id, 'stopped');
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.equal(await compute.engine.imageDigest(id), digest);
    await becomes(compute, id, { image: ONE });
    assert.equal(await compute.engine.imageDigest(id), moved);
    assert.equal((await compute.view(ann, id)).image_digest, undefined);
  });

  test('whose settings alone differ without another image, and keeps its files', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    compute.engine.files(id)?.set('/opt/file', 'x');
    await becomes(compute, id, { env: { A: '1' } });
    await becomes(compute, id, { revision: 1 });
    assert.equal(compute.engine.files(id)?.get('/opt/file'), 'x');
    assert.deepEqual([compute.engine.specOf(id)?.image, (await compute.view(ann, id)).image_digest], [ONE, undefined]);
    assert.deepEqual(compute.engine.workloadOf(id)?.env, {});
  });

  test('that it is already, and nothing is restarted', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, env: { A: '1' } });
    await becomes(compute, id, { revision: 1 });
    assert.equal(compute.engine.calls.filter((call) => call === `start ${id}`).length, 1);
  });

  test('whose image is gone, and runs on with what it has, and says so', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    await becomes(compute, id, { image: TWO });
    compute.engine.fail('ensureImage', new EngineError('image_not_found', 'manifest unknown'));
    const view = await becomes(compute, id, { revision: 1 });
    assert.deepEqual([view.status, view.image], ['running', TWO]);
    assert.match(view.status_reason ?? '', /^The image was not changed to \S+app:1\. manifest unknown/);
  });

  test('while it is stopped: it counts from the next start', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    await becomes(compute, id, { image: TWO });
    await compute.on(stopContainer, ann, id);
    await compute.reaches(ann, id, 'stopped');
    await change(compute, id, { revision: 1 });
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.match(compute.engine.specOf(id)?.image ?? '', /app:1@sha256:/);
  });

  test('that is not kept, or together with an image or settings, only with a sentence', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    await assert.rejects(change(compute, id, { revision: 7 }), /"revision" is not one that is kept: there is 1 alone/);
    for (const more of [{ image: ONE }, { env: { A: '1' } }, { health: null }])
      assert.throws(() => callFrom(updateContainer, ann, { params: { id }, body: { revision: 1, ...more } }), {
        message: /"revision" must come without an image and settings/,
      });
    for (const revision of [0, -1, 1.5, '1', null])
      assert.throws(() => callFrom(updateContainer, ann, { params: { id }, body: { revision } }), /"revision"/);
  });
});

describe('a container goes back to a revision with its secrets', () => {
  const secretsOf = async (compute: ComputeUnderTest, id: string) => compute.engine.workloadOf(id)?.env;

  test('of then, as it ran with them last; those that came later stay, and the answer says which they are', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, env: { A: '1' }, secrets: { S: 'first', T: 't' } });
    await becomes(compute, id, { secrets: { S: 'second' } });
    await becomes(compute, id, { image: TWO, env: { A: '2', T: null }, secrets: { S: 'third', LATER: 'l' } });
    const today = await change(compute, id, { revision: 1 });
    assert.deepEqual(today.rollback, { revision: 1, secrets: 'today' });
    await settles(compute, id);
    assert.deepEqual(await secretsOf(compute, id), { A: '1', S: 'third', T: 't', LATER: 'l' });
    const then = await change(compute, id, { revision: 1, revision_secrets: true });
    assert.deepEqual(then.rollback, { revision: 1, secrets: 'revision' });
    await settles(compute, id);
    assert.deepEqual(await secretsOf(compute, id), { A: '1', S: 'second', T: 't', LATER: 'l' });
    const [entry] = (await readAudit(compute.db, { action: 'container.settings', limit: 1 })).map(
      ({ detail }) => detail,
    );
    assert.deepEqual([entry?.secrets, entry?.secrets_of_revision], [['S'], 1]);
    assert.equal(JSON.stringify([then, entry, await list(compute, id)]).includes('second'), false);
  });

  test('without a value that its user took away: it is gone from all of them', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, secrets: { S: 'leaked', T: 'old' } });
    await becomes(compute, id, { image: TWO, secrets: { T: 'new' } });
    await becomes(compute, id, { secrets: { S: null } });
    await becomes(compute, id, { secrets: { S: 'safe' } });
    const back = await change(compute, id, { revision: 1, revision_secrets: true });
    assert.deepEqual(back.rollback, { revision: 1, secrets: 'revision', secrets_gone: ['S'] });
    await settles(compute, id);
    assert.deepEqual(await secretsOf(compute, id), { S: 'safe', T: 'old' });
    const kept = await revisionsOf(compute.db, id, SEAL_KEY);
    assert.equal(JSON.stringify(kept).includes('leaked'), false);
  });

  test('without a value that is taken away by a change that waits, although it is started again meanwhile', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, secrets: { S: 'leaked' } });
    const release = compute.engine.hold('ensureImage');
    await change(compute, id, { image: TWO, secrets: { S: null } });
    compute.engine.crash(id, { exitCode: 1 });
    await until(async () => (await compute.view(ann, id)).restarts === 1, { what: 'it is started again' });
    release();
    await settles(compute, id);
    const kept = await revisionsOf(compute.db, id, SEAL_KEY);
    assert.equal(JSON.stringify(kept).includes('leaked'), false);
  });

  test('that an earlier version wrote down, only with a sentence; nor without a revision', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE, secrets: { S: 'x' } });
    assert.throws(() => callFrom(updateContainer, ann, { params: { id }, body: { revision_secrets: true } }), {
      message: /"revision_secrets" must come with a "revision"/,
    });
    const [first] = await revisionsOf(compute.db, id, SEAL_KEY);
    const { secretValues: _, ...before } = first ?? { secretValues: null };
    const context = `container_revisions/${id}/sealed`;
    const sealed = seal(SEAL_KEY, context, Buffer.from(JSON.stringify([before])));
    await compute.db.run('update container_revisions set sealed = $2 where container_id = $1', [id, sealed]);
    await assert.rejects(
      change(compute, id, { revision: 1, revision_secrets: true }),
      /"revision_secrets" cannot be had of revision 1, which ran before the platform kept them: leave it out/,
    );
    assert.deepEqual((await change(compute, id, { revision: 1 })).rollback, { revision: 1, secrets: 'today' });
  });
});

describe('the images of revisions', () => {
  test('are named to the engine at each start, by those that are left, although the node was lost in between', async (t) => {
    const compute = await openCompute(t, withImages);
    const id = await compute.running(ann, { image: ONE });
    const digest = await compute.engine.imageDigest(id);
    await becomes(compute, id, { image: TWO });
    const named = () =>
      until(async () => (compute.engine.keptImages().length > 0 ? compute.engine.keptImages() : undefined));
    await compute.stop();
    await compute.start();
    const pinned = `${ONE}@${digest}`;
    await until(async () => (await named()).includes(pinned), { what: 'the engine is told of both' });
    // Its row is gone, and whoever was to tell the engine is, too.
    await compute.stop();
    await compute.db.run('delete from containers where id = $1', [id]);
    await compute.start();
    await until(async () => !(await named()).includes(pinned), { what: 'the engine is told of none' });
  });
});
