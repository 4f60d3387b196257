/** What looks at the health of containers make of what programs inside do to them, and how long they go on. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { updateContainer } from '../../proto/compute/settings.ts';
import { getSettings } from '../../proto/compute/workload.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import type { MemoryCommand, MemoryEngine, MemoryEngineOptions } from '../support/engine/memory-engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const [ONE, TWO, BROKEN] = ['1', '2', 'broken'].map((tag) => `${REGISTRY}/ann/app:${tag}`) as [string, string, string];
const tcp = { tcp: { port: 8080 } };

function listen(engine: MemoryEngine, id: string, port: number): void {
  engine.listen(id, port, (stream) => {
    stream.on('error', () => undefined);
    stream.resume();
    stream.write('SSH-2.0-memory\r\n');
  });
}

/** Images: `broken` listens on no port but that of SSH. */
const images = (more: MemoryEngineOptions = {}): MemoryEngineOptions => ({
  images: [ONE, TWO, BROKEN],
  onStart: (id, engine) => {
    listen(engine, id, 22);
    if (engine.specOf(id)?.image !== BROKEN) listen(engine, id, 8080);
  },
  ...more,
});

const change = (compute: ComputeUnderTest, id: string, body: object) =>
  compute.call(updateContainer, ann, { params: { id }, body });
const becomes = (compute: ComputeUnderTest, id: string, wanted: string) => compute.healthBecomes(ann, id, wanted);

describe('a look at the health of a container', () => {
  test('takes nothing of what it says that a row could not hold', async (t) => {
    const onRun = (command: MemoryCommand): void => {
      command.stdout.write('LISTEN 0 511 127.0.0.1\0:3000 0.0.0.0:*\nLISTEN 0 511 \u001b[31m*:3001 *:*\n');
      command.stdout.write(`LISTEN 0 511 ${'1'.repeat(60_000)}:3002 *:*\n`);
      command.exit(0);
    };
    const compute = await openCompute(t, { engine: images({ onRun }) });
    // So that the first look is after the grace.
    compute.clock.advance(1000);
    const id = await compute.running(ann, { image: ONE, health: { ...tcp, grace: 1 } });
    await becomes(compute, id, 'healthy');
    await change(compute, id, { image: BROKEN });
    await until(() => compute.engine.specOf(id)?.image === BROKEN);
    const back = await becomes(compute, id, 'healthy');
    assert.equal(back.image, ONE);
    assert.match(
      back.status_reason ?? '',
      /nothing answers on port 8080\. Nothing listens inside the container\. Mend/,
    );
    const other = await compute.running(ann, { image: BROKEN, health: { ...tcp, grace: 1 } });
    const view = await becomes(compute, other, 'unhealthy');
    assert.match(
      view.health_reason ?? '',
      /^It was not healthy within 1 s: .* Nothing listens inside the container\.$/,
    );
  });

  test('says what it found in a bounded line', async (t) => {
    const compute = await openCompute(t, {
      engine: images(),
      wrapEngine: (engine) => ({
        ...engine,
        run: async () => {
          throw new EngineError('refused', `No\0such\nprogram: ${'x'.repeat(60_000)}`);
        },
      }),
    });
    const id = await compute.running(ann, { image: ONE, health: { command: ['true'], grace: 1 } });
    const { health_reason = '' } = await becomes(compute, id, 'unhealthy');
    assert.match(health_reason, /^It was not healthy within 1 s: `true` cannot be run: No such program: x+…$/);
    assert.equal(health_reason.length, 1000);
  });

  test('holds a command against it that does not even start within its time', async (t) => {
    const compute = await openCompute(t, {
      engine: images(),
      wrapEngine: (engine) => ({
        ...engine,
        run: (_id, _words, signal) =>
          new Promise((_resolve, reject) => {
            const giveUp = (): void => reject(new EngineError('unavailable', 'Given up.'));
            signal.addEventListener('abort', giveUp, { once: true });
          }),
      }),
    });
    // So that the first look is after the grace.
    compute.clock.advance(60_000);
    const { timeout } = AbortSignal;
    t.mock.method(AbortSignal, 'timeout', (ms: number) => timeout.call(AbortSignal, ms === 10_000 ? 100 : ms));
    const id = await compute.running(ann, { image: ONE, health: { command: ['true'], grace: 1 } });
    assert.equal(
      (await becomes(compute, id, 'unhealthy')).health_reason,
      'It was not healthy within 1 s: `true` did not end within 10 s.',
    );
  });

  test('holds to what it found when what listens inside cannot be asked', async (t) => {
    const compute = await openCompute(t, {
      engine: images(),
      wrapEngine: (engine) => ({
        ...engine,
        run: async () => {
          throw new EngineError('unavailable', 'The command did not start in time.');
        },
      }),
    });
    const id = await compute.running(ann, { image: BROKEN, health: { ...tcp, grace: 1 } });
    assert.equal(
      (await becomes(compute, id, 'unhealthy')).health_reason,
      'It was not healthy within 1 s: nothing answers on port 8080.',
    );
  });
});

