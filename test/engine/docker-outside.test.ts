import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';
import { outsideWorld, skipWithoutWorld } from '../support/engine/outside-world.ts';

/** In the world: 198.51.100.0/24 is set aside for documentation (RFC 5737). */
const server =
  "require('net').createServer((s) => s.end('reached by ' + s.remoteAddress + '\\n')).listen(8080, '198.51.100.2', () => console.log('up'))";

describe('the world outside, from a container on Docker', { skip: skipWithoutWorld() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>> | undefined;
  let world: Awaited<ReturnType<typeof outsideWorld>> | undefined;

  before(async () => {
    world = await outsideWorld({ here: { ipv4: ['198.51.100.1/30'] }, there: { ipv4: ['198.51.100.2/30'] }, server });
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
  });
  after(async () => {
    await world?.end();
    await under?.end();
  });

  it('is reached, under the address of the machine', async () => {
    assert.ok(under);
    const { engine, exec, image } = under;
    const spec = { id: 'out', userId: 'u1', hostname: 'box', image, cpus: 1, memoryMb: 128, storageGb: 1 };
    await engine.create({ ...spec, mountPaths: [], authorizedKeys: [] });
    await engine.start('out', []);
    await eventually(async () => {
      const said = await exec('out', 'nc -w 2 198.51.100.2 8080 < /dev/null');
      assert.match(said.toString(), /^reached by 198\.51\.100\.1/);
    });
    await engine.remove('out');
  });
});
