/** Commands that run once on Docker: where they run, with which files, and what is left of them. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import { tar } from '../../lib/tar.ts';
import type { PrivateNetwork, RunOnceOptions, Workload } from '../../proto/ports/engine.ts';
import { unlessReply } from '../../transports/engines/docker/api/client.ts';
import { rejectsWith, Suite, textOfLine } from '../support/engine/conformance-suite.ts';
import { dockerSkip, dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { until } from '../support/until.ts';

const list = z.array(z.object({ Names: z.array(z.string()) }));
const SECRET = 'canary-1f9c';

describe('a command that runs once on Docker', { skip: dockerSkip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  let suite: Suite;

  before(async () => {
    under = await dockerUnderTest();
    suite = new Suite(under);
    await under.engine.ensureImage(under.image, { always: false });
  });
  after(() => under?.end());

  /** The names of containers in which commands run once. */
  const onces = async () => {
    const filters = JSON.stringify({ label: [`troupe.installation=${under.installation}`] });
    const found = await under.client.json('GET', '/containers/json', list, { query: { all: true, filters } });
    return found.flatMap(({ Names }) => Names).filter((name) => name.endsWith('.once'));
  };
  const mounted = z.object({ Mounts: z.array(z.object({ Name: z.string().optional() })) });
  /** Docker lists a container that it is making for a moment before it is found by its name. */
  const volumesOf = async (name: string) => {
    const found = () => unlessReply(under.client.json('GET', `/containers${name}/json`, mounted), 404);
    await until(async () => (await found()) !== undefined, { what: `${name} is found` });
    return ((await found())?.Mounts ?? []).flatMap(({ Name }) => Name ?? []);
  };
  const run = (
    id: string,
    script: string,
    {
      network,
      mountPaths = [],
      ...more
    }: Partial<RunOnceOptions> & {
      readonly network?: PrivateNetwork;
      readonly mountPaths?: readonly string[];
    } = {},
    workload: Partial<Workload> = {},
  ) =>
    under.engine.runOnce(
      suite.again({ id, mountPaths }),
      { env: { KEY: SECRET }, command: ['/bin/sh', '-c', script], ...workload },
      network,
      { timeoutMs: 60_000, signal: new AbortController().signal, ...more },
    );
  const said = async (...asked: Parameters<typeof run>) => (await run(...asked)).lines.map(textOfLine).join('\n');

  it('has the limits of the container, and its mount paths where they are given', async () => {
    const id = await suite.started({ mountPaths: ['/data'] });
    await under.exec(id, 'echo kept > /data/file; echo own > /own');
    assert.equal(
      await said(
        id,
        'cat /data/file; test -e /own || echo none; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null',
        { mountPaths: ['/data'] },
      ),
      'kept\nnone\n134217728',
    );
    // Without them it has empty folders there, which go with it.
    const making = run(
      id,
      'ls -A /data; echo mine > /data/file && cat /data/file; until test -e /go; do sleep 0.1; done',
    );
    await Promise.race([making, until(async () => (await onces()).length === 1, { what: 'it runs' })]);
    const [name = ''] = await onces();
    const volumes = await volumesOf(name);
    assert.ok(volumes.length > 0);
    const go = tar([{ kind: 'file', path: 'go', mode: 0o644, data: new Uint8Array() }]);
    await under.client.call('PUT', `/containers${name}/archive`, { query: { path: '/' }, archive: go });
    assert.equal((await making).lines.map(textOfLine).join('\n'), 'mine');
    const named = z.object({ Volumes: z.array(z.object({ Name: z.string() })) });
    const { Volumes } = await under.client.json('GET', '/volumes', named);
    assert.deepEqual(
      Volumes.filter(({ Name }) => volumes.includes(Name)),
      [],
    );
    assert.equal((await under.exec(id, 'cat /data/file')).toString().trim(), 'kept');
    assert.deepEqual(await onces(), []);
    await under.engine.remove(id);
  });

  it('begins in its folder, by the entrypoint that is set, and shows no secret to whoever inspects it', async () => {
    const id = suite.spec().id;
    const give = new AbortController();
    const running = run(
      id,
      'echo "$KEY" in $PWD; exec sleep 60',
      { signal: give.signal },
      { workingDir: '/made/here' },
    );
    // Where it ends before its time, its own reason is what fails here.
    await Promise.race([running, until(async () => (await onces()).length === 1, { what: 'it runs' })]);
    const [name = ''] = await onces();
    await volumesOf(name);
    const described = (await under.client.call('GET', `/containers${name}/json`)).toString();
    assert.ok(!described.includes(SECRET));
    give.abort(new Error('enough'));
    await assert.rejects(running);
    assert.deepEqual(await onces(), []);
    const words = await said(
      id,
      'unused',
      {},
      { entrypoint: ['/bin/echo', 'by'], command: ['hand'], workingDir: '/tmp' },
    );
    assert.equal(words, 'by hand');
    assert.equal(await said(id, 'echo $KEY in $PWD', {}, { workingDir: '/made/here' }), `${SECRET} in /made/here`);
    assert.equal((await run(id, 'x', {}, { command: ['/no/such/program'] })).exitCode, 127);
  });

  it('does not change what the container that runs is told', async () => {
    const spec = suite.spec({ mountPaths: [], isConfigured: true });
    await under.engine.create(spec);
    await under.engine.start(spec.id, [], { env: { KEY: 'of now' } });
    await suite.answers(spec.id);
    await run(spec.id, 'true');
    assert.match((await under.exec(spec.id, '. /etc/troupe/env; echo $KEY')).toString(), /of now/);
    await under.engine.remove(spec.id);
  });

  it('reaches the members of its private network, under no name of its own', async () => {
    const network = (alias: string | null, place: number) => ({ owner: 'u1', name: 'shop', alias, place });
    const db = await suite.started({ mountPaths: [] });
    await under.engine.join(db, network('db', 1));
    const app = await suite.started({ mountPaths: [] });
    await under.engine.join(app, network('app', 2));
    const script = 'for name in db app app app; do nc -w 3 $name 22 < /dev/null | head -c 4; echo; done';
    assert.match(await said(app, script, { network: network('app', 12) }), /^(?:SSH-\n){3}SSH-$/);
    assert.deepEqual((await under.engine.inspect(app))?.network, network('app', 2));
    for (const id of [db, app]) await under.engine.remove(id);
  });

  it('is killed when its time is over', async () => {
    const id = suite.spec().id;
    const outcome = await run(id, 'echo began; sleep 60', { timeoutMs: 1500 });
    assert.deepEqual([outcome.exitCode, outcome.lines.map(textOfLine)], [null, ['began']]);
    assert.deepEqual(await onces(), []);
  });

  it('is ended with its container, and found by the next platform when one was killed', async () => {
    const id = await suite.started({ mountPaths: [] });
    const running = run(id, 'sleep 60').catch((error: unknown) => error);
    await until(async () => (await onces()).length === 1, { what: 'it runs' });
    const next = await under.again();
    try {
      // Of its own platform it is no leftover.
      assert.equal((await under.engine.inspect(id))?.hasOthers, undefined);
      await under.engine.endOthers(id, 1);
      assert.equal((await onces()).length, 1);
      assert.equal((await next.inspect(id))?.hasOthers, true);
      await next.endOthers(id, 1);
      assert.deepEqual(await onces(), []);
      await rejectsWith(Promise.reject(await running), 'unavailable');
      assert.equal((await next.inspect(id))?.hasOthers, undefined);
    } finally {
      await next.close();
    }
    const stopped = run(id, 'sleep 60').catch((error: unknown) => error);
    await until(async () => (await onces()).length === 1, { what: 'it runs' });
    await under.engine.stop(id, 1);
    await rejectsWith(Promise.reject(await stopped), 'unavailable');
    assert.deepEqual(await onces(), []);
    await under.engine.remove(id);
  });
});
