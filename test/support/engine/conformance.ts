import assert from 'node:assert/strict';
import { after, before, describe, it as test } from 'node:test';
import type { ContainerSpec, Engine, LogStream } from '../../../proto/ports/engine.ts';
import { egressConformance } from './conformance-egress.ts';
import { execConformance, runConformance } from './conformance-exec.ts';
import { filesConformance } from './conformance-files.ts';
import { imageConformance } from './conformance-images.ts';
import { isolationConformance } from './conformance-isolation.ts';
import { keptConformance } from './conformance-kept.ts';
import { networksConformance } from './conformance-networks.ts';
import { onceConformance } from './conformance-once.ts';
import { joinedSuccessorsConformance, successorsConformance } from './conformance-successors.ts';
import { collect, type EngineUnderTest, keys, rejectsWith, Suite, textOfLine } from './conformance-suite.ts';
import { workloadConformance } from './conformance-workload.ts';
import { eventually } from './eventually.ts';

/** What an engine under test can be asked beyond the engine itself. */
export interface ConformanceOptions {
  readonly skip?: string | false;
  /** Only these of the tests, of an engine so slow that files share them: about one half, the other, or what `parts` adds. */
  readonly share?: 'first' | 'second' | 'parts';
  readonly parts?: {
    /** There is a network that can be tried from inside. */
    readonly network?: boolean;
    /** There are private networks, which can be tried from inside. */
    readonly privateNetworks?: boolean;
    /** A container can have a successor. */
    readonly successors?: boolean;
    /** It runs commands once. */
    readonly once?: boolean;
    /** There is a registry. */
    readonly registry?: boolean;
    /** What is left of a container that was stopped is only its data: neither log nor, always, exit code. */
    readonly forgetsStopped?: boolean;
    /** What was written to the outputs of a workload is not told apart. */
    readonly oneOutput?: boolean;
    /** A command cannot be told that its input has ended. */
    readonly endlessInput?: boolean;
    /** The image has perl: commands can be kept. */
    readonly perl?: boolean;
  };
}

