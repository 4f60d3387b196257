import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import { LostTasks } from '../../transports/engines/docker/host/lost-tasks.ts';
import { machineScript } from '../../transports/engines/docker/host/machine-script.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { isRoot, rootScript } from '../../transports/engines/docker/run.ts';
import { dockerSkip, dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';

describe('what a killed dockerd lost track of', { skip: dockerSkip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  before(async () => {
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
    for (const id of ['lost', 'other']) {
      await under.engine.create({
        ...{ id, userId: 'u1', hostname: 'box', image: under.image, cpus: 1, memoryMb: 128, storageGb: 1 },
        ...{ mountPaths: [], authorizedKeys: [] },
      });
      await under.engine.start(id, []);
    }
  });
  after(() => under?.end());

  const never = async () => assert.fail('not asked for');
  const phase = async (id: string) => (await under.engine.inspect(id))?.phase;

  it('is ended, here or through Docker, and nothing else is', async () => {
    const naming = namingOf(under.installation);
    const dockerId = async (id: string): Promise<string> => {
      const path = `/containers/${naming.container(id)}/json`;
      return (await under.client.json('GET', path, z.object({ Id: z.string() }))).Id;
    };
    const helper = machineScript(under.client, naming, under.image, { seesProcesses: true });
    const ways = [
      // A Docker on another machine has bridges that are not here.
      { bridge: 'trpnotofthis1', direct: never, helper },
      { bridge: 'lo', direct: undefined, helper },
      ...(isRoot() ? [{ bridge: 'lo', direct: rootScript(), helper: never }] : []),
    ];
    for (const { bridge, ...way } of ways) {
      const lost = new LostTasks(naming, way);
      const ended = async (): Promise<void> => {
        await eventually(async () => assert.equal((await under.engine.inspect('lost'))?.exitCode, 137));
        assert.equal(await phase('other'), 'running');
        await under.engine.start('lost', []);
      };
      await under.engine.start('lost', []);
      await lost.endOf('lost', bridge);
      await ended();
      await lost.endAllBut([await dockerId('other'), 'nonsense; reboot'], [], bridge);
      await ended();
      await lost.endAllBut([], ['other'], bridge);
      await ended();
      await lost.endAllBut([await dockerId('other')], ['lost'], bridge);
      await new LostTasks(namingOf('another'), way).endAllBut([], [], bridge);
      assert.equal(await phase('lost'), 'running');
    }
  });

  it('is looked for when a container goes', { skip: !isRoot() && 'only root ends processes here' }, async () => {
    const naming = namingOf(under.installation);
    const lost = new LostTasks(naming, { direct: rootScript(), helper: never });
    await lost.endHere('lost');
    await eventually(async () => assert.equal(await phase('lost'), 'exited'));
    assert.equal(await phase('other'), 'running');
  });

  it('keeps nobody from going on when it cannot be ended', async () => {
    const failing = () => Promise.reject(new Error('no image'));
    const lost = new LostTasks(namingOf('another'), { direct: failing, helper: failing });
    for (const bridge of ['lo', 'trpnotofthis1']) {
      await lost.endOf('a', bridge);
      await lost.endAllBut([], [], bridge);
    }
    await lost.endHere('a');
  });
});
