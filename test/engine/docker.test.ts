import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import { type ContainerSpec, EngineError } from '../../proto/ports.ts';
import { namingOf } from '../../transports/docker/naming.ts';
import { engineConformance } from './conformance.ts';
import { collect, rejectsWith, textOfLine } from './conformance-kit.ts';
import { dockerSkip, dockerUnderTest, withRegistry } from './docker-under-test.ts';
import { eventually } from './eventually.ts';

const docker = z.object({
  Id: z.string(),
  HostConfig: z.object({ NanoCpus: z.number(), CpuShares: z.number(), Memory: z.number(), MemorySwap: z.number() }),
});

engineConformance('docker', () => dockerUnderTest({ registry: withRegistry }), {
  skip: dockerSkip(),
  parts: { network: true, registry: withRegistry },
});

describe('docker engine', { skip: dockerSkip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  before(async () => {
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
  });
  after(() => under?.end());

  const spec = (id: string): ContainerSpec => ({
    id,
    userId: 'u1',
    hostname: 'box',
    image: under.image,
    cpus: 1,
    memoryMb: 128,
    storageGb: 1,
    mountPaths: ['/root'],
    authorizedKeys: [],
  });
  const inspected = (id: string): Promise<z.infer<typeof docker>> =>
    under.client.json('GET', `/containers/${namingOf(under.installation).container(id)}/json`, docker);
  const started = async (id: string): Promise<void> => {
    await under.engine.create(spec(id));
    await under.engine.start(id, []);
    await eventually(async () => (await under.engine.dial(id, 22, { timeoutMs: 2000 })).destroy());
  };

  it('applies new limits to a stopped container without making it anew', async () => {
    await under.engine.create(spec('grown'));
    const { Id } = await inspected('grown');
    await under.engine.create({ ...spec('grown'), memoryMb: 256, cpus: 0.25 });
    const grown = await inspected('grown');
    assert.equal(grown.Id, Id);
    assert.equal(grown.HostConfig.Memory, 256 * 1024 * 1024);
    assert.equal(grown.HostConfig.MemorySwap, 256 * 1024 * 1024);
    assert.equal(grown.HostConfig.NanoCpus, 25e7);
    assert.equal(grown.HostConfig.CpuShares, 256);
    await under.engine.remove('grown');
  });

  it('does not take over a container that has its name but is not its own', async () => {
    const name = namingOf(under.installation).container('taken');
    await under.client.call('POST', '/containers/create', { query: { name }, body: { Image: under.image } });
    await rejectsWith(under.engine.create(spec('taken')), 'refused');
    assert.equal(await under.engine.inspect('taken'), undefined);
    await under.engine.remove('taken');
    await under.client.call('DELETE', `/containers/${name}`, { query: { force: true } });
  });

  it('finds a container that was renamed, and starts one that was paused or lost its network', async () => {
    await started('moved');
    const { Id } = await inspected('moved');
    const network = namingOf(under.installation).network('moved');
    await under.client.call('POST', `/containers/${Id}/pause`);
    await under.engine.start('moved', []);
    await eventually(async () => (await under.engine.dial('moved', 22, { timeoutMs: 2000 })).destroy());
    await under.engine.stop('moved', 5);
    await under.client.call('DELETE', `/networks/${network}`);
    await under.engine.start('moved', []);
    await eventually(async () => (await under.engine.dial('moved', 22, { timeoutMs: 2000 })).destroy());
    await under.client.call('POST', `/containers/${Id}/rename`, { query: { name: `${network}-elsewhere` } });
    assert.equal((await under.engine.inspect('moved'))?.phase, 'running');
    await under.engine.remove('moved');
    assert.equal(await under.engine.inspect('moved'), undefined);
  });

  it('says what of an image cannot be run', async () => {
    await under.engine.create(spec('plain'));
    const { Id } = await inspected('plain');
    await under.client.call('POST', '/commit', {
      query: { container: Id, repo: 'troupe/broken', tag: '1', changes: 'CMD ["/none"]' },
      body: {},
    });
    try {
      await under.engine.create({ ...spec('broken'), image: 'troupe/broken:1' });
      await under.engine.start('broken', []).catch((error: unknown) => {
        assert.ok(error instanceof EngineError && error.code === 'refused', String(error));
      });
      await eventually(async () => assert.notEqual((await under.engine.inspect('broken'))?.phase, 'running'));
    } finally {
      await under.engine.remove('broken');
      await under.client.call('DELETE', '/images/troupe/broken:1');
      await under.engine.remove('plain');
    }
  });

  it('reads a line longer than the pieces Docker stores as one', async () => {
    await started('wordy');
    await under.print('wordy', ['a'.repeat(40_000)]);
    await eventually(async () => {
      const lines = await collect(under.engine, 'wordy', {});
      assert.ok(
        lines.some((line) => textOfLine(line) === 'a'.repeat(40_000)),
        'not yet logged',
      );
    });
    await under.engine.remove('wordy');
  });
});
