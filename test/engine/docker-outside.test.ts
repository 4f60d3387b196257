import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { findProgram, isRoot } from '../../transports/engines/docker/run.ts';
import { dockerSkip, dockerUnderTest, realRequired } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';

/** A network namespace stands for the world: 198.51.100.0/24 is set aside for documentation (RFC 5737). */
const world = `troupe-${process.pid}`;
const [near, far] = [`tw${process.pid}a`, `tw${process.pid}b`];
const server =
  "require('net').createServer((s) => s.end('reached by ' + s.remoteAddress + '\\n')).listen(8080, '198.51.100.2', () => console.log('up'))";

function skip(): string | false {
  if (realRequired) return false;
  if (!isRoot() || findProgram('ip') === undefined) return 'makes a network namespace: needs root and iproute2';
  return dockerSkip();
}

describe('the world outside, from a container on Docker', { skip: skip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>> | undefined;
  let child: ChildProcess | undefined;
  const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });

  before(async () => {
    ip('netns', 'add', world);
    ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far);
    ip('link', 'set', far, 'netns', world);
    ip('addr', 'add', '198.51.100.1/30', 'dev', near);
    ip('link', 'set', near, 'up');
    ip('-n', world, 'addr', 'add', '198.51.100.2/30', 'dev', far);
    ip('-n', world, 'link', 'set', far, 'up');
    child = spawn('ip', ['netns', 'exec', world, process.execPath, '-e', server], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    if (child.stdout !== null) await once(child.stdout, 'data');
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
  });
  after(async () => {
    child?.kill();
    if (child !== undefined && child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    // The pair goes with the namespace.
    ip('netns', 'del', world);
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
