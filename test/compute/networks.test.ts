/** Private networks of a user's containers: who is in one, under which name, and who may say so. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createContainer, deleteContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { EngineError, MAX_PLACE } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const SHOP = { network: 'shop', alias: 'db' };

const change = (compute: ComputeUnderTest, id: string, body: object, who: Caller = ann) =>
  compute.call(updateContainer, who, { params: { id }, body });
/** Waits until one container reaches another, or none, by a name. */
const names = (compute: ComputeUnderTest, from: string, alias: string, id: string | undefined) =>
  until(() => compute.engine.named(from, alias) === id, { what: `${alias} is ${id}` });
const starts = (compute: ComputeUnderTest, id: string) =>
  compute.engine.calls.filter((each) => each === `start ${id}`).length;
/** An API token of ann's that may change these containers only. */
const token = (...ids: string[]): Caller => ({
  ...ann,
  kind: 'api_token',
  scopes: Object.fromEntries(ids.map((id) => [`compute.${ann.userId}.containers.${id}`, ['update']])),
});

describe('a private network', () => {
  test('is joined at the creation, and members find each other by their aliases', async (t) => {
    const compute = await openCompute(t);
    const db = await compute.running(ann, SHOP);
    const app = await compute.running(ann, { network: 'shop' });
    const outside = await compute.running(ann);
    await names(compute, app, 'db', db);
    assert.equal(compute.engine.named(outside, 'db'), undefined);
    const views = new Map((await compute.list(ann)).map((view) => [view.id, [view.network, view.alias]]));
    assert.deepEqual(views.get(db), ['shop', 'db']);
    assert.deepEqual(views.get(app), ['shop', undefined]);
    assert.deepEqual(views.get(outside), [undefined, undefined]);
    const [entry] = (await readAudit(compute.db, { action: 'container.create', limit: 3 })).filter(
      ({ target }) => target === db,
    );
    assert.deepEqual([entry?.detail.network, entry?.detail.alias], ['shop', 'db']);
  });

  test('is joined, renamed in and left by a container that runs on', async (t) => {
    const compute = await openCompute(t);
    const [app, db] = [await compute.running(ann, { network: 'shop' }), await compute.running(ann)];
    const joined = await change(compute, db, SHOP);
    assert.deepEqual([joined.status, joined.network, joined.alias], ['running', 'shop', 'db']);
    await names(compute, app, 'db', db);
    assert.equal((await change(compute, db, { alias: 'store' })).alias, 'store');
    await names(compute, app, 'store', db);
    assert.equal(compute.engine.named(app, 'db'), undefined);
    // Without a name it is a member, too.
    assert.deepEqual((await change(compute, db, { alias: null })).network, 'shop');
    await names(compute, app, 'store', undefined);
    await change(compute, db, { alias: 'store' });
    await names(compute, app, 'store', db);
    // Another network takes the name along.
    assert.equal((await change(compute, db, { network: 'lab' })).alias, 'store');
    await names(compute, app, 'store', undefined);
    const left = await change(compute, db, { network: null });
    assert.deepEqual([left.status, left.network, left.alias], ['running', undefined, undefined]);
    await until(async () => (await compute.engine.inspect(db))?.network === null, { what: 'it has left' });
    assert.equal(starts(compute, db), 1);
    const entries = await readAudit(compute.db, { action: 'container.update', limit: 10 });
    assert.deepEqual(entries[0]?.detail, {
      network: { before: null, after: 'shop' },
      alias: { before: null, after: 'db' },
      restarted: false,
    });
    // What is so already changes nothing.
    await change(compute, db, { network: null });
    assert.equal((await readAudit(compute.db, { action: 'container.update', limit: 10 })).length, entries.length);
  });

  test('is renamed in while the change before is still being made', async (t) => {
    const compute = await openCompute(t);
    const [app, db] = [await compute.running(ann, { network: 'shop' }), await compute.running(ann)];
    const release = compute.engine.hold('join');
    await change(compute, db, SHOP);
    await until(() => compute.engine.calls.includes(`join ${db}`));
    await change(compute, db, { alias: 'store' });
    release();
    await names(compute, app, 'store', db);
  });

  test('has one holder of an alias, and the refusal names it', async (t) => {
    const compute = await openCompute(t);
    const db = await compute.running(ann, { ...SHOP, name: 'first' });
    const taken = async (work: Promise<unknown>): Promise<void> => {
      const { message } = await refused('conflict', work);
      assert.equal(message, `In the network shop, "db" is the container first (${db}): choose another alias.`);
    };
    await taken(compute.create(ann, SHOP));
    const other = await compute.running(ann);
    await taken(change(compute, other, SHOP));
    assert.equal((await compute.view(ann, other)).network, undefined);
    // In another network, and in another user's of the same name, it is free.
    await change(compute, other, { ...SHOP, network: 'lab' });
    await taken(change(compute, other, { network: 'shop' }));
    const bobs = await compute.running(bob, SHOP);
    const bobsApp = await compute.running(bob, { network: 'shop' });
    await names(compute, bobsApp, 'db', bobs);
    // Of two who ask at once, one gets it.
    const both = await Promise.allSettled([
      change(compute, other, { network: 'shop', alias: 'web' }),
      compute.create(ann, { network: 'shop', alias: 'web' }),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  });

  test('keeps the alias and the place of a member that is stopped, and of one that is going', async (t) => {
    const compute = await openCompute(t);
    const [app, db] = [await compute.running(ann, { network: 'shop' }), await compute.running(ann, SHOP)];
    const place = (await compute.engine.inspect(db))?.network?.place;
    await compute.call(stopContainer, ann, { params: { id: db } });
    await compute.reaches(ann, db, 'stopped');
    await names(compute, app, 'db', undefined);
    await refused('conflict', change(compute, app, { alias: 'db' }));
    const third = await compute.running(ann, { network: 'shop', alias: 'third' });
    assert.notEqual((await compute.engine.inspect(third))?.network?.place, place);
    await compute.call(startContainer, ann, { params: { id: db } });
    await compute.reaches(ann, db, 'running');
    await names(compute, app, 'db', db);
    assert.equal((await compute.engine.inspect(db))?.network?.place, place);
    const release = compute.engine.hold('remove');
    await compute.call(deleteContainer, ann, { params: { id: db } });
    await assert.rejects(change(compute, app, { alias: 'db' }), /which is being deleted: try again soon\.$/);
    release();
    await until(async () => {
      const view = await change(compute, app, { alias: 'db' }).catch(() => undefined);
      return view?.alias === 'db';
    });
  });

  test('is left and joined by a container that is stopped, and counts from its next start', async (t) => {
    const compute = await openCompute(t);
    const [app, db] = [await compute.running(ann, { network: 'shop' }), await compute.running(ann, SHOP)];
    await compute.call(stopContainer, ann, { params: { id: db } });
    await compute.reaches(ann, db, 'stopped');
    await change(compute, db, { network: null });
    await until(async () => (await compute.engine.inspect(db))?.network === null, { what: 'it has left' });
    await change(compute, db, { ...SHOP, alias: 'again' });
    await compute.call(startContainer, ann, { params: { id: db } });
    await compute.reaches(ann, db, 'running');
    await names(compute, app, 'again', db);
  });

  test('is entered again by a member that was taken out of it from outside', async (t) => {
    const compute = await openCompute(t);
    const [app, db] = [await compute.running(ann, { network: 'shop' }), await compute.running(ann, SHOP)];
    compute.engine.edit(db, { network: null });
    await names(compute, app, 'db', db);
    assert.equal(starts(compute, db), 1);
  });

  test('is entered once the engine can: a container waits for that and says so', async (t) => {
    const compute = await openCompute(t);
    compute.engine.fail('join', new EngineError('unavailable', 'The place is not free yet.'), 2);
    const app = await compute.running(ann, { network: 'shop' });
    const db = await compute.running(ann, SHOP);
    await names(compute, app, 'db', db);
  });
});

describe('a network is refused', () => {
  test('to an alias without one, and with names that are no DNS labels', async (t) => {
    const compute = await openCompute(t);
    await refused('invalid_request', compute.create(ann, { alias: 'db' }));
    const id = await compute.running(ann);
    await refused('invalid_request', change(compute, id, { alias: 'db' }));
    await change(compute, id, SHOP);
    await refused('invalid_request', change(compute, id, { network: null, alias: 'db' }));
    const wrong = ['', 'Shop', '1', '10', 'a.b', 'a_b', '-a', 'a-', 'ä', 'a'.repeat(64), ' db', 7];
    const body = { name: 'box', ssh_key_ids: [1] };
    const [creation, update] = [createContainer.body, updateContainer.body];
    assert.ok(creation && update);
    for (const text of wrong) {
      for (const fields of [{ network: text }, { network: 'shop', alias: text }]) {
        assert.equal(creation.safeParse({ ...body, ...fields }).success, false, JSON.stringify(fields));
        assert.equal(update.safeParse(fields).success, false, JSON.stringify(fields));
      }
    }
    for (const text of ['a', 'db', 'my-db-2', 'a'.repeat(63)]) {
      assert.equal(creation.safeParse({ ...body, network: text, alias: text }).success, true, text);
    }
    assert.equal(update.safeParse({ alias: 'localhost' }).success, false);
  });

  test('to strangers, and to tokens that may not change all members', async (t) => {
    const compute = await openCompute(t);
    const db = await compute.running(ann, { ...SHOP, name: 'hidden' });
    await refused('not_found', change(compute, db, { network: null }, bob));
    const own = await compute.running(ann);
    // The sentence does not tell who is in it, not even when the alias is taken.
    for (const fields of [{ network: 'shop' }, SHOP]) {
      await assert.rejects(change(compute, own, fields, token(own)), (error: Error) => {
        assert.match(error.message, /^This token may not join the network shop: /);
        assert.doesNotMatch(error.message, /hidden/);
        return true;
      });
    }
    await refused('missing_scope', change(compute, own, { network: 'shop' }, token(own)));
    const maker: Caller = {
      ...ann,
      kind: 'api_token',
      scopes: { [`compute.${ann.userId}.containers`]: ['create', 'read'] },
    };
    await refused('missing_scope', compute.create(maker, { network: 'shop', ssh_key_ids: [await compute.key(ann)] }));
    // A network that is empty is anybody's to begin, and one's own is there to be left.
    await change(compute, own, { network: 'lab', alias: 'own' }, token(own));
    await change(compute, own, { network: null }, token(own));
    assert.equal((await change(compute, own, { network: 'shop' }, token(own, db))).network, 'shop');
  });

  test('an alias that the engine cannot give, with a sentence', async (t) => {
    const compute = await openCompute(t, { engine: { reservedAliases: ['container'] } });
    await refused('invalid_request', compute.create(ann, { network: 'shop', alias: 'container' }));
    const id = await compute.running(ann, { network: 'shop', alias: 'db' });
    await refused('invalid_request', change(compute, id, { alias: 'container' }));
    // A name of a network is none of a member.
    assert.equal((await change(compute, id, { network: 'container' })).network, 'container');
  });
});

test('a place is a small number: all of a network have one each', async (t) => {
  const compute = await openCompute(t);
  const ids = await Promise.all([1, 2, 3].map(() => compute.running(ann, { network: 'shop' })));
  const places = await Promise.all(ids.map(async (id) => (await compute.engine.inspect(id))?.network?.place));
  assert.deepEqual(places.toSorted(), [1, 2, 3]);
  assert.ok(MAX_PLACE >= 3);
});
