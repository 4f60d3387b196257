import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { z } from 'zod';
import { parseSubnet } from '../../lib/ipv4.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { parsePool } from '../../transports/engines/common/subnets.ts';
import { DockerClient } from '../../transports/engines/docker/api/client.ts';
import { Containers } from '../../transports/engines/docker/containers.ts';
import { firewallScript, HostFirewall } from '../../transports/engines/docker/host/firewall.ts';
import { machineScript } from '../../transports/engines/docker/host/machine-script.ts';
import { removeHelpers } from '../../transports/engines/docker/keys.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { ContainerNetworks } from '../../transports/engines/docker/network.ts';
import { runProgram } from '../../transports/engines/docker/run.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { dockerSkip, silentLog, testDocker } from '../support/engine/docker-under-test.ts';
import { buildTinyImage } from '../support/engine/tiny-image.ts';

const networkList = z.array(
  z.object({ Name: z.string(), IPAM: z.object({ Config: z.array(z.object({ Subnet: z.string() })) }) }),
);

describe('networks of containers on Docker', { skip: dockerSkip() }, () => {
  let docker: Awaited<ReturnType<typeof testDocker>>;
  let client: DockerClient;
  const naming = namingOf(`net-${process.pid}-${randomBytes(3).toString('hex')}`);
  const list = (): Promise<z.infer<typeof networkList>> =>
    client.json('GET', '/networks', networkList, { query: { filters: naming.filters() } });
  const open = (pool: string): ContainerNetworks => new ContainerNetworks(client, naming, parsePool(pool));

  before(async () => {
    docker = await testDocker();
    client = new DockerClient(docker.host);
  });
  after(async () => {
    if (client === undefined) return;
    await open('10.192.0.0/10').sweep(async () => false, 0);
    assert.deepEqual(await list(), []);
    client.close();
    await docker.end();
  });

  it('are more than Docker has addresses for, and none overlaps another', async () => {
    const networks = open('10.192.0.0/10');
    const ids = Array.from({ length: 40 }, (_, i) => `many${i}`);
    const left = [...ids];
    const walk = async (): Promise<void> => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) await networks.ensure(id);
    };
    await Promise.all(Array.from({ length: 4 }, walk));
    const found = await list();
    assert.equal(found.length, ids.length);
    const ranges = found.flatMap(({ IPAM }) => IPAM.Config.map(({ Subnet }) => parseSubnet(Subnet)));
    assert.equal(new Set(ranges.map((range) => range?.first)).size, ids.length);
    await Promise.all(ids.map((id) => networks.remove(id)));
    await networks.remove('many0');
    assert.deepEqual(await list(), []);
  });

  it('are one for each container, however many ask at once, and from however many platforms', async () => {
    const [a, b] = [open('10.192.0.0/10'), open('10.192.0.0/10')];
    await Promise.all([a.ensure('one'), a.ensure('one'), b.ensure('one')]);
    assert.deepEqual(
      (await list()).map(({ Name }) => Name),
      [naming.network('one')],
    );
    await a.remove('one');
  });

  it('share a small pool to its last subnet, and say when it is used up', async () => {
    const networks = open('10.191.255.0/27');
    await Promise.all(['a', 'b', 'c', 'd'].map((id) => networks.ensure(id)));
    await rejectsWith(networks.ensure('e'), 'unavailable');
    await networks.remove('b');
    await networks.ensure('e');
    await Promise.all(['a', 'c', 'd', 'e'].map((id) => networks.remove(id)));
  });

  it('are swept when their container is gone, and not before another platform can have made it', async () => {
    const networks = open('10.192.0.0/10');
    await Promise.all(['used', 'orphan'].map((id) => networks.ensure(id)));
    await networks.sweep(async () => false);
    assert.equal((await list()).length, 2);
    await networks.sweep(async (id) => id === 'used', 0);
    assert.deepEqual(
      (await list()).map(({ Name }) => Name),
      [naming.network('used')],
    );
    await networks.remove('used');
  });

  it('get a bridge of another name when Docker keeps the first for something else', async () => {
    const networks = open('10.192.0.0/10');
    // What dockerd leaves that is killed while it makes a network is not listed; this is.
    const foreign = {
      Name: naming.network('holder'),
      Options: { 'com.docker.network.bridge.name': networks.bridge('x') },
    };
    await client.call('POST', '/networks/create', {
      body: { ...foreign, IPAM: { Config: [{ Subnet: '10.191.254.0/29' }] } },
    });
    try {
      assert.equal(await networks.ensure('x'), networks.bridge('x', 1));
      assert.equal(await networks.ensure('x'), networks.bridge('x', 1));
      assert.equal(await networks.anyBridge(), networks.bridge('x', 1));
      await networks.remove('x');
    } finally {
      await client.call('DELETE', `/networks/${foreign.Name}`);
    }
    assert.equal(await networks.ensure('x'), networks.bridge('x'));
    await networks.remove('x');
  });

  it('are looked after once there is one', async () => {
    const networks = open('10.192.0.0/10');
    let runs = 0;
    const run = async () => {
      runs += 1;
      return { code: 0, said: '' };
    };
    const firewall = new HostFirewall(silentLog, { direct: run, helper: run });
    const containers = new Containers({ client, naming, networks, firewall, baseImage: 'scratch' });
    await containers.guard();
    assert.equal(runs, 0);
    await networks.ensure('one');
    await containers.guard();
    assert.equal(runs, 1);
    await networks.remove('one');
  });

  it('have bridges with names that one rule speaks of', () => {
    const networks = open('10.192.0.0/10');
    assert.match(networks.bridge('a'), /^trp[0-9a-f]{12}$/);
    assert.notEqual(networks.bridge('a'), networks.bridge('b'));
  });
});

