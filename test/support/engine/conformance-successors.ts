import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { it } from 'node:test';
import { type ContainerSpec, type PrivateNetwork, successorId } from '../../../proto/ports/engine.ts';
import { until } from '../until.ts';
import { keys, rejectsWith, type Suite } from './conformance-suite.ts';
import { eventually } from './eventually.ts';

/** What an engine promises about a second container beside one that runs, which takes its place. */
export function successorsConformance(suite: () => Suite): void {
  const begin = (spec: ContainerSpec): Promise<void> =>
    suite().engine.beginSuccessor(spec, keys, { env: { REVISION: 'second' } }, undefined);
  /** A container without mount paths that runs, and its successor, whose SSH port answers. */
  const withSuccessor = async (): Promise<{ id: string; next: string }> => {
    const id = await suite().started({ mountPaths: [] });
    await begin(suite().again({ id, mountPaths: [] }));
    await suite().answers(successorId(id));
    return { id, next: successorId(id) };
  };

  it('starts a successor beside a container, which runs on and is the only one that is listed', async () => {
    const { engine } = suite();
    const { id, next } = await withSuccessor();
    const [present, successor] = [await engine.inspect(id), await engine.inspect(next)];
    assert.equal(present?.phase, 'running');
    assert.equal(successor?.phase, 'running');
    assert.notEqual(present?.address, successor?.address);
    await suite().answers(id);
    const listed = (await engine.list()).filter((one) => one.id.startsWith(id));
    assert.deepEqual(
      listed.map(({ address }) => address),
      [present?.address],
    );
    await engine.remove(id);
    for (const one of [id, next]) assert.equal(await engine.inspect(one), undefined);
  });

  it('runs a command of the successor beside its SSH server', async () => {
    const { engine, under } = suite();
    const id = await suite().started({ mountPaths: [] });
    const command = ['sh', '-c', 'while :; do sleep 1; done', '$(REVISION)'];
    const spec = suite().again({ id, mountPaths: [], isConfigured: true });
    await engine.beginSuccessor(spec, keys, { env: { REVISION: 'second' }, command }, undefined);
    await suite().answers(successorId(id));
    await engine.promote(id, undefined);
    await eventually(async () => assert.deepEqual((await under.seen(id)).words, command));
    await suite().answers(id);
    await engine.remove(id);
  });

  it('gives the successor the place of its container, which runs on until it is ended', async () => {
    const { engine } = suite();
    const { id, next } = await withSuccessor();
    const [before, successor] = [await engine.inspect(id), await engine.inspect(next)];
    await engine.promote(id, undefined);
    const after = await engine.inspect(id);
    assert.equal(after?.address, successor?.address);
    assert.equal(after?.startedAt, successor?.startedAt);
    assert.notEqual(after?.address, before?.address);
    assert.equal(await engine.inspect(next), undefined);
    await rejectsWith(engine.promote(id, undefined), 'not_found');
    await engine.endOthers(id, 1);
    await engine.endOthers(id, 1);
    await suite().answers(id);
    assert.deepEqual((await engine.inspect(id))?.address, after?.address);
    // It is a container like any other: adopted as it runs, stopped and started again.
    await engine.create(suite().again({ id, mountPaths: [] }));
    await engine.stop(id, 1);
    await engine.create(suite().again({ id, mountPaths: [] }));
    await engine.start(id, keys);
    await suite().answers(id);
    await engine.remove(id);
  });

  it('tells that another one is beside a container, whatever that is, until it is ended', async () => {
    const { engine } = suite();
    const { id } = await withSuccessor();
    const isTold = async () => [
      (await engine.list()).find((one) => one.id === id)?.hasOthers,
      (await engine.list([id]))[0]?.hasOthers,
    ];
    assert.deepEqual(await isTold(), [true, true]);
    await engine.endOthers(id, 1);
    assert.deepEqual(await isTold(), [undefined, undefined]);
    await begin(suite().again({ id, mountPaths: [] }));
    await suite().answers(successorId(id));
    await engine.promote(id, undefined);
    assert.deepEqual(await isTold(), [true, true]);
    assert.equal((await engine.list()).filter((one) => one.id.startsWith(id)).length, 1);
    await engine.endOthers(id, 1);
    assert.deepEqual(await isTold(), [undefined, undefined]);
    await engine.remove(id);
  });

  it('begins a successor anew in the place of one that was begun, and of a predecessor', async () => {
    const { engine } = suite();
    const { id, next } = await withSuccessor();
    const first = await engine.inspect(next);
    const spec = suite().again({ id, mountPaths: [] });
    await begin(spec);
    await suite().answers(next);
    const second = await engine.inspect(next);
    assert.equal(second?.phase, 'running');
    assert.ok((second?.startedAt ?? 0) >= (first?.startedAt ?? 0));
    await engine.promote(id, undefined);
    await begin(spec);
    await suite().answers(next);
    await engine.promote(id, undefined);
    await suite().answers(id);
    await engine.remove(id);
    assert.equal(await engine.inspect(id), undefined);
  });

  it('stops and removes successors and predecessors with their container', async () => {
    const { engine } = suite();
    const { id, next } = await withSuccessor();
    await engine.stop(id, 1);
    assert.equal((await engine.inspect(id))?.phase, 'exited');
    assert.equal(await engine.inspect(next), undefined);
    await engine.remove(id);
  });

  it('has the files at its mount paths, or refuses a successor with any', async () => {
    const { engine } = suite();
    const id = await suite().started();
    if (!engine.sharesMountPaths) await rejectsWith(begin(suite().again({ id })), 'refused');
    else {
      const { writeFile, readFile } = suite().under;
      await writeFile(id, '/root/first', 'before');
      await begin(suite().again({ id }));
      await suite().answers(successorId(id));
      await writeFile(id, '/root/second', 'meanwhile');
      await engine.promote(id, undefined);
      await engine.endOthers(id, 1);
      assert.equal(await readFile(id, '/root/first'), 'before');
      assert.equal(await readFile(id, '/root/second'), 'meanwhile');
    }
    await engine.remove(id);
  });

  it('refuses a successor of a container that does not run', async () => {
    const { engine } = suite();
    const id = await suite().started();
    await engine.stop(id, 1);
    await rejectsWith(begin(suite().again({ id, mountPaths: [] })), 'not_running');
    await engine.remove(id);
  });

  it('runs on when the image of a successor cannot be had', async () => {
    const { engine, under } = suite();
    const id = await suite().started({ mountPaths: [] });
    const before = await engine.inspect(id);
    const image = under.missingImage ?? 'never/heard-of:it';
    await rejectsWith(begin(suite().again({ id, mountPaths: [], image })), 'image_not_found');
    await engine.endOthers(id, 0);
    assert.equal(await engine.inspect(successorId(id)), undefined);
    assert.deepEqual(await engine.inspect(id), before);
    await suite().answers(id);
    await engine.remove(id);
  });
}

