import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import { tar } from '../../lib/tar.ts';
import { type ContainerSpec, EngineError } from '../../proto/ports/engine.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { engineConformance } from '../support/engine/conformance.ts';
import { collect, rejectsWith, textOfLine } from '../support/engine/conformance-suite.ts';
import { dockerSkip, dockerUnderTest, withRegistry } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';

const docker = z.object({
  Id: z.string(),
  HostConfig: z.object({ NanoCpus: z.number(), CpuShares: z.number(), Memory: z.number(), MemorySwap: z.number() }),
  NetworkSettings: z.object({ Networks: z.record(z.string(), z.unknown()) }),
});

engineConformance('docker', () => dockerUnderTest({ registry: withRegistry, perl: true }), {
  skip: dockerSkip(),
  parts: { network: true, privateNetworks: true, successors: true, once: true, registry: withRegistry, perl: true },
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

  it('adds up what a container wrote, in its data and beside it', async () => {
    await started('large');
    await under.exec(
      'large',
      'dd if=/dev/zero of=/root/kept bs=1M count=3; dd if=/dev/zero of=/opt-file bs=1M count=2',
    );
    const size = 5 * 2 ** 20;
    await eventually(() => {
      const { storageBytes } = under.engine.usage('large');
      assert.ok(storageBytes >= size && storageBytes < size + 2 ** 20, `${storageBytes} bytes`);
    }, 20_000);
    await under.engine.stop('large', 1);
    await eventually(() => assert.equal(under.engine.usage('large').memoryBytes, 0), 20_000);
    assert.ok(under.engine.usage('large').storageBytes >= size);
    await under.engine.remove('large');
  });

  it('moves a container of the one network for all to a network of its own, and keeps what is in it', async () => {
    const naming = namingOf(under.installation);
    const shared = `troupe-${under.installation}`;
    await under.client.call('POST', '/networks/create', {
      body: { Name: shared, Labels: { 'troupe.installation': under.installation } },
    });
    const labels = { 'troupe.installation': under.installation, 'troupe.container': 'old', 'troupe.user': 'u1' };
    await under.client.call('POST', '/containers/create', {
      query: { name: naming.container('old') },
      body: {
        Image: `docker.io/${under.image}`,
        Labels: labels,
        HostConfig: {
          NetworkMode: shared,
          Mounts: [
            {
              Type: 'volume',
              Source: naming.volume('old', '/root'),
              Target: '/root',
              VolumeOptions: { Labels: labels },
            },
          ],
        },
      },
    });
    const { Id } = await inspected('old');
    await under.engine.create(spec('old'));
    await under.engine.start('old', ['ssh-ed25519 AAAA one']);
    await eventually(async () => (await under.engine.dial('old', 22, { timeoutMs: 2000 })).destroy());
    assert.equal((await inspected('old')).Id, Id);
    assert.deepEqual(Object.keys((await inspected('old')).NetworkSettings.Networks), [naming.network('old')]);
    assert.equal(await under.readFile('old', '/etc/troupe/authorized_keys'), 'ssh-ed25519 AAAA one\n');
    await under.engine.remove('old');
    await under.client.call('DELETE', `/networks/${shared}`);
  });

  it('opens no shell where there is none, and says so', async () => {
    await under.client.call('POST', '/images/create', {
      query: {
        fromSrc: '-',
        repo: 'troupe/bare',
        tag: under.installation,
        changes: 'CMD ["/busybox", "sleep", "600"]',
      },
      archive: tar([{ kind: 'file', path: 'busybox', mode: 0o755, data: readFileSync('/usr/bin/busybox') }], 0),
    });
    const image = `troupe/bare:${under.installation}`;
    try {
      await under.client.call('POST', '/containers/create', {
        query: { name: namingOf(under.installation).container('bare') },
        body: {
          Image: image,
          Labels: { 'troupe.installation': under.installation, 'troupe.container': 'bare' },
        },
      });
      await under.engine.start('bare', []);
      await assert.rejects(
        under.engine.exec('bare', { cols: 80, rows: 24, term: 'xterm' }, new AbortController().signal),
        (error: unknown) =>
          error instanceof EngineError && error.code === 'refused' && /has no shell/.test(error.message),
      );
    } finally {
      await under.engine.remove('bare');
      await under.client.call('DELETE', `/images/${image}`);
    }
  });

  it('says that a shell was lost when its connection broke, and ends it', async () => {
    await started('cut');
    const command = ['sh', '-c', "trap 'echo > /root/hung' HUP; echo ready; read line"];
    const options = { cols: 80, rows: 24, term: 'xterm', command };
    const shell = await under.engine.exec('cut', options, new AbortController().signal);
    const failed = new Promise<unknown>((resolve) => shell.stream.once('error', resolve));
    await new Promise((resolve) => shell.stream.once('data', resolve));
    await under.cut();
    const error = await failed;
    assert.ok(error instanceof EngineError && error.code === 'unavailable', String(error));
    assert.deepEqual(await shell.ended, { code: null, signal: null });
    await eventually(async () => assert.notEqual(await under.readFile('cut', '/root/hung'), undefined));
    await under.engine.remove('cut');
  });

  it('ends a shell that comes about after its asker has left', async () => {
    await started('late');
    const asked = new AbortController();
    const opening = under.engine.exec(
      'late',
      { cols: 80, rows: 24, term: 'xterm', command: ['sleep', '4321'] },
      asked.signal,
    );
    setImmediate(() => asked.abort());
    await rejectsWith(opening, 'unavailable');
    await eventually(async () => {
      const processes = (await under.exec('late', 'ps')).toString();
      assert.doesNotMatch(processes, /sleep 4321/);
    });
    await under.engine.remove('late');
  });

  it('shows the registry a token as it is', async () => {
    const shown: (string | undefined)[] = [];
    const registry = createServer((request, response) => {
      shown.push(request.headers.authorization);
      if (request.headers.authorization === undefined) {
        response.writeHead(401, {
          'www-authenticate': `Bearer realm="http://${request.headers.host}/token",service="x"`,
        });
      } else response.writeHead(404, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ errors: [{ code: 'MANIFEST_UNKNOWN', message: 'manifest unknown' }] }));
    });
    await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve));
    try {
      const address = registry.address();
      const image = `127.0.0.1:${typeof address === 'object' ? address?.port : 0}/ann/app:1`;
      const auth = async () => ({ registryToken: 'the.token.itself' });
      await assert.rejects(under.engine.ensureImage(image, { always: true, auth }), /manifest unknown|not found/);
      assert.ok(shown.includes('Bearer the.token.itself'), String(shown));
    } finally {
      registry.close();
      registry.closeAllConnections();
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