/** What every Engine promises (proto/ports/engine.ts): give it a way to open yours. */
export function engineConformance(
  name: string,
  open: () => Promise<EngineUnderTest>,
  options: ConformanceOptions = {},
): void {
  describe(`engine conformance: ${name}`, { skip: options.skip ?? false }, () => {
    let suite: Suite;
    let under: EngineUnderTest;
    let engine: Engine;
    const specOf = (change: Partial<ContainerSpec> = {}): ContainerSpec => suite.spec(change);
    const started = (change: Partial<ContainerSpec> = {}): Promise<string> => suite.started(change);

    before(async () => {
      under = await open();
      engine = under.engine;
      suite = new Suite(under);
      await engine.ensureImage(under.image, { always: false });
    });
    after(() => under?.end());

    let count = 0;
    const it = (title: string, run: () => Promise<void>): void => {
      // Shells and images, of the first half, are as many as every third.
      const share = count++ % 3 === 0 ? 'first' : 'second';
      if (options.share === undefined || options.share === share) test(title, run);
    };

    if (options.share === undefined || options.share === 'first') {
      execConformance(() => suite);
      runConformance(() => suite, options.parts?.endlessInput === true);
      if (options.parts?.perl === true) keptConformance(() => suite);
      filesConformance(() => suite);
      imageConformance(() => suite, options.parts?.registry === true);
      workloadConformance(() => suite);
      egressConformance(() => suite);
    }
    if (options.parts?.network === true) isolationConformance(() => suite);
    if (options.parts?.privateNetworks === true) networksConformance(() => suite);
    if (options.parts?.successors === true) successorsConformance(() => suite);
    if (options.parts?.successors === true && options.parts.privateNetworks === true)
      joinedSuccessorsConformance(() => suite);
    if (options.parts?.once === true) onceConformance(() => suite);

    it('says which engine it is', async () => {
      assert.match(await engine.check(), /\d/);
      assert.notEqual(engine.baseImage, '');
    });

    it('takes a container from created over running to exited, and away', async () => {
      const spec = specOf();
      assert.equal(await engine.inspect(spec.id), undefined);
      await engine.create(spec);
      const created = await engine.inspect(spec.id);
      // Told where the engine limits it.
      const limitsStorage = created?.limits?.storageGb !== undefined;
      const storage = limitsStorage ? { storageGb: spec.storageGb } : {};
      assert.deepEqual(created, {
        id: spec.id,
        phase: 'created',
        address: null,
        exitCode: null,
        oomKilled: false,
        restarts: 0,
        startedAt: null,
        paused: false,
        mountPaths: spec.mountPaths,
        egress: 'any',
        limits: { cpus: spec.cpus, memoryMb: spec.memoryMb, ...storage },
        network: null,
      });
      await engine.start(spec.id, keys);
      const running = await engine.inspect(spec.id);
      assert.equal(running?.phase, 'running');
      assert.equal(running?.exitCode, null);
      assert.ok(typeof running?.address === 'string' && running.address !== '');
      assert.ok(Math.abs((running?.startedAt ?? 0) - Date.now()) < 3_600_000);
      await engine.stop(spec.id, 5);
      const exited = await engine.inspect(spec.id);
      assert.equal(exited?.phase, 'exited');
      assert.equal(exited?.address, null);
      if (options.parts?.forgetsStopped !== true) assert.equal(typeof exited?.exitCode, 'number');
      assert.equal(exited?.startedAt, running?.startedAt);
      assert.equal(running?.endedAt, undefined);
      assert.ok((exited?.endedAt ?? 0) >= (running?.startedAt ?? 0));
      await engine.remove(spec.id);
      assert.equal(await engine.inspect(spec.id), undefined);
    });

    it('makes one container of two creations at the same time', async () => {
      const spec = specOf();
      await Promise.all([engine.create(spec), engine.create(spec), engine.create(spec)]);
      const all = await engine.list();
      assert.equal(all.filter((state) => state.id === spec.id).length, 1);
      assert.deepEqual(
        (await engine.list([spec.id, 'nothinghere1'])).map(({ id }) => id),
        [spec.id],
      );
      assert.deepEqual(await engine.list([]), []);
      await engine.remove(spec.id);
    });

    it('lets every call be repeated', async () => {
      const id = await started();
      await engine.start(id, keys);
      await engine.stop(id, 5);
      await engine.stop(id, 5);
      await engine.remove(id);
      await engine.remove(id);
      await engine.stop(id, 5);
    });

    it('refuses what concerns a container that is not there', async () => {
      await rejectsWith(engine.start('nobody', []), 'not_found');
      await rejectsWith(engine.dial('nobody', 22, { timeoutMs: 1000 }), 'not_found');
      await rejectsWith(collect(engine, 'nobody', {}), 'not_found');
    });

    it("refuses mount paths that lead to what is not the container's", async () => {
      for (const path of [
        'relative',
        '/',
        '',
        '/a/../../etc',
        '/proc',
        '/sys/fs',
        '/dev',
        '/a\0b',
        '/a:ro',
        '/etc/troupe',
      ]) {
        await rejectsWith(engine.create(specOf({ mountPaths: [path] })), 'refused');
      }
    });

    it('refuses an image that is none, or is not there', async () => {
      for (const image of ['-v', 'http://', 'UPPER/case:tag with space', 'a@sha256:bad', '']) {
        await rejectsWith(engine.create(specOf({ image })), 'image_not_found');
        await rejectsWith(engine.ensureImage(image, { always: false }), 'image_not_found');
      }
      // An engine whose machines pull by themselves tells at the start.
      const unknown = specOf({ image: under.missingImage ?? 'never/heard-of:it' });
      const launched = (async () => {
        await engine.create(unknown);
        await engine.start(unknown.id, keys);
      })();
      await rejectsWith(launched, 'image_not_found');
      await engine.remove(unknown.id);
    });

    it('writes the keys of each start', async () => {
      const id = await started();
      assert.equal(await under.readFile(id, '/etc/troupe/authorized_keys'), `${keys.join('\n')}\n`);
      await engine.stop(id, 5);
      await engine.start(id, ['ssh-ed25519 BBBB third']);
      assert.equal(await under.readFile(id, '/etc/troupe/authorized_keys'), 'ssh-ed25519 BBBB third\n');
      await engine.remove(id);
    });

    it('connects to what listens in the container, and says why not', async () => {
      const id = await started();
      const stream = await engine.dial(id, 22, { timeoutMs: 5000 });
      const banner = await new Promise<string>((resolve, reject) => {
        stream.once('data', (data: Buffer) => resolve(data.toString()));
        stream.once('error', reject);
      });
      assert.match(banner, /^SSH-2\.0-/);
      stream.destroy();
      await rejectsWith(engine.dial(id, 9, { timeoutMs: 5000 }), 'no_listener');
      await rejectsWith(engine.dial(id, 0, { timeoutMs: 5000 }), 'refused');
      await rejectsWith(engine.dial(id, 65536, { timeoutMs: 5000 }), 'refused');
      await rejectsWith(engine.dial(id, 22, { timeoutMs: 5000, signal: AbortSignal.abort() }), 'unavailable');
      await engine.stop(id, 5);
      await rejectsWith(engine.dial(id, 22, { timeoutMs: 5000 }), 'not_running');
      await engine.remove(id);
    });

    it('ends the connections of a container that stops', async () => {
      const id = await started();
      const stream = await engine.dial(id, 22, { timeoutMs: 5000 });
      stream.on('error', () => undefined);
      stream.resume();
      const closed = new Promise((resolve) => stream.once('close', resolve));
      await under.kill(id);
      await closed;
      await engine.remove(id);
    });

    it('sees a workload that was killed', async () => {
      const id = await started();
      await under.kill(id);
      await eventually(async () => assert.equal((await engine.inspect(id))?.phase, 'exited'));
      assert.equal((await engine.inspect(id))?.exitCode, 137);
      await engine.start(id, keys);
      assert.equal((await engine.inspect(id))?.phase, 'running');
      await engine.remove(id);
    });

    it('keeps data over restart, re-creation and removal with keepData, until it is removed', async () => {
      const spec = specOf({ mountPaths: ['/root', '/srv/data'] });
      await engine.create(spec);
      await engine.start(spec.id, keys);
      await under.writeFile(spec.id, '/root/mine', 'one');
      await under.writeFile(spec.id, '/srv/data/mine', 'two');
      await engine.stop(spec.id, 5);
      await engine.start(spec.id, keys);
      assert.equal(await under.readFile(spec.id, '/root/mine'), 'one');
      await engine.stop(spec.id, 5);
      await engine.create({ ...spec, mountPaths: ['/root', '/srv/data', '/opt/more'] });
      await engine.start(spec.id, keys);
      assert.equal(await under.readFile(spec.id, '/srv/data/mine'), 'two');
      await engine.remove(spec.id, { keepData: true });
      assert.equal(await engine.inspect(spec.id), undefined);
      await engine.create(spec);
      await engine.start(spec.id, keys);
      assert.equal(await under.readFile(spec.id, '/root/mine'), 'one');
      await under.removeContainer(spec.id);
      await engine.create(spec);
      await engine.start(spec.id, keys);
      assert.equal(await under.readFile(spec.id, '/srv/data/mine'), 'two');
      await engine.remove(spec.id);
      await engine.create(spec);
      await engine.start(spec.id, keys);
      assert.equal(await under.readFile(spec.id, '/root/mine'), undefined);
      await engine.remove(spec.id);
    });

    it('has all its files after its mount paths changed, where the engine says so', async () => {
      if (!engine.keepsFiles) return;
      const spec = specOf({ mountPaths: ['/root', '/srv/old'] });
      await engine.create(spec);
      await engine.start(spec.id, keys);
      for (const path of ['/root/kept', '/srv/old/dropped', '/srv/new/added', '/opt/installed'])
        await under.writeFile(spec.id, path, path);
      await engine.stop(spec.id, 5);
      const others = { ...spec, mountPaths: ['/root', '/srv/new'] };
      await engine.create(others);
      await engine.start(spec.id, keys);
      for (const path of ['/root/kept', '/srv/old/dropped', '/srv/new/added', '/opt/installed'])
        assert.equal(await under.readFile(spec.id, path), path);
      await under.writeFile(spec.id, '/srv/new/later', 'later');
      await engine.stop(spec.id, 5);
      await engine.create(spec);
      await engine.start(spec.id, keys);
      for (const path of ['/root/kept', '/srv/old/dropped', '/srv/new/added', '/opt/installed'])
        assert.equal(await under.readFile(spec.id, path), path);
      assert.equal(await under.readFile(spec.id, '/srv/new/later'), 'later');
      assert.equal((await engine.list()).filter(({ id }) => id === spec.id).length, 1);
      await engine.remove(spec.id);
      assert.equal(await engine.inspect(spec.id), undefined);
    });

    it('removes nothing once another node may look after the container', async () => {
      const spec = specOf({ mountPaths: ['/root'] });
      await engine.create(spec);
      await engine.start(spec.id, keys);
      await under.writeFile(spec.id, '/root/kept', 'kept');
      await engine.stop(spec.id, 5);
      const fence = () => {
        throw new Error('another node has it');
      };
      const others = { ...spec, mountPaths: ['/root', '/srv/new'] };
      await assert.rejects(engine.create(others, fence), /another node has it/);
      await engine.create(spec);
      await engine.start(spec.id, keys);
      assert.equal(await under.readFile(spec.id, '/root/kept'), 'kept');
      await engine.remove(spec.id);
    });

    it('says whether a container has an SSH server to wait for', async () => {
      await rejectsWith(engine.hasSshServer('nothing'), 'not_found');
      const id = await started();
      assert.equal(await engine.hasSshServer(id), true);
      await engine.remove(id);
    });

    it('lists the containers of this installation', async () => {
      const [a, b] = [specOf(), specOf()];
      await engine.create(a);
      await engine.create(b);
      await engine.start(b.id, keys);
      const phases = Object.fromEntries((await engine.list()).map((state) => [state.id, state.phase]));
      assert.equal(phases[a.id], 'created');
      assert.equal(phases[b.id], 'running');
      await engine.remove(a.id);
      await engine.remove(b.id);
    });

    it('reports every change to those who watch, after a first look at all', async () => {
      const seen: (string | undefined)[] = [];
      const watch = engine.watch((id) => seen.push(id));
      await eventually(() => assert.equal(seen[0] === undefined && seen.length > 0, true));
      const spec = specOf();
      const heard = async (): Promise<void> => {
        await eventually(() => assert.ok(seen.includes(spec.id), 'not heard of'));
        seen.length = 0;
      };
      await engine.create(spec);
      await heard();
      await engine.start(spec.id, keys);
      await heard();
      await under.kill(spec.id);
      await heard();
      await under.removeContainer(spec.id);
      await heard();
      await watch.close();
      seen.length = 0;
      await engine.remove(spec.id);
      await engine.create(spec);
      await engine.remove(spec.id);
      assert.deepEqual(seen, []);
    });

    it('reads a log by its newest lines, in order, with stamps', async () => {
      const id = await started();
      const wanted = Array.from({ length: 50 }, (_, i) => `line ${i} ä€😀`);
      await under.print(id, wanted);
      await eventually(async () =>
        assert.ok(
          (await collect(engine, id, {})).some((line) => line.endsWith('line 49 ä€😀')),
          'not yet logged',
        ),
      );
      const all = await collect(engine, id, { tail: 1000 });
      for (const line of all) assert.match(line, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z /);
      assert.deepEqual(
        all.map(textOfLine).filter((text) => text.startsWith('line ')),
        wanted,
      );
      // What its own program logs, such as a connection that ended, may come at any time.
      for (const [tail, isSeen] of [
        [2, (lines: string[]) => lines.slice(-2)],
        [0, () => []],
        [Number.POSITIVE_INFINITY, (lines: string[]) => lines],
      ] as const)
        await eventually(async () => {
          const before = await collect(engine, id, { tail: 1000 });
          const seen = await collect(engine, id, { tail });
          assert.deepEqual(await collect(engine, id, { tail: 1000 }), before, 'it grew meanwhile');
          assert.deepEqual(seen, isSeen(before));
        });
      const stampOf = (line: string | undefined): string => line?.split(' ')[0] ?? '';
      const middle = stampOf(all.find((line) => textOfLine(line) === 'line 20 ä€😀'));
      const later = await collect(engine, id, { tail: 1000, since: middle });
      assert.ok(later.every((line) => (line.split(' ')[0] ?? '') > middle));
      assert.ok(!later.some((line) => textOfLine(line) === 'line 20 ä€😀'));
      const place = all.findIndex((line) => line.startsWith(middle));
      const before = { tail: Number.POSITIVE_INFINITY, until: middle };
      assert.deepEqual(await collect(engine, id, before), all.slice(0, place));
      assert.deepEqual(
        await collect(engine, id, { ...before, since: stampOf(all[place - 3]) }),
        all.slice(place - 2, place),
      );
      assert.deepEqual(await collect(engine, id, { until: '1970-01-01T00:00:00Z' }), []);
      await engine.remove(id);
    });

    it('follows a log until the container stops', async () => {
      const id = await started();
      const reading = collect(engine, id, { follow: true });
      await under.print(id, ['while it runs']);
      await eventually(async () =>
        assert.ok(
          (await collect(engine, id, {})).some((l) => l.endsWith('while it runs')),
          'not yet logged',
        ),
      );
      await engine.stop(id, 5);
      assert.ok((await reading).some((line) => line.endsWith(' while it runs')));
      await engine.remove(id);
    });

    it('stops following when told to', async () => {
      const id = await started();
      await under.print(id, ['something']);
      const lines = await collect(engine, id, {
        follow: true,
        enough: (all) => all.some((l) => l.endsWith('something')),
      });
      assert.ok(lines.length > 0);
      await engine.remove(id);
    });

    it('follows a log from its past into its future without a gap or a double', async () => {
      const id = await started();
      const numbers = (from: number): string[] => Array.from({ length: 20 }, (_, i) => `number ${from + i}`);
      await under.print(id, numbers(0));
      const read: string[] = [];
      const reading = collect(engine, id, {
        tail: 1000,
        follow: true,
        enough: (lines) => {
          read.splice(0, read.length, ...lines.map(textOfLine).filter((text) => text.startsWith('number ')));
          return read.length >= 60;
        },
      });
      await eventually(() => assert.ok(read.includes('number 19'), 'not yet read'));
      await under.print(id, numbers(20));
      await under.print(id, numbers(40));
      await reading;
      assert.deepEqual(read, [...numbers(0), ...numbers(20), ...numbers(40)]);
      await engine.remove(id);
    });

    it('reads the log of a container that ended, and refuses a time that is none', async () => {
      const id = await started();
      await under.print(id, ['last words']);
      await eventually(async () =>
        assert.ok(
          (await collect(engine, id, {})).some((line) => line.endsWith('last words')),
          'not yet logged',
        ),
      );
      if (options.parts?.forgetsStopped === true) await under.kill(id);
      else await engine.stop(id, 5);
      await eventually(async () => assert.equal((await engine.inspect(id))?.phase, 'exited'));
      assert.ok((await collect(engine, id, { follow: true })).some((line) => line.endsWith('last words')));
      await rejectsWith(collect(engine, id, { since: 'yesterday' }), 'refused');
      await rejectsWith(collect(engine, id, { until: 'tomorrow' }), 'refused');
      assert.deepEqual(await collect(engine, id, { tail: -1 }), []);
      assert.deepEqual(await collect(engine, id, { tail: Number.NaN }), []);
      await engine.remove(id);
    });

    if (options.parts?.oneOutput === true)
      it('refuses to read one output: it does not tell them apart', async () => {
        const id = await started();
        await rejectsWith(collect(engine, id, { stream: 'stderr' }), 'refused');
        await engine.remove(id);
      });
    else
      it('reads one output of two', async () => {
        const id = await started();
        await under.print(id, ['an output']);
        await under.print(id, ['an error'], 'stderr');
        const of = async (stream: LogStream): Promise<string[]> =>
          (await collect(engine, id, { stream })).map(textOfLine).filter((text) => text.startsWith('an '));
        await eventually(async () => {
          assert.deepEqual(await of('stdout'), ['an output']);
          assert.deepEqual(await of('stderr'), ['an error']);
        });
        await engine.remove(id);
      });

    it('tells those who watch to look at all when it lost sight, and goes on', async () => {
      const seen: (string | undefined)[] = [];
      const watch = engine.watch((id) => seen.push(id));
      // Something may still happen to containers of the tests before.
      const looks = () => seen.filter((id) => id === undefined).length;
      await eventually(() => assert.equal(looks(), 1));
      assert.equal(seen[0], undefined);
      await under.cut();
      await eventually(() => assert.ok(looks() > 1, 'not told'));
      const spec = specOf();
      await engine.create(spec);
      await eventually(() => assert.ok(seen.includes(spec.id), 'not heard of'));
      await watch.close();
      await engine.remove(spec.id);
    });

    it('adopts what an earlier life of the platform made, and does not double it', async () => {
      const spec = specOf();
      await engine.create(spec);
      const second = await under.again();
      try {
        await Promise.all([second.create(spec), engine.create(spec)]);
        assert.equal((await second.list()).filter((state) => state.id === spec.id).length, 1);
        await second.start(spec.id, spec.authorizedKeys);
        assert.equal((await engine.inspect(spec.id))?.phase, 'running');
        await second.remove(spec.id);
        assert.equal(await engine.inspect(spec.id), undefined);
      } finally {
        if (second !== engine) await second.close();
      }
    });

    it('goes on after calls at the same time that contradict each other', async () => {
      const spec = specOf();
      await engine.create(spec);
      await Promise.allSettled([
        engine.start(spec.id, keys),
        engine.stop(spec.id, 1),
        engine.remove(spec.id, { keepData: true }),
        engine.create(spec),
      ]);
      await engine.create(spec);
      await engine.start(spec.id, keys);
      assert.equal((await engine.inspect(spec.id))?.phase, 'running');
      await engine.remove(spec.id);
      assert.equal(await engine.inspect(spec.id), undefined);
    });

    it('tells usage at once, and later what was measured', async () => {
      const spec = specOf();
      assert.deepEqual(engine.usage(spec.id), { memoryBytes: 0, storageBytes: 0 });
      await engine.create(spec);
      await engine.start(spec.id, keys);
      await eventually(() => assert.ok(engine.usage(spec.id).memoryBytes > 0, 'not yet measured'));
      const memory = engine.usage(spec.id).memoryBytes;
      assert.ok(memory <= spec.memoryMb * 2 ** 20, `${memory} bytes are more than it may have`);
      await engine.remove(spec.id);
      assert.deepEqual(engine.usage(spec.id), { memoryBytes: 0, storageBytes: 0 });
    });
  });
}