/** What an engine promises about a successor in a private network: whoever asks by its alias meets one that is ready. */
export function joinedSuccessorsConformance(suite: () => Suite): void {
  const begin = (spec: ContainerSpec, network: PrivateNetwork): Promise<void> =>
    suite().engine.beginSuccessor(spec, keys, { env: { REVISION: 'second' } }, network);

  it('has a successor in the private network of its container, at a place of its own', async () => {
    const { engine, under } = suite();
    assert.ok(under.connects, 'this engine under test cannot be tried from inside');
    const member = { owner: 'u1', name: 'shop', alias: null, place: 1 };
    const [id, other] = [await suite().started({ mountPaths: [] }), await suite().started()];
    await engine.join(id, member);
    await engine.join(other, { ...member, alias: 'db', place: 2 });
    await begin(suite().again({ id, mountPaths: [] }), { ...member, place: 13 });
    await suite().answers(successorId(id));
    assert.deepEqual((await engine.inspect(id))?.network, member);
    await engine.promote(id, { ...member, place: 13 });
    assert.deepEqual((await engine.inspect(id))?.network, { ...member, place: 13 });
    const reaches = () => under.connects?.(id, 'db', 22) ?? Promise.resolve(false);
    await until(reaches, { what: 'it reaches the other member', timeoutMs: 60_000 });
    await engine.endOthers(id, 1);
    assert.equal(await reaches(), true);
    for (const one of [id, other]) await engine.remove(one);
  });

  it('has an alias lead to one that is ready, at each moment of a change, and keeps connections in the network', async () => {
    const { engine, under } = suite();
    if (!under.runsScripts) return;
    const member = { owner: 'u1', name: 'shop', alias: 'web', place: 1 };
    const next = { ...member, place: 13 };
    const [id, other] = [await suite().started({ mountPaths: [] }), await suite().started()];
    await engine.join(id, member);
    await engine.join(other, { ...member, alias: null, place: 2 });
    const signal = AbortSignal.timeout(300_000);
    const inside = async (script: string): Promise<string> => {
      const { stdin, stdout, stderr } = await engine.run(other, ['sh', '-c', script], signal);
      stdin.end();
      stderr.resume();
      return text(stdout);
    };
    // One asks without end. One keeps what it has, and says something later: the SSH server answers that it is no greeting.
    const asking = inside(
      `until [ -e /tmp/over ]; do
         nc -w 5 web 22 < /dev/null | grep -q SSH-2.0 && echo met || echo failed
       done`,
    );
    const held = inside('(until [ -e /tmp/say ]; do sleep 0.1; done; echo nothing) | nc -w 60 web 22');
    const asked = () => inside('sleep 1.5');
    await asked();
    for (const [from, to] of [
      [member, next],
      [next, member],
    ] as const) {
      await begin(suite().again({ id, mountPaths: [] }), to);
      await suite().answers(successorId(id));
      assert.deepEqual((await engine.inspect(id))?.network, from);
      assert.equal((await engine.inspect(successorId(id)))?.network?.alias, null);
      await asked();
      await engine.promote(id, to);
      assert.deepEqual((await engine.inspect(id))?.network, to);
      await asked();
      if (to === next) {
        await inside('touch /tmp/say');
        assert.match(await held, /^SSH-2\.0.*\r\nInvalid SSH/);
      }
      await engine.endOthers(id, 1);
      await asked();
    }
    await inside('touch /tmp/over');
    const answers = (await asking).trim().split('\n');
    // In each state of the two changes.
    assert.ok(answers.length > 10, String(answers.length));
    assert.deepEqual(
      answers.filter((answer) => answer !== 'met'),
      [],
    );
    for (const one of [id, other]) await engine.remove(one);
  });
}