describe('a change that waits for its image', () => {
  test('is dropped by the way back, with the settings that were made from the bad ones', async (t) => {
    let isGivenUp = false;
    const compute = await openCompute(t, {
      engine: images(),
      wrapEngine: (engine) => ({
        ...engine,
        ensureImage: (image, options) =>
          image === TWO
            ? new Promise((_resolve, reject) => {
                const giveUp = (): void => {
                  isGivenUp = true;
                  reject(new EngineError('unavailable', 'Given up.'));
                };
                options.signal?.addEventListener('abort', giveUp, { once: true });
              })
            : engine.ensureImage(image, options),
      }),
    });
    const id = await compute.running(ann, { image: ONE, env: { A: '1' }, health: { ...tcp, grace: 600 } });
    await becomes(compute, id, 'healthy');
    await change(compute, id, { image: BROKEN, env: { A: 'bad' } });
    await until(() => compute.engine.specOf(id)?.image === BROKEN);
    await becomes(compute, id, 'starting');
    assert.equal((await change(compute, id, { image: TWO, env: { A: 'bad', B: '2' } })).next_image, TWO);
    compute.clock.advance(601_000);
    const view = await until(async () => {
      const now = await compute.view(ann, id);
      return now.image === ONE && now.health === 'healthy' ? now : undefined;
    });
    assert.equal(view.next_image, undefined);
    assert.match(
      view.status_reason ?? '',
      /has \S+app:1 and the settings of before\. The change to \S+app:2, which waited for its image, was dropped\. It/,
    );
    assert.ok(isGivenUp);
    assert.deepEqual((await compute.on(getSettings, ann, id)).env, { A: '1' });
    const [entry] = await readAudit(compute.db, { action: 'container.change_given_up', limit: 10 });
    assert.equal(entry?.detail.dropped, TWO);
  });
});

describe('a container that was found unhealthy', () => {
  test('is looked at by its next owner, for the time that is left', async (t) => {
    const compute = await openCompute(t, { engine: images() });
    const late = await compute.running(ann, { image: BROKEN, health: { ...tcp, grace: 1 } });
    await becomes(compute, late, 'unhealthy');
    const id = await compute.running(ann, { image: BROKEN, health: { ...tcp, grace: 600 } });
    await becomes(compute, id, 'starting');
    // The time of one is over then, and that of the other is not.
    compute.clock.advance(660_000);
    await becomes(compute, id, 'unhealthy');
    await compute.stop();
    let asked = 0;
    compute.engine.listen(late, 8080, (stream) => {
      asked += 1;
      stream.on('error', () => undefined).resume();
    });
    listen(compute.engine, id, 8080);
    await compute.start();
    assert.equal((await compute.view(ann, late)).health, 'unhealthy');
    await becomes(compute, id, 'healthy');
    await turns();
    assert.deepEqual([asked, (await compute.view(ann, late)).health], [0, 'unhealthy']);
  });
});
