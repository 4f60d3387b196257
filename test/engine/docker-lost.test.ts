import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import { LostTasks } from '../../transports/docker/lost-tasks.ts';
import { machineScript } from '../../transports/docker/machine-script.ts';
import { namingOf } from '../../transports/docker/naming.ts';
import { isRoot, rootScript } from '../../transports/docker/run.ts';
import { dockerSkip, dockerUnderTest } from './docker-under-test.ts';
import { eventually } from './eventually.ts';

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

  it('is ended by its control group, here or through Docker, and nothing else is', async () => {
    const naming = namingOf(under.installation);
    const dockerId = async (): Promise<string> => {
      const path = `/containers/${naming.container('lost')}/json`;
      return (await under.client.json('GET', path, z.object({ Id: z.string() }))).Id;
    };
    const helper = machineScript(under.client, naming, under.image, { seesProcesses: true });
    const never = async () => assert.fail('not asked for');
    const ways = [
      // A Docker on another machine has bridges that are not here.
      { bridge: 'trpnotofthis1', direct: never, helper },
      { bridge: 'lo', direct: undefined, helper },
      ...(isRoot() ? [{ bridge: 'lo', direct: rootScript(), helper: never }] : []),
    ];
    for (const { bridge, ...way } of ways) {
      await under.engine.start('lost', []);
      await new LostTasks(way).end(['nonsense; reboot', await dockerId(), 'f'.repeat(64)], bridge);
      await eventually(async () => assert.equal((await under.engine.inspect('lost'))?.exitCode, 137));
    }
    assert.equal((await under.engine.inspect('other'))?.phase, 'running');
  });

  it('keeps nobody from going on when it cannot be ended', async () => {
    const failing = () => Promise.reject(new Error('no image'));
    const lost = new LostTasks({ direct: failing, helper: failing });
    for (const bridge of ['lo', undefined]) await lost.end(['a'.repeat(64)], bridge);
    await lost.endHere(['a'.repeat(64)]);
  });
});
