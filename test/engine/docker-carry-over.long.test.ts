/** What a container on Docker has is carried over when its mount paths change: nothing is lost, whenever the platform is killed, and nothing is left. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import type { ContainerSpec } from '../../proto/ports/engine.ts';
import { PlacementError } from '../../proto/ports/placement.ts';
import { DEFAULT_SUBNET_POOL, parsePool } from '../../transports/engines/common/subnets.ts';
import {
  type CallOptions,
  DockerClient,
  DockerReplyError,
  type StreamOptions,
} from '../../transports/engines/docker/api/client.ts';
import { Containers } from '../../transports/engines/docker/containers.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { ContainerNetworks } from '../../transports/engines/docker/network.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { dockerSkip, dockerUnderTest } from '../support/engine/docker-under-test.ts';

const inspected = z.object({
  Id: z.string(),
  Image: z.string(),
  Config: z.object({ Env: z.array(z.string()).nullable() }),
});
const images = z.array(z.object({ Id: z.string() }));
const volumes = z.object({ Volumes: z.array(z.object({ Name: z.string() })).nullable() });

class Killed extends Error {}

/** A client of a platform that is killed right after it made so many changes. */
class DyingClient extends DockerClient {
  left: number;
  constructor(host: string, left: number) {
    super(host);
    this.left = left;
  }
  override async call(method: string, path: string, options?: CallOptions): Promise<Buffer> {
    return this.#counted(method, () => super.call(method, path, options));
  }
  override async stream(method: string, path: string, options?: StreamOptions) {
    return this.#counted(method, () => super.stream(method, path, options));
  }
  async #counted<T>(method: string, work: () => Promise<T>): Promise<T> {
    if (this.left <= 0) throw new Killed();
    const result = await work();
    if (method !== 'GET') this.left -= 1;
    return result;
  }
}

/** A client that notes the changes it is asked for by whom the container was taken from. */
class WatchedClient extends DockerClient {
  readonly late: string[] = [];
  isLost = false;
  override async call(method: string, path: string, options?: CallOptions): Promise<Buffer> {
    this.#look(method, path);
    return super.call(method, path, options);
  }
  override async stream(method: string, path: string, options?: StreamOptions) {
    this.#look(method, path);
    return super.stream(method, path, options);
  }
  #look(method: string, path: string): void {
    if (method !== 'GET' && this.isLost) this.late.push(`${method} ${path}`);
  }
}

/** A client of a Docker that starts no container, and says why. */
class FailingClient extends DockerClient {
  reason = '';
  override async call(method: string, path: string, options?: CallOptions): Promise<Buffer> {
    if (/^\/containers\/[^/]+\/start$/.test(path)) throw new DockerReplyError(500, this.reason);
    return super.call(method, path, options);
  }
}

