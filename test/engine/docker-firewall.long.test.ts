import assert from 'node:assert/strict';
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { egressBlocks, parseEgress } from '../../transports/engines/common/confinement.ts';
import { egressScript, NAMES_LEAK, releaseScript } from '../../transports/engines/docker/host/egress-rules.ts';
import { firewallScript, HostFirewall } from '../../transports/engines/docker/host/firewall.ts';
import { findProgram, isRoot } from '../../transports/engines/docker/run.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { realRequired, silentLog } from '../support/engine/docker-under-test.ts';
import { pause } from '../support/pause.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);

/** Network namespaces stand for Docker's machine, two containers on it, and everything else. */
const [machine = '', box = '', neighbour = '', world = ''] = ['m', 'b', 'n', 'w'].map(
  (name) => `troupe-fw${name}-${process.pid}`,
);

/** What "everything else" has. The machine's name server is the first. */
const addresses = {
  nameServer: '10.98.0.2',
  database: '10.99.0.2',
  home: '192.168.77.7',
  office: '172.16.5.5',
  carrier: '100.64.0.9',
  alibaba: '100.100.100.200',
  azure: '168.63.129.16',
  oracle: '192.0.0.192',
  aws: '169.254.169.254',
  site: '203.0.113.5',
};

const serve = `for (const port of [25, 53, 80]) require('net').createServer((s) => s.end()).listen(port, '::', () => console.log(port));
require('net').createServer((s) => s.on('error', () => {}).pipe(s)).listen(7);
const dgram = require('dgram').createSocket('udp4');
dgram.on('message', (said, { address, port }) => dgram.send(said, port, address)).bind(9);`;
/** Prints whether its argument, an address, answers at UDP port 9. */
const datagram = `
const socket = require('dgram').createSocket('udp4');
socket.on('error', () => {}).on('message', () => { console.log('answered'); process.exit(); });
socket.send('x', 9, process.argv[1]);
setTimeout(() => process.exit(), 700);`;
/** Sends to its argument, an address, without an end, and prints a letter for each that comes back. */
const echo = `
const socket = require('net').connect({ host: process.argv[1], port: 7 });
setInterval(() => socket.write('x'), 20);
socket.on('error', () => {}).on('data', () => process.stdout.write('x'));`;
/** Prints which of its arguments, `address:port`, can be connected to. */
const connect = `
const open = [];
let left = process.argv.length - 1;
for (const target of process.argv.slice(1)) {
  const [, host, port] = /^(.*):([0-9]+)$/.exec(target);
  const socket = require('net').connect({ host, port, timeout: 1500 });
  const done = (ok) => { if (ok) open.push(target); socket.destroy(); };
  socket.on('connect', () => done(true)).on('timeout', () => done(false)).on('error', () => done(false));
  socket.on('close', () => { left -= 1; if (left === 0) console.log(JSON.stringify(open.sort())); });
}`;

function skip(): string | false {
  if (realRequired) return false;
  const missing = ['ip', 'iptables'].filter((program) => findProgram(program) === undefined);
  return isRoot() && missing.length === 0 ? false : `needs root, and ${missing.join(', ') || 'nothing else'}`;
}

