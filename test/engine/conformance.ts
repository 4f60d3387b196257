import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type ContainerSpec, type Engine, EngineError, type EngineErrorCode } from '../../proto/ports.ts';
import { eventually } from './eventually.ts';

/** An engine under test, and hands that change things behind its back. */
export interface EngineUnderTest {
  readonly engine: Engine;
  /** An image whose workload listens on port 22 and greets with `SSH-2.0-`, made present by `ensureImage`. */
  readonly image: string;
  /** Ends the container's workload with SIGKILL. */
  kill(id: string): Promise<void>;
  /** Removes the container without its data. */
  removeContainer(id: string): Promise<void>;
  /** Writes a file in a running container. */
  writeFile(id: string, path: string, text: string): Promise<void>;
  /** A file of the container, or undefined when there is none. */
  readFile(id: string, path: string): Promise<string | undefined>;
  /** Writes lines to the workload's standard output. */
  print(id: string, lines: readonly string[]): Promise<void>;
  /** Removes whatever is left and closes. */
  end(): Promise<void>;
}

const keys = [
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPrm1bHQbHgHnTUCkO7sVd5Y3uFKvhBKsDsV8zM+9t1 first',
  'ssh-ed25519 AAAA second',
];

/** Expects an EngineError of `code`. */
export async function rejectsWith(promise: Promise<unknown>, code: EngineErrorCode): Promise<void> {
  await assert.rejects(promise, (error: unknown) => {
    assert.ok(error instanceof EngineError, `not an EngineError: ${String(error)}`);
    assert.equal(error.code, code, error.message);
    return true;
  });
}

/** All lines of a log that ends, or the first `atLeast`. */
export async function collect(
  engine: Engine,
  id: string,
  options: { tail?: number; follow?: boolean; since?: string; until?: (lines: string[]) => boolean },
): Promise<string[]> {
  const stop = new AbortController();
  const { tail = 100, follow = false, since } = options;
  const lines: string[] = [];
  for await (const batch of engine.logs(id, {
    tail,
    follow,
    signal: stop.signal,
    ...(since === undefined ? {} : { since }),
  })) {
    lines.push(...batch);
    if (options.until?.(lines)) stop.abort();
  }
  return lines;
}

/** The text of a log line without its stamp. */
export function textOfLine(line: string): string {
  return line.slice(line.indexOf(' ') + 1);
}

/** What every Engine promises (proto/ports.ts). */
export function engineConformance(
  name: string,
  open: () => Promise<EngineUnderTest>,
  options: { skip?: string | false } = {},
): void {
  describe(`engine conformance: ${name}`, { skip: options.skip ?? false }, () => {
    let under: EngineUnderTest;
    let engine: Engine;
    let count = 0;

    const specOf = (change: Partial<ContainerSpec> = {}): ContainerSpec => {
      count += 1;
      return {
        id: `c${count}`,
        userId: 'u1',
        hostname: 'box',
        image: under.image,
        cpus: 0.5,
        memoryMb: 128,
        storageGb: 1,
        mountPaths: ['/root'],
        authorizedKeys: keys,
        ...change,
      };
    };
    const started = async (change: Partial<ContainerSpec> = {}): Promise<string> => {
      const spec = specOf(change);
      await engine.create(spec);
      await engine.start(spec.id, spec.authorizedKeys);
      await eventually(async () => (await engine.dial(spec.id, 22, { timeoutMs: 5000 })).destroy());
      return spec.id;
    };

    before(async () => {
      under = await open();
      engine = under.engine;
      await engine.ensureImage(under.image, { always: false });
    });
    after(() => under?.end());

    it('says which engine it is', async () => {
      assert.match(await engine.check(), /\d/);
      assert.notEqual(engine.baseImage, '');
    });

    it('takes a container from created over running to exited, and away', async () => {
      const spec = specOf();
      assert.equal(await engine.inspect(spec.id), undefined);
      await engine.create(spec);
      const created = await engine.inspect(spec.id);
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
        limits: { cpus: spec.cpus, memoryMb: spec.memoryMb },
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
      assert.equal(typeof exited?.exitCode, 'number');
      await engine.remove(spec.id);
      assert.equal(await engine.inspect(spec.id), undefined);
    });

    it('makes one container of two creations at the same time', async () => {
      const spec = specOf();
      await Promise.all([engine.create(spec), engine.create(spec), engine.create(spec)]);
      const all = await engine.list();
      assert.equal(all.filter((state) => state.id === spec.id).length, 1);
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
      await rejectsWith(engine.create(specOf({ image: 'never/heard-of:it' })), 'image_not_found');
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
      assert.deepEqual((await collect(engine, id, { tail: 2 })).map(textOfLine), wanted.slice(-2));
      assert.deepEqual(await collect(engine, id, { tail: 0 }), []);
      const middle = all.find((line) => textOfLine(line) === 'line 20 ä€😀')?.split(' ')[0] ?? '';
      const later = await collect(engine, id, { tail: 1000, since: middle });
      assert.ok(later.every((line) => (line.split(' ')[0] ?? '') > middle));
      assert.ok(!later.some((line) => textOfLine(line) === 'line 20 ä€😀'));
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
        until: (all) => all.some((l) => l.endsWith('something')),
      });
      assert.ok(lines.length > 0);
      await engine.remove(id);
    });

    it('tells usage at once, and later what was measured', async () => {
      const id = await started();
      assert.deepEqual(engine.usage(id), { memoryBytes: 0, storageBytes: 0 });
      await eventually(() => assert.ok(engine.usage(id).memoryBytes > 0, 'not yet measured'), 20_000);
      await engine.remove(id);
    });
  });
}