describe('the firewall of the machine', () => {
  /** An iptables that has a chain of Docker's or not, keeps rules in a file and refuses what `refuse` matches. */
  const fake = (t: TestContext, options: { chain: boolean; refuse?: string }) => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-iptables-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const kept = join(folder, 'rules');
    const script = `#!/bin/sh
shift 2; action=$1; shift
case "$action $*" in ${options.refuse ?? 'nothing'}) echo "Permission denied" >&2; exit 4;; esac
case $action in
  -S) ${options.chain ? `[ "$1" != FORWARD ] || echo '-A FORWARD -j DOCKER-USER'` : 'exit 1'};;
  -C) grep -qxF -e "$*" ${kept};;
  -D) exit 1;;
  -I | -A) echo "$*" >> ${kept};;
esac
`;
    writeFileSync(join(folder, 'iptables'), script, { mode: 0o755 });
    writeFileSync(join(folder, 'iptables-restore'), '#!/bin/sh\ncat > /dev/null\n', { mode: 0o755 });
    writeFileSync(kept, '');
    let runs = 0;
    return {
      rules: () => readFileSync(kept, 'utf8').trim().split('\n'),
      forget: () => writeFileSync(kept, ''),
      runs: () => runs,
      run: async (text: string) => {
        runs += 1;
        const env = { PATH: `${folder}:/usr/bin:/bin` };
        const { code, tail } = await runProgram('/bin/sh', ['-c', text], { env });
        return { code, said: tail.at(-1) ?? '' };
      },
    };
  };
  const never = async () => assert.fail('not asked for');

  it('that refuses a rule lets no container start', async (t) => {
    const tables = fake(t, { chain: true, refuse: '"-I DOCKER-USER"*' });
    const firewall = new HostFirewall(silentLog, { direct: tables.run, helper: never });
    await assert.rejects(firewall.ensure('lo'), (error: unknown) => {
      assert.ok(error instanceof EngineError && error.code === 'unavailable');
      assert.match(error.message, /Permission denied/);
      return true;
    });
  });

  it('is looked at once in a while, however many ask', async (t) => {
    const tables = fake(t, { chain: true });
    const firewall = new HostFirewall(silentLog, { direct: tables.run, helper: never });
    await Promise.all([firewall.ensure('lo'), firewall.ensure('lo')]);
    await firewall.ensure('lo');
    assert.equal(tables.runs(), 1);
  });

  it('is looked at again when its time is over, whatever the clock of the machine says', async (t) => {
    const tables = fake(t, { chain: true });
    const firewall = new HostFirewall(silentLog, { direct: tables.run, helper: never });
    const started = performance.now();
    await firewall.ensure('lo');
    t.mock.method(Date, 'now', () => 0);
    t.mock.method(performance, 'now', () => started + 3_600_000);
    await firewall.ensure('lo');
    assert.equal(tables.runs(), 2);
  });

  it('of another machine is set through Docker; when that fails a warning says so once', async (t) => {
    const tables = fake(t, { chain: true });
    await new HostFirewall(silentLog, { direct: never, helper: tables.run }).ensure('trpnotofthis1');
    assert.ok(tables.rules().includes('INPUT -i trp+ -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP'));
    const warnings: object[] = [];
    const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
    const denied = { direct: undefined, helper: async () => ({ code: 1, said: 'no nsenter' }) };
    await new HostFirewall(log, denied).ensure('lo');
    await new HostFirewall(log, { ...denied, helper: () => Promise.reject(new Error('no image')) }).ensure('lo');
    assert.deepEqual(warnings, [{ reason: 'no nsenter' }, { reason: 'no image' }]);
  });
});

describe('the machine of a Docker Engine', { skip: dockerSkip() }, () => {
  it('runs a script of ours as its own, and keeps nothing of it, nor of a helper that was left', async () => {
    const docker = await testDocker();
    const client = new DockerClient(docker.host);
    const naming = namingOf(`machine-${process.pid}`);
    const image = await buildTinyImage(`-machine-${process.pid}`);
    await image.build(client, () => undefined, new AbortController().signal);
    try {
      const run = machineScript(client, naming, image.reference);
      assert.deepEqual(await run('readlink /proc/self/ns/net'), { code: 0, said: readlinkSync('/proc/self/ns/net') });
      assert.deepEqual(await run('echo one; echo two; exit 3'), { code: 3, said: 'two' });
      assert.equal((await run(firewallScript())).code, 0);
      const { name, labels: Labels } = naming.helper('keys');
      await client.call('POST', '/containers/create', { query: { name }, body: { Image: image.reference, Labels } });
      await removeHelpers(client, naming);
      const filters = naming.filters();
      const kept = () =>
        client.json('GET', '/containers/json', z.array(z.unknown()), { query: { all: true, filters } });
      assert.equal((await kept()).length, 1);
      await removeHelpers(client, naming, { olderThanMs: -60_000 });
      assert.deepEqual(await kept(), []);
    } finally {
      await client.call('DELETE', `/images/${image.reference}`);
      client.close();
      await docker.end();
    }
  });
});