describe('a docker container whose mount paths change', { skip: dockerSkip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  before(async () => {
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
  });
  after(() => under?.end());

  const spec = (id: string, mountPaths: readonly string[], image = under.image): ContainerSpec => ({
    ...{ id, userId: 'u1', hostname: 'box', image, cpus: 1, memoryMb: 128, storageGb: 1 },
    ...{ mountPaths, authorizedKeys: [] },
  });
  const runs = async (wanted: ContainerSpec): Promise<void> => {
    await under.engine.create(wanted);
    await under.engine.start(wanted.id, []);
  };
  const says = async (id: string, script: string): Promise<string> =>
    (await under.exec(id, script)).toString().replaceAll('\r\n', '\n').trim();
  const view = (id: string) =>
    under.client.json('GET', `/containers/${namingOf(under.installation).container(id)}/json`, inspected);
  const filters = (id: string) => namingOf(under.installation).filters(id);
  const imagesOf = (id: string) =>
    under.client.json('GET', '/images/json', images, { query: { filters: filters(id), all: true } });
  const volumesOf = async (id: string): Promise<number> =>
    ((await under.client.json('GET', '/volumes', volumes, { query: { filters: filters(id) } })).Volumes ?? []).length;

  it('keeps owners and modes, does not bring back what was deleted, and leaves nothing behind', async () => {
    await runs(spec('owners', ['/root']));
    await says(
      'owners',
      'mkdir -p /data/in; echo 1 >/data/in/db; chmod 640 /data/in/db; chown 77:78 /data/in/db; echo 2 >/data/old',
    );
    await under.engine.stop('owners', 5);
    await runs(spec('owners', ['/data']));
    assert.equal(await says('owners', 'stat -c "%a %u %g" /data/in/db; cat /data/in/db'), '640 77 78\n1');
    await says('owners', 'rm /data/old; echo 3 >/data/new; echo 4 >/root/was-kept');
    await under.engine.stop('owners', 5);
    await runs(spec('owners', ['/srv']));
    assert.equal(await says('owners', 'ls -1 /data; cat /root/was-kept; stat -c %u /data/in/db'), 'in\nnew\n4\n77');
    // Of what is mounted now, and of the keys.
    assert.equal(await volumesOf('owners'), 2);
    await under.engine.stop('owners', 5);
    await under.engine.remove('owners');
    assert.equal(await volumesOf('owners'), 0);
    assert.deepEqual(await imagesOf('owners'), []);
  });

  it('keeps what is at paths inside one another', async () => {
    await runs(spec('nested', ['/data']));
    await says('nested', 'mkdir -p /data/in; echo 1 >/data/in/a; echo 2 >/data/b');
    await under.engine.stop('nested', 5);
    await runs(spec('nested', ['/data/in']));
    assert.equal(await says('nested', 'cat /data/in/a /data/b'), '1\n2');
    await says('nested', 'echo 3 >/data/in/a');
    await under.engine.stop('nested', 5);
    await runs(spec('nested', ['/data']));
    assert.equal(await says('nested', 'cat /data/in/a /data/b'), '3\n2');
    await under.engine.remove('nested');
  });

  it('keeps what is in the volumes that its image asked for', async () => {
    await under.engine.create(spec('plain', []));
    const { Id } = await view('plain');
    const repo = `troupe/asks-${under.installation}`;
    await under.client.call('POST', '/commit', {
      query: { container: Id, repo, tag: '1', changes: ['VOLUME /db', 'ENV NAME=value'] },
      body: {},
    });
    try {
      await runs(spec('asks', ['/root'], `${repo}:1`));
      await says('asks', 'echo 1 >/db/a; echo 2 >/root/b');
      await under.engine.stop('asks', 5);
      await runs(spec('asks', ['/srv'], `${repo}:1`));
      assert.equal(await says('asks', 'cat /db/a /root/b; echo $NAME'), '1\n2\nvalue');
      await under.engine.stop('asks', 5);
      await runs(spec('asks', ['/db'], `${repo}:1`));
      assert.equal(await says('asks', 'cat /db/a /root/b'), '1\n2');
    } finally {
      await under.engine.remove('asks');
      await under.engine.remove('plain');
      await under.client.call('DELETE', `/images/${repo}:1`);
    }
  });

  it('has it all when the platform is killed after any of its changes, also when they are taken back', async () => {
    const naming = namingOf(under.installation);
    let survived = 0;
    for (let changes = 1; survived === 0; changes++) {
      const id = `killed${changes}`;
      const before = spec(id, ['/root', '/old']);
      await runs(before);
      await says(id, 'mkdir -p /new; for p in /root/ /old/ /new/ /opt-; do echo $p >$p"f"; done');
      await under.engine.stop(id, 0);
      const client = new DyingClient(under.host, changes);
      const networks = new ContainerNetworks(client, naming, parsePool(DEFAULT_SUBNET_POOL));
      const dying = new Containers({ client, naming, networks, baseImage: under.image });
      const wanted = spec(id, ['/root', '/new']);
      await dying.create(wanted).then(
        () => survived++,
        (error: unknown) => assert.ok(error instanceof Killed, String(error)),
      );
      client.close();
      assert.equal((await under.engine.list()).filter((one) => one.id === id).length, 1);
      const then = changes % 2 === 0 ? before : wanted;
      await runs(then);
      assert.equal(await says(id, 'cat /root/f /old/f /new/f /opt-f'), '/root/\n/old/\n/new/\n/opt-', `${changes}`);
      if (then === before && changes % 4 === 0) {
        await says(id, 'echo later >/new/f; rm /old/f');
        await under.engine.stop(id, 0);
        await runs(wanted);
        assert.equal(await says(id, 'cat /root/f /new/f /opt-f; ls /old'), '/root/\nlater\n/opt-', `${changes}`);
      }
      await under.engine.remove(id);
      assert.equal(await under.engine.inspect(id), undefined);
      assert.equal(await volumesOf(id), 0, `volumes left after ${changes}`);
      assert.deepEqual(await imagesOf(id), [], `images left after ${changes}`);
    }
  });

  it('is let be by an owner that lost it to another node on the way, who goes on from what is there', async () => {
    const naming = namingOf(under.installation);
    const client = new WatchedClient(under.host);
    const networks = new ContainerNetworks(under.client, naming, parsePool(DEFAULT_SUBNET_POOL));
    const frozen = new Containers({ client, naming, networks, baseImage: under.image });
    let reached = 0;
    for (let asked = 1; reached === 0; asked++) {
      const id = `fenced${asked}`;
      await runs(spec(id, ['/root']));
      await says(id, 'echo 1 >/root/f; echo 2 >/opt-f');
      await under.engine.stop(id, 0);
      let left = asked;
      client.isLost = false;
      const fence = () => {
        client.isLost = left === 0;
        if (left === 0) throw new PlacementError('fenced', 'another node has it');
        left -= 1;
      };
      await frozen.create(spec(id, ['/srv']), fence).then(
        () => {
          reached = asked;
        },
        (error: unknown) => assert.ok(error instanceof PlacementError, String(error)),
      );
      await runs(spec(id, ['/srv']));
      assert.equal(await says(id, 'cat /root/f /opt-f'), '1\n2', `asked ${asked} times`);
      await under.engine.remove(id);
    }
    client.close();
    // Before each change of the engine, not once; the last removes the dropped volume.
    assert.ok(reached > 5, `${reached}`);
    assert.deepEqual(client.late, []);
  });

  it('is not removed when its first start after that fails', async () => {
    await runs(spec('failing', ['/root']));
    await says('failing', 'echo 1 >/root/f; echo 2 >/opt-f');
    await under.engine.stop('failing', 0);
    const naming = namingOf(under.installation);
    const client = new FailingClient(under.host);
    const networks = new ContainerNetworks(client, naming, parsePool(DEFAULT_SUBNET_POOL));
    const failing = new Containers({ client, naming, networks, baseImage: under.image });
    await failing.create(spec('failing', ['/srv']));
    const { Id } = await view('failing');
    for (const reason of ['driver failed programming external connectivity', 'task 1 already exists']) {
      client.reason = reason;
      await assert.rejects(failing.start('failing', []), new RegExp(reason));
      assert.equal((await view('failing')).Id, Id);
    }
    client.close();
    await runs(spec('failing', ['/srv']));
    assert.equal(await says('failing', 'cat /root/f /opt-f'), '1\n2');
    await under.engine.remove('failing');
  });

  it('keeps what is at a dropped path that is itself a volume of the image, and does not bring back what was deleted there', async () => {
    await under.engine.create(spec('plain', []));
    await under.engine.start('plain', []);
    await says('plain', 'mkdir /db; echo 0 >/db/of-the-image');
    const { Id } = await view('plain');
    const repo = `troupe/volume-${under.installation}`;
    await under.client.call('POST', '/commit', {
      query: { container: Id, repo, tag: '1', changes: 'VOLUME /db' },
      body: {},
    });
    try {
      const image = `${repo}:1`;
      await runs(spec('dropped', ['/db', '/root'], image));
      assert.equal(await says('dropped', 'cat /db/of-the-image'), '0');
      await says('dropped', 'rm /db/of-the-image; echo 1 >/db/a; echo 2 >/root/b');
      await under.engine.stop('dropped', 0);
      await runs(spec('dropped', ['/root'], image));
      assert.equal(await says('dropped', 'ls -1 /db; cat /db/a /root/b'), 'a\n1\n2');
      // And once more, now that it is in the image's own volume.
      await says('dropped', 'rm /db/a; echo 3 >/db/c');
      await under.engine.stop('dropped', 0);
      await runs(spec('dropped', ['/srv'], image));
      assert.equal(await says('dropped', 'ls -1 /db; cat /db/c /root/b'), 'c\n3\n2');
    } finally {
      await under.engine.remove('dropped');
      await under.engine.remove('plain');
      await under.client.call('DELETE', `/images/${repo}:1`);
    }
  });

  it('is not made anew on empty volumes when those that held its data are gone', async () => {
    const wanted = spec('gone', ['/root']);
    await runs(wanted);
    await under.engine.remove('gone');
    await rejectsWith(under.engine.create({ ...wanted, dataPaths: ['/root'] }), 'data_gone');
    assert.equal(await under.engine.inspect('gone'), undefined);
    await under.engine.create({ ...wanted, mountPaths: ['/srv'], dataPaths: ['/root'] });
    await under.engine.remove('gone');
  });
});
