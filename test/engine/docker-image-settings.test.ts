import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import type { ContainerSpec } from '../../proto/ports/engine.ts';
import { jsonLines } from '../../transports/engines/common/calls.ts';
import { removeHelpers } from '../../transports/engines/docker/keys.ts';
import { type Naming, namingOf } from '../../transports/engines/docker/naming.ts';
import { dockerSkip, dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';

const created = z.object({ Id: z.string() });
const event = z.object({
  Type: z.string(),
  Action: z.string(),
  Actor: z.object({ ID: z.string(), Attributes: z.record(z.string(), z.string()) }),
});

describe('what an image on Docker asks for besides its files', { skip: dockerSkip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  let naming: Naming;
  let image: string;
  const others: string[] = [];

  before(async () => {
    under = await dockerUnderTest();
    naming = namingOf(under.installation);
    await under.engine.ensureImage(under.image, { always: false });
    image = `troupe/asking:${under.installation}`;
    const { Id } = await under.client.json('POST', '/containers/create', created, { body: { Image: under.image } });
    await under.client.call('POST', '/commit', {
      query: { container: Id, repo: 'troupe/asking', tag: under.installation },
      body: {
        Cmd: ['sleep', '3600'],
        Healthcheck: { Test: ['CMD', 'true'], Interval: 1e8 },
        Volumes: { '/v1': {}, '/v2': {} },
        Labels: {
          'troupe.installation': under.installation,
          'troupe.container': 'victim',
          'troupe.user': 'u2',
          'troupe.helper': 'x',
          'troupe.path': '/root',
        },
      },
    });
    await under.client.call('DELETE', `/containers/${Id}`, { query: { force: true } });
  });
  after(async () => {
    if (under === undefined) return;
    for (const id of others)
      await under.client.call('DELETE', `/containers/${id}`, { query: { force: true, v: true } });
    for (const id of ['asking', 'victim']) await under.engine.remove(id);
    await under.client.call('DELETE', `/images/${image}`, { query: { force: true } });
    await under.end();
  });

  const spec = (id: string, from: string): ContainerSpec => ({
    ...{ id, userId: 'u1', hostname: 'box', image: from, cpus: 0.5, memoryMb: 64, storageGb: 1, mountPaths: [] },
    authorizedKeys: [],
  });
  const now = async (): Promise<string> =>
    (await under.client.json('GET', '/info', z.object({ SystemTime: z.string() }))).SystemTime;
  /** What happened in Docker between two of its own times. */
  const events = async (since: string, filters: object): Promise<z.infer<typeof event>[]> => {
    const stream = await under.client.stream('GET', '/events', {
      query: { since: seconds(since), until: seconds(await now()), filters: JSON.stringify(filters) },
    });
    const found: z.infer<typeof event>[] = [];
    for await (const line of jsonLines(stream)) found.push(event.parse(line));
    return found;
  };
  /** A container of the image that somebody else runs on this Docker Engine. */
  const foreign = async (): Promise<string> => {
    const { Id } = await under.client.json('POST', '/containers/create', created, { body: { Image: image } });
    others.push(Id);
    await under.client.call('POST', `/containers/${Id}/start`);
    return Id;
  };

  it('its health checks are not run', async () => {
    const since = await now();
    await under.engine.create(spec('asking', image));
    await under.engine.start('asking', ['ssh-ed25519 AAAA one']);
    const own = await under.client.json(
      'GET',
      `/containers/${naming.container('asking')}/json`,
      z.object({ Id: z.string(), State: z.object({ Health: z.unknown().optional() }) }),
    );
    assert.equal(own.State.Health, undefined);
    // The same image run without the platform shows that they would have come.
    const control = await foreign();
    await eventually(async () => {
      const probes = await events(since, { container: [control], event: ['exec_start'] });
      assert.ok(probes.length >= 3, `${probes.length} probes`);
    });
    assert.deepEqual(await events(since, { container: [own.Id], event: ['exec_start', 'exec_create'] }), []);
  });

  it('its volumes are not copied when keys are written', async () => {
    await under.engine.stop('asking', 0);
    const since = await now();
    await under.engine.start('asking', ['ssh-ed25519 BBBB two']);
    assert.equal(await under.readFile('asking', '/etc/troupe/authorized_keys'), 'ssh-ed25519 BBBB two\n');
    const [helper, ...more] = (
      await events(since, { type: ['container'], event: ['create'], label: ['troupe.helper=asking'] })
    ).filter(({ Actor }) => Actor.Attributes['troupe.installation'] === under.installation);
    assert.equal(more.length, 0);
    assert.equal(helper?.Actor.Attributes.image, 'troupe.invalid/helper:1');
    assert.equal(helper?.Actor.Attributes['troupe.container'], '');
    const mounts = await events(since, { type: ['volume'], event: ['mount'] });
    const ofHelper = mounts.filter(({ Actor }) => Actor.Attributes.container === helper?.Actor.ID);
    assert.deepEqual([...new Set(ofHelper.map(({ Actor }) => Actor.ID))], [naming.volume('asking', '/etc/troupe')]);
  });

  it('its labels make nobody another', async () => {
    await under.engine.create(spec('victim', under.image));
    const { Config } = await under.client.json(
      'GET',
      `/containers/${naming.container('asking')}/json`,
      z.object({ Config: z.object({ Labels: z.record(z.string(), z.string()) }) }),
    );
    assert.deepEqual(
      Object.entries(Config.Labels)
        .filter(([name, value]) => name.startsWith('troupe.') && value !== '')
        .sort(),
      [
        ['troupe.container', 'asking'],
        ['troupe.installation', under.installation],
        ['troupe.user', 'u1'],
      ],
    );
    const stranger = await foreign();
    const ids = (await under.engine.list()).map(({ id }) => id);
    assert.deepEqual(ids.sort(), ['asking', 'victim']);
    await under.engine.remove('victim');
    assert.equal(await under.engine.inspect('victim'), undefined, 'a stranger is taken for it');
    await removeHelpers(under.client, naming, { olderThanMs: 0 });
    await removeHelpers(under.client, naming, { olderThanMs: 0, id: 'x' });
    assert.equal((await under.engine.inspect('asking'))?.phase, 'running', 'removed as a helper');
    await under.client.call('GET', `/containers/${stranger}/json`);
  });
});

/** Docker's time as its /events take it. */
function seconds(time: string): string {
  const nanos = /\.(\d+)/.exec(time)?.[1] ?? '0';
  return `${Math.floor(Date.parse(time) / 1000)}.${nanos.padEnd(9, '0').slice(0, 9)}`;
}
