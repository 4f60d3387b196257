import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import { EngineError } from '../../proto/ports.ts';
import { DockerClient } from '../../transports/docker/client.ts';
import { applyRules, HostFirewall } from '../../transports/docker/firewall.ts';
import { namingOf } from '../../transports/docker/naming.ts';
import { ContainerNetworks } from '../../transports/docker/network.ts';
import { parsePool, parseSubnet } from '../../transports/docker/subnets.ts';
import { rejectsWith } from './conformance-kit.ts';
import { dockerSkip, silentLog, testDocker } from './docker-under-test.ts';

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

  it('have bridges with names that one rule speaks of', () => {
    const networks = open('10.192.0.0/10');
    assert.match(networks.bridge('a'), /^trp[0-9a-f]{12}$/);
    assert.notEqual(networks.bridge('a'), networks.bridge('b'));
  });
});

describe('the firewall of the machine', () => {
  /** An iptables that has `chains`, remembers rules and refuses what `refuse` matches. */
  const fake = (chains: readonly string[], refuse?: RegExp) => {
    const rules: string[] = [];
    const calls: string[] = [];
    return {
      rules,
      calls,
      run: async (args: readonly string[]) => {
        const [action = '', chain = '', ...rule] = args;
        const text = `${chain} ${rule.join(' ')}`;
        calls.push(action);
        if (refuse?.test(`${action} ${text}`)) return { code: 4, said: 'Permission denied' };
        if (action === '-S') return { code: chains.includes(chain) ? 0 : 1, said: '' };
        if (action === '-C') return { code: rules.includes(text) ? 0 : 1, said: '' };
        rules.unshift(text);
        return { code: 0, said: '' };
      },
    };
  };

  it('is given each rule once, in Docker’s chain for its users', async () => {
    const tables = fake(['DOCKER-USER']);
    await applyRules(tables.run);
    assert.deepEqual(tables.rules.toReversed(), [
      'INPUT -i trp+ -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP',
      'DOCKER-USER -i trp+ -o trp+ -j DROP',
      'DOCKER-USER -i trp+ -d 169.254.0.0/16 -j DROP',
    ]);
    await applyRules(tables.run);
    assert.equal(tables.rules.length, 3);
    tables.rules.pop();
    await applyRules(tables.run);
    assert.equal(tables.rules.length, 3);
  });

  it('is given them in FORWARD where Docker has no chain for its users', async () => {
    const tables = fake([]);
    await applyRules(tables.run);
    assert.equal(tables.rules.filter((rule) => rule.startsWith('FORWARD ')).length, 2);
  });

  it('that refuses a rule lets no container start', async () => {
    const tables = fake(['DOCKER-USER'], /^-I DOCKER-USER/);
    await assert.rejects(applyRules(tables.run), (error: unknown) => {
      assert.ok(error instanceof EngineError && error.code === 'unavailable');
      assert.match(error.message, /Permission denied/);
      return true;
    });
  });

  it('is looked at once in a while, and not for bridges of another machine', async () => {
    const tables = fake(['DOCKER-USER']);
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (_fields: object, message: string) => void warnings.push(message) };
    const firewall = new HostFirewall(log, tables.run);
    await firewall.ensure('trpnotofthis1');
    await firewall.ensure('trpnotofthis1');
    assert.deepEqual(tables.calls, []);
    assert.equal(warnings.length, 1);
    assert.ok(existsSync('/sys/class/net/lo'));
    await Promise.all([firewall.ensure('lo'), firewall.ensure('lo')]);
    const { length } = tables.calls;
    await firewall.ensure('lo');
    assert.equal(tables.calls.length, length);
    assert.equal(tables.rules.length, 3);
  });
});
