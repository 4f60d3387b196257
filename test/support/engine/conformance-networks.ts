import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { PrivateNetwork } from '../../../proto/ports/engine.ts';
import { until } from '../until.ts';
import { rejectsWith, type Suite } from './conformance-suite.ts';

const member = (change: Partial<PrivateNetwork> = {}): PrivateNetwork => ({
  owner: 'u1',
  name: 'shop',
  alias: null,
  place: 1,
  ...change,
});
const db = member({ alias: 'db', place: 2 });

/** What an engine promises about private networks: members find each other by their aliases, and nobody else does. */
export function networksConformance(suite: () => Suite): void {
  const reaches = (from: string, host: string): Promise<boolean> => {
    const { under } = suite();
    assert.ok(under.connects, 'this engine under test cannot be tried from inside');
    return under.connects(from, host, 22);
  };
  const found = (from: string, host: string): Promise<unknown> =>
    until(() => reaches(from, host), { what: `${host} is reached`, timeoutMs: 60_000 });
  const lost = (from: string, host: string): Promise<unknown> =>
    until(async () => !(await reaches(from, host)), { what: `${host} is reached no more`, timeoutMs: 60_000 });
  const joined = async (network: PrivateNetwork): Promise<string> => {
    const id = await suite().started({ userId: network.owner });
    await suite().engine.join(id, network);
    return id;
  };
  const removed = async (...ids: string[]): Promise<void> => {
    for (const id of ids) await suite().engine.remove(id);
  };

  it('lets members of a private network reach each other by their aliases while they run', async () => {
    const { engine } = suite();
    const [a, b] = [await joined(member()), await joined(db)];
    const before = await engine.inspect(b);
    assert.deepEqual(before?.network, db);
    assert.deepEqual((await engine.inspect(a))?.network, member());
    await found(a, 'db');
    // Nothing was restarted for it, and what leads into the container from elsewhere is as before.
    assert.equal((await engine.inspect(a))?.phase, 'running');
    await suite().answers(a);
    await engine.join(b, { ...db, alias: 'store' });
    await found(a, 'store');
    assert.equal(await reaches(a, 'db'), false);
    await engine.join(b, undefined);
    assert.equal((await engine.inspect(b))?.network, null);
    assert.equal(await reaches(a, 'store'), false);
    assert.equal((await engine.inspect(b))?.startedAt, before?.startedAt);
    await engine.join(b, undefined);
    await removed(a, b);
  });

  it('keeps an alias and an address for a member that is stopped, and gives them to nobody', async () => {
    const { engine } = suite();
    const [a, b] = [await joined(member()), await joined(db)];
    await found(a, 'db');
    await engine.stop(b, 1);
    assert.deepEqual((await engine.inspect(b))?.network, db);
    const c = await joined(member({ alias: 'web', place: 3 }));
    await found(a, 'web');
    assert.equal(await reaches(a, 'db'), false);
    await engine.start(b, []);
    await suite().answers(b);
    await found(a, 'db');
    await found(c, 'db');
    assert.deepEqual((await engine.inspect(b))?.network, db);
    await removed(a, b, c);
  });

  it('joins a container that does not run, before its first start and later', async () => {
    const { engine } = suite();
    const a = await joined(member());
    const spec = suite().spec();
    await engine.create(spec);
    await engine.join(spec.id, db);
    assert.deepEqual((await engine.inspect(spec.id))?.network, db);
    await engine.start(spec.id, []);
    await suite().answers(spec.id);
    await found(a, 'db');
    await engine.stop(spec.id, 1);
    await engine.join(spec.id, { ...db, alias: 'store' });
    await engine.start(spec.id, []);
    await found(a, 'store');
    await removed(a, spec.id);
  });

  it('keeps networks of one name of two users apart, and those out who are in none', async () => {
    const { engine } = suite();
    const [a, b] = [await joined(member()), await joined(db)];
    const other = await joined(member({ owner: 'u2', alias: 'app', place: 1 }));
    const outside = await suite().started();
    await found(a, 'db');
    await found(other, 'app');
    for (const from of [other, outside]) assert.equal(await reaches(from, 'db'), false, from);
    assert.equal(await reaches(a, 'app'), false);
    await engine.remove(b);
    await lost(a, 'db');
    await removed(a, other, outside);
  });

  it('has no network for a container that it does not have', async () => {
    await rejectsWith(suite().engine.join('nobody', db), 'not_found');
  });
}