describe('the firewall around containers', { skip: skip() }, () => {
  const servers: ChildProcess[] = [];
  const files = `/etc/netns/${machine}`;
  const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const inside = (namespace: string, program: string, ...args: string[]): Promise<{ stdout: string }> =>
    run('ip', ['netns', 'exec', namespace, program, ...args]);
  const sh = async (script: string): Promise<string> => (await inside(machine, 'sh', '-c', script)).stdout;
  const reaches = async (from: string, ...targets: string[]): Promise<string[]> =>
    z.array(z.string()).parse(JSON.parse((await inside(from, process.execPath, '-e', connect, ...targets)).stdout));
  const pair = (a: string, nameA: string, addressA: string, b: string, addressB: string): void => {
    ip('link', 'add', nameA, 'netns', a, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', b);
    for (const [namespace, name, address] of [
      [a, nameA, addressA],
      [b, 'eth0', addressB],
    ] as const) {
      ip('-n', namespace, 'addr', 'add', address, 'dev', name);
      ip('-n', namespace, 'link', 'set', name, 'up');
    }
    ip('-n', b, 'route', 'add', 'default', 'via', addressA.replace(/\/.*/, ''));
  };
  const server = async (namespace: string): Promise<void> => {
    const child = spawn('ip', ['netns', 'exec', namespace, process.execPath, '-e', serve], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    servers.push(child);
    let up = 0;
    for await (const text of child.stdout ?? []) {
      up += String(text).trim().split('\n').length;
      if (up === 3) return;
    }
  };

  before(async () => {
    for (const namespace of [machine, box, neighbour, world]) {
      ip('netns', 'add', namespace);
      ip('-n', namespace, 'link', 'set', 'lo', 'up');
    }
    // The resolv.conf that programs in the namespace see (ip-netns(8)).
    mkdirSync(files, { recursive: true });
    writeFileSync(`${files}/resolv.conf`, `search example\nnameserver ${addresses.nameServer}\nnameserver fd00::1\n`);
    pair(machine, 'trp000000000001', '10.192.0.1/29', box, '10.192.0.2/29');
    pair(machine, 'trp000000000002', '10.192.0.9/29', neighbour, '10.192.0.10/29');
    pair(machine, 'up0', '198.51.100.1/30', world, '198.51.100.2/30');
    ip('-n', machine, 'route', 'add', 'default', 'via', '198.51.100.2');
    for (const address of Object.values(addresses)) ip('-n', world, 'addr', 'add', `${address}/32`, 'dev', 'lo');
    await sh('echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding');
    for (const [namespace, name, address] of [
      [machine, 'trp000000000001', 'fd01::1'],
      [box, 'eth0', 'fd01::2'],
      [machine, 'up0', 'fd02::1'],
      [world, 'eth0', 'fd02::2'],
    ] as const)
      ip('-n', namespace, 'addr', 'add', `${address}/64`, 'dev', name, 'nodad');
    ip('-n', box, 'route', 'add', 'default', 'via', 'fd01::1');
    ip('-n', world, 'route', 'add', 'fd01::/64', 'via', 'fd02::1');
    await Promise.all([server(machine), server(box), server(neighbour), server(world)]);
  });
  after(async () => {
    for (const child of servers) {
      child.kill();
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
    for (const namespace of [machine, box, neighbour, world]) ip('netns', 'del', namespace);
    rmSync(files, { recursive: true, force: true });
    try {
      rmdirSync('/etc/netns');
    } catch {
      // Somebody else's is there.
    }
  });

  const bySix = ['fd01::1:80', 'fd02::2:80'];
  const everything = Object.values(addresses).map((address) => `${address}:80`);

  it('would not be there by itself', async () => {
    assert.deepEqual(await reaches(box, ...everything), everything.toSorted());
    // Neighbours are found after a moment.
    await until(async () => (await reaches(box, ...bySix)).length === bySix.length, { what: 'IPv6 leads out' });
  });

  it('leaves the world open to containers, and closes private networks, metadata and mail', async () => {
    await sh(firewallScript());
    assert.deepEqual(await reaches(box, ...everything, `${addresses.site}:25`), [`${addresses.site}:80`]);
    // Containers that are there already, and the machine by any of its addresses.
    assert.deepEqual(await reaches(box, '10.192.0.10:80', '10.192.0.1:80', '198.51.100.1:80'), []);
  });

  it('lets nothing out by IPv6, which containers do not have', async () => {
    assert.deepEqual(await reaches(box, ...bySix), []);
  });

  it('lets containers ask the machine’s name server, and nobody else there', async () => {
    const asked = [addresses.nameServer, addresses.database].map((address) => `${address}:53`);
    assert.deepEqual(await reaches(box, ...asked, `${addresses.nameServer}:80`), [asked[0]]);
  });

  it('lets a gateway reach containers, from the machine and from the private network', async () => {
    assert.deepEqual(await reaches(machine, '10.192.0.2:80'), ['10.192.0.2:80']);
    assert.deepEqual(await reaches(world, '10.192.0.2:80'), ['10.192.0.2:80']);
  });

  it('opens what the operator lists, and metadata only by its own name', async () => {
    await sh(firewallScript(parseEgress('10.99.0.0/24, 100.64.0.0/10')));
    const listed = [`${addresses.database}:80`, `${addresses.database}:25`, `${addresses.carrier}:80`];
    assert.deepEqual(
      await reaches(box, ...everything, `${addresses.database}:25`),
      [...listed, `${addresses.site}:80`].sort(),
    );
    await sh(firewallScript(parseEgress('0.0.0.0/0,169.254.169.254')));
    const closed = [addresses.alibaba, addresses.azure, addresses.oracle].map((address) => `${address}:80`);
    assert.deepEqual(await reaches(box, ...everything), everything.filter((target) => !closed.includes(target)).sort());
  });

  const confine = (egress: readonly string[] | undefined): Promise<string> =>
    sh(`${firewallScript()}\n${egressScript('net', 'trp000000000001', egress)}`);
  const names = `${addresses.nameServer}:53`;
  const site = `${addresses.site}:80`;
  const answers = async (from: string, address: string): Promise<boolean> =>
    (await inside(from, process.execPath, '-e', datagram, address)).stdout !== '';

  it('lets a container with a list reach that and names, of what containers may reach', async () => {
    const asked = [...everything, names, `${addresses.site}:25`];
    assert.match(await confine(['203.0.113.0/24']), /^egress 1\n$/m);
    assert.deepEqual(await reaches(box, ...asked), [names, site].sort());
    assert.equal(await answers(box, addresses.site), true);
    await confine(['198.51.100.2/32', '10.99.0.0/24']);
    assert.deepEqual(await reaches(box, ...asked, '198.51.100.2:80'), ['198.51.100.2:80', names].sort());
    assert.equal(await answers(box, addresses.site), false);
  });

  it('lets one that is closed reach nothing, and be reached', async () => {
    await confine([]);
    assert.deepEqual(await reaches(box, ...everything, names, '10.192.0.10:80', '10.192.0.1:80', ...bySix), []);
    assert.equal(await answers(box, addresses.site), false);
    for (const from of [machine, world]) assert.deepEqual(await reaches(from, '10.192.0.2:80'), ['10.192.0.2:80']);
    assert.equal(await answers(machine, '10.192.0.2'), true);
    assert.deepEqual(await reaches(neighbour, site, names), [names, site].sort());
  });

  it('opens it again, and ends what it has open when it is closed', async () => {
    await confine(undefined);
    assert.deepEqual(await reaches(box, site, names), [names, site].sort());
    const child = spawn('ip', ['netns', 'exec', box, process.execPath, '-e', echo, addresses.site], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    servers.push(child);
    let heard = 0;
    child.stdout.on('data', (said) => {
      heard += String(said).length;
    });
    await until(() => heard > 5, { what: 'the world answers' });
    await confine([]);
    const then = heard;
    await pause(500, 'watch');
    assert.ok(heard - then <= 2, `${heard - then} more answers`);
    const rules = await sh('iptables -S');
    assert.equal(rules.match(/^-A TRP-(CLOSED|LISTED) .* TRP-E-/gm)?.length, 1);
    await sh(releaseScript('net'));
    assert.doesNotMatch(await sh('iptables -S'), /TRP-E-/);
    assert.deepEqual(await reaches(box, site), [site]);
  });

  it('does not close one while the machine’s own name server answers in its place', async () => {
    const set = (server: string): void => writeFileSync(`${files}/resolv.conf`, `nameserver ${server}\n`);
    set('127.0.0.1');
    await assert.rejects(confine([]), { code: NAMES_LEAK });
    await confine(['203.0.113.0/24']);
    await sh(releaseScript('net'));
    set(addresses.nameServer);
  });

  it('has the rules of containers again when the firewall was loaded anew, and forgets those of bridges that go', async () => {
    const helper = async (script: string) => {
      const { stdout } = await inside(machine, 'sh', '-c', script).catch((error: { code: number }) => ({
        stdout: `failed with ${error.code}`,
      }));
      return { code: stdout.startsWith('failed') ? 1 : 0, said: stdout.trim().split('\n').at(-1) ?? '' };
    };
    const open = () => new HostFirewall(silentLog, { direct: undefined, helper });
    const firewall = open();
    await firewall.confine('net', 'trp000000000001', []);
    assert.deepEqual(firewall.egressOf('net'), []);
    await sh('iptables -F; iptables -X');
    await firewall.ensure('trp000000000001');
    assert.deepEqual(await reaches(box, site, names), []);
    // Another life of the platform finds that there are rules, and not which.
    const later = open();
    assert.equal(later.egressOf('net'), 'any');
    await later.ensure('trp000000000001');
    assert.equal(later.egressOf('net'), 'unknown');
    await later.confine('net', 'trp000000000001', undefined);
    assert.equal(later.egressOf('net'), 'any');
    assert.deepEqual(await reaches(box, site), [site]);
    ip('-n', machine, 'link', 'add', 'trp000000000009', 'type', 'bridge');
    await firewall.confine('other', 'trp000000000009', []);
    ip('-n', machine, 'link', 'del', 'trp000000000009');
    assert.equal((await sh(firewallScript())).trim(), 'egress 1');
    await firewall.release('net');
    assert.doesNotMatch(await sh('iptables -S'), /TRP-E-/);
    const broken = new HostFirewall(silentLog, { direct: undefined, helper: async () => ({ code: 1, said: 'no' }) });
    await rejectsWith(broken.confine('net', 'trp000000000001', []), 'unavailable');
    await broken.confine('net', 'trp000000000001', undefined);
  });

  it('has the rules of containers again a second after the firewall was loaded anew, where the platform may set them', async (t) => {
    const moduleOf = (name: string) => new URL(`../../transports/engines/docker/${name}`, import.meta.url).href;
    const platform = `
      import { HostFirewall } from '${moduleOf('host/firewall.js')}';
      import { rootScript } from '${moduleOf('run.js')}';
      const log = new Proxy({}, { get: () => () => undefined });
      const firewall = new HostFirewall(log, { direct: rootScript(), helper: () => Promise.reject(new Error('none')) });
      await firewall.confine('net', 'trp000000000001', []);
      await firewall.confine('other', 'trp000000000002', ['203.0.113.0/24']);
      console.log('confined');
      for await (const _ of process.stdin);
      firewall.close();`;
    const child = spawn('ip', ['netns', 'exec', machine, process.execPath, '--input-type=module', '-e', platform], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    servers.push(child);
    await once(child.stdout, 'data');
    for (const away of ['iptables -F; iptables -X', 'iptables -F FORWARD', 'iptables -F TRP-CLOSED']) {
      assert.deepEqual(await reaches(box, site, names), [], away);
      const begun = performance.now();
      await sh(away);
      const isBack = async () => (await sh('iptables -S')).match(/^-A TRP-(CLOSED|LISTED) .* TRP-E-/gm)?.length === 2;
      const isLed = async () => / -j TRP-CLOSED$/m.test(await sh('iptables -S FORWARD'));
      await until(async () => (await isBack()) && (await isLed()), { what: 'they are back', timeoutMs: 60_000 });
      t.diagnostic(`${Math.round(performance.now() - begun)} ms after ${away}`);
    }
    assert.deepEqual(await reaches(box, site, names), []);
    assert.deepEqual(await reaches(neighbour, site, `${addresses.database}:80`), [site]);
    child.stdin.end();
    await once(child, 'exit');
    for (const network of ['net', 'other']) await sh(releaseScript(network));
  });

  it('has its rules once, however often and by however many they are set, and none of before', async () => {
    await sh('iptables -I FORWARD -i trp+ -d 169.254.0.0/16 -j DROP; iptables -I FORWARD -i trp+ -o trp+ -j DROP');
    await Promise.all(Array.from({ length: 4 }, () => sh(firewallScript())));
    const rules = await sh('iptables -S');
    assert.equal(rules.match(/^-N TROUPE-/gm)?.length, 1);
    assert.equal(rules.match(/^-A TROUPE-\d+ /gm)?.length, 15);
    assert.deepEqual(
      rules.match(/^-A FORWARD .*$/gm)?.map((rule) => rule.replace(/\d+$/, '')),
      ['-A FORWARD -i trp+ -j TROUPE-', '-A FORWARD -i trp+ -j TRP-LISTED', '-A FORWARD -i trp+ -j TRP-CLOSED'],
    );
    assert.equal(rules.match(/^-A INPUT /gm)?.length, 1);
    // One that somebody took away comes back.
    await sh('iptables -D $(iptables -S | sed -n "s/^-A \\(TROUPE-.*10.0.0.0.*\\)/\\1/p")');
    assert.deepEqual(await reaches(box, `${addresses.database}:80`), [`${addresses.database}:80`]);
    await sh(firewallScript());
    assert.deepEqual(await reaches(box, `${addresses.database}:80`), []);
  });

  it('is in Docker’s chain for its users, once there is one', async () => {
    await sh('iptables -N DOCKER-USER; iptables -I FORWARD -j DOCKER-USER');
    await sh(firewallScript());
    const rules = await sh('iptables -S');
    assert.match(rules, /^-A DOCKER-USER -i trp\+ -j TROUPE-\d+$/m);
    assert.doesNotMatch(rules, /^-A FORWARD -i trp/m);
    assert.deepEqual(await reaches(box, ...everything), [`${addresses.site}:80`]);
    // The chain is there still, and nothing leads to it.
    await sh('iptables -F');
    await sh(firewallScript());
    assert.equal((await sh('iptables -S')).match(/^-A TROUPE-\d+ /gm)?.length, 15);
    assert.deepEqual(await reaches(box, ...everything), [`${addresses.site}:80`]);
    await sh('iptables -I FORWARD -j DOCKER-USER');
    await sh(firewallScript());
    assert.doesNotMatch(await sh('iptables -S'), /^-A FORWARD -i trp/m);
    assert.deepEqual(await reaches(box, ...everything), [`${addresses.site}:80`]);
  });
});

describe('networks that containers may reach', () => {
  it('are IPv4 networks by their own address', () => {
    assert.deepEqual(parseEgress('10.1.2.0/24, 192.168.7.7,10.1.2.0/24'), ['10.1.2.0/24', '192.168.7.7/32']);
    for (const wrong of [
      '',
      '10.1.2.3/24',
      '10.0.0.0/33',
      'fd00::/8',
      'x',
      '10.0.0.0/8,',
      '10.0.0.0/8/8',
      '010.0.0.0/8',
    ]) {
      assert.equal(parseEgress(wrong), undefined, wrong);
    }
    assert.equal(parseEgress(Array.from({ length: 65 }, (_, i) => `10.0.${i}.0/24`).join()), undefined);
  });

  it('are blocks of a network policy on Kubernetes', () => {
    const [everywhere, ...listed] = egressBlocks(['10.1.2.0/24', '169.254.0.0/16', '100.64.0.0/10']);
    assert.deepEqual(everywhere?.except?.toSorted(), [
      ...['10.0.0.0/8', '100.64.0.0/10', '168.63.129.16/32', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.192/32'],
      '192.168.0.0/16',
    ]);
    assert.deepEqual(listed, [
      { cidr: '10.1.2.0/24' },
      { cidr: '169.254.0.0/16' },
      { cidr: '100.64.0.0/10', except: ['100.100.100.200/32'] },
    ]);
  });

  it('are for one container what its list and they have in common', () => {
    assert.deepEqual(egressBlocks([], []), []);
    assert.deepEqual(egressBlocks([], ['203.0.113.0/24', '10.0.0.0/8', '10.1.0.0/16', '169.254.169.254/32']), [
      { cidr: '203.0.113.0/24' },
    ]);
    assert.deepEqual(egressBlocks(['10.1.2.0/24'], ['10.0.0.0/8']), [{ cidr: '10.1.2.0/24' }]);
    assert.deepEqual(egressBlocks([], ['192.0.0.0/16']), [{ cidr: '192.0.0.0/16', except: ['192.0.0.192/32'] }]);
    assert.deepEqual(egressBlocks([], ['0.0.0.0/0']), egressBlocks([]));
  });
});
