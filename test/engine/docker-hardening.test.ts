import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import type { ContainerSpec } from '../../proto/ports/engine.ts';
import { keptCapabilities } from '../../transports/engines/common/confinement.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { dockerSkip, dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';

const docker = z.object({
  Config: z.object({ Labels: z.record(z.string(), z.string()) }),
  HostConfig: z.looseObject({}),
  Mounts: z.array(z.object({ Type: z.string(), Destination: z.string(), RW: z.boolean() })),
  NetworkSettings: z.object({ Networks: z.record(z.string(), z.unknown()), Ports: z.record(z.string(), z.unknown()) }),
});

/** Numbers of capabilities (capability.h of Linux). */
const capabilityNumbers: Readonly<Record<string, number>> = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  FSETID: 4,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  NET_BIND_SERVICE: 10,
  SYS_CHROOT: 18,
  AUDIT_WRITE: 29,
  SETFCAP: 31,
};

describe('hardening of containers on Docker', { skip: dockerSkip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  const spec: ContainerSpec = {
    id: 'hard',
    userId: 'u1',
    hostname: 'box',
    image: '',
    cpus: 0.5,
    memoryMb: 128,
    storageGb: 1,
    mountPaths: ['/root'],
    authorizedKeys: ['ssh-ed25519 AAAA one'],
  };
  before(async () => {
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
    await under.engine.create({ ...spec, image: under.image });
    await under.engine.start('hard', spec.authorizedKeys);
    await eventually(async () => (await under.engine.dial('hard', 22, { timeoutMs: 2000 })).destroy());
  });
  after(() => under?.end());

  const inside = async (script: string): Promise<string> =>
    (await under.exec('hard', script)).toString().replaceAll('\r\n', '\n').trim();

  it('is what Docker was told', async () => {
    const naming = namingOf(under.installation);
    const view = await under.client.json('GET', `/containers/${naming.container('hard')}/json`, docker);
    const { HostConfig } = view;
    const wanted = {
      NanoCpus: 5e8,
      CpuShares: 512,
      Memory: 128 * 1024 * 1024,
      MemorySwap: 128 * 1024 * 1024,
      PidsLimit: 2048,
      CapDrop: ['ALL'],
      CapAdd: keptCapabilities,
      SecurityOpt: ['no-new-privileges'],
      Privileged: false,
      PublishAllPorts: false,
      Binds: null,
      Devices: null,
      PidMode: '',
      UTSMode: '',
      IpcMode: 'private',
      CgroupnsMode: 'private',
      NetworkMode: naming.network('hard'),
      OomScoreAdj: 500,
      RestartPolicy: { Name: 'no', MaximumRetryCount: 0 },
      LogConfig: { Type: 'json-file', Config: { 'max-file': '3', 'max-size': '10m' } },
    };
    for (const [name, value] of Object.entries(wanted)) assert.deepEqual(HostConfig[name] ?? null, value, name);
    const masked = z.array(z.string()).parse(HostConfig.MaskedPaths);
    for (const path of ['/proc/kcore', '/proc/keys', '/sys/firmware']) assert.ok(masked.includes(path), path);
    const readonly = z.array(z.string()).parse(HostConfig.ReadonlyPaths);
    for (const path of ['/proc/sys', '/proc/sysrq-trigger']) assert.ok(readonly.includes(path), path);
    // Volumes only: nothing of the machine's own files.
    assert.deepEqual(view.Mounts.map(({ Type, Destination, RW }) => [Type, Destination, RW]).sort(), [
      ['volume', '/etc/troupe', false],
      ['volume', '/root', true],
    ]);
    assert.deepEqual(Object.keys(view.NetworkSettings.Networks), [naming.network('hard')]);
    assert.deepEqual(view.NetworkSettings.Ports['22/tcp'] ?? null, null, 'published on the machine');
    assert.equal(view.Config.Labels['troupe.user'], 'u1');
  });

  it('holds for every process inside', async () => {
    const mask = keptCapabilities.reduce((sum, name) => sum | (1n << BigInt(capabilityNumbers[name] ?? 63)), 0n);
    const status = await inside('cat /proc/1/status; cat /proc/$(pidof sshd)/status');
    for (const set of ['CapEff', 'CapPrm', 'CapBnd']) {
      const values = [...status.matchAll(new RegExp(`^${set}:\\s*([0-9a-f]+)`, 'gm'))].map((found) => found[1]);
      assert.equal(values.length, 2, set);
      for (const value of values) assert.equal(BigInt(`0x${value}`), mask, set);
    }
    assert.deepEqual(
      [...status.matchAll(/^NoNewPrivs:\s*(\d)/gm)].map((found) => found[1]),
      ['1', '1'],
    );
    assert.deepEqual(
      [...status.matchAll(/^Seccomp:\s*(\d)/gm)].map((found) => found[1]),
      ['2', '2'],
    );
    const limits = await inside('cat /proc/1/limits');
    assert.match(limits, /^Max core file size\s+0\s+0\s/m);
    assert.match(limits, /^Max open files\s+16384\s+16384\s/m);
  });

  it('is limited by the kernel', async () => {
    const read = (v2: string, v1: string): Promise<string> =>
      inside(`cat /sys/fs/cgroup/${v2} 2>/dev/null || cat /sys/fs/cgroup/${v1}`);
    assert.equal(await read('memory.max', 'memory/memory.limit_in_bytes'), String(128 * 1024 * 1024));
    assert.match(await read('memory.swap.max', 'memory/memory.memsw.limit_in_bytes'), /^(0|134217728)$/);
    assert.equal(await read('pids.max', 'pids/pids.max'), '2048');
    assert.match(await read('cpu.max', 'cpu/cpu.cfs_quota_us'), /^50000( 100000)?$/);
    // Its own end of the tree is all it sees.
    assert.match(await inside('cat /proc/self/cgroup'), /^(\d+:[^:]*:\/\n?)+$/m);
  });

  it('lets nobody write what is the platform’s or the kernel’s', async () => {
    for (const path of ['/etc/troupe/authorized_keys', '/etc/troupe/more', '/proc/sys/kernel/hostname']) {
      assert.match(await inside(`echo x > ${path} && echo written`), /Read-only file system/, path);
    }
    assert.match(await inside('rm -f /etc/troupe/authorized_keys'), /Read-only file system/);
    assert.match(await inside('mount -o remount,rw /etc/troupe'), /permission denied|must be superuser|not permitted/i);
    assert.match(
      await inside('mount -t tmpfs none /mnt /tmp'),
      /permission denied|must be superuser|not permitted|Usage/i,
    );
    assert.equal(await inside('cat /proc/kcore 2>/dev/null | head -c 10 | wc -c'), '0');
    assert.match(await inside('mknod /tmp/disk b 254 0'), /not permitted/);
    assert.match(await inside('ip link set eth0 down'), /not permitted/);
    assert.doesNotMatch(await inside('cat /proc/net/if_inet6'), /eth0/);
  });

  it('says of what is the platform’s that it is, whichever links lead there', async () => {
    await inside(
      'ln -s /etc/troupe/authorized_keys /root/one; ln -s /etc/troupe /root/keys; ln -s /etc /root/etc; ln -s / /root/all; ' +
        'ln -s keys /root/chain; mkdir -p /root/etc2/troupe; echo x >/root/etc2/troupe/env',
    );
    const ways = [
      ...['/root/one', '/root/keys/authorized_keys', '/root/etc/troupe/authorized_keys', '/root/chain/authorized_keys'],
      ...['/root/all/etc/troupe/authorized_keys', '/root/all/root/keys/authorized_keys'],
    ];
    const leads: [string, string][] = [
      ...ways.map((way): [string, string] => [way, '/etc/troupe/authorized_keys']),
      ...['/root/keys', '/root/chain', '/root/etc/troupe'].map((way): [string, string] => [way, '/etc/troupe']),
      ['/root/all/etc', '/etc'],
      ['/root/all', '/'],
      ['/', '/'],
      ['/root/etc2/troupe/env', '/root/etc2/troupe/env'],
    ];
    for (const [way, to] of leads) assert.equal((await under.engine.fileAccess.stat('hard', way))?.path, to, way);
  });

  it('lets the keys be replaced all the same, and leaves no helper behind', async () => {
    await under.engine.stop('hard', 1);
    await under.engine.start('hard', ['ssh-ed25519 BBBB two']);
    assert.equal(await under.readFile('hard', '/etc/troupe/authorized_keys'), 'ssh-ed25519 BBBB two\n');
    assert.match(
      await inside('ls -ldn /etc/troupe /etc/troupe/authorized_keys'),
      /^drwxr-xr-x +\d+ 0 +0 .*\n-rw------- +1 0 +0 /,
    );
    const filters = JSON.stringify({ label: [`troupe.installation=${under.installation}`, 'troupe.helper=hard'] });
    const helpers = await under.client.json('GET', '/containers/json', z.array(z.unknown()), {
      query: { all: true, filters },
    });
    assert.deepEqual(helpers, []);
  });

  it('keeps data inside the container, wherever links of its image lead', async (t) => {
    const machine = mkdtempSync(join(tmpdir(), 'troupe-links-'));
    t.after(() => rmSync(machine, { recursive: true }));
    writeFileSync(join(machine, 'mine'), 'of the machine');
    const up = '../'.repeat(12);
    await inside(`ln -s ${up}${machine.slice(1)} /climbs; ln -s ${machine} /points; ln -s /proc /kernel`);
    const repo = `troupe-links-${process.pid}`;
    const naming = namingOf(under.installation);
    await under.client.call('POST', '/commit', {
      query: { container: naming.container('hard'), repo, tag: 'x' },
      body: {},
    });
    t.after(async () => {
      await under.engine.remove('links', {});
      await under.client.call('DELETE', `/images/${repo}:x`, { query: { force: true } });
    });
    const linked = { ...spec, id: 'links', image: `${repo}:x` };
    for (const path of ['/climbs', '/points']) {
      await under.engine.create({ ...linked, mountPaths: [path] });
      await under.engine.start('links', []);
      const said = (
        await under.exec('links', `cat ${path}/mine; echo theirs > ${path}/theirs && cat ${path}/theirs`)
      ).toString();
      assert.match(said, /No such file or directory\s+theirs/);
      assert.deepEqual(readdirSync(machine), ['mine']);
      await under.engine.stop('links', 0);
      await under.engine.start('links', []);
      assert.match((await under.exec('links', `cat ${path}/theirs`)).toString(), /^theirs/, 'it is kept');
      await under.engine.remove('links', {});
    }
    await under.engine.create({ ...linked, mountPaths: ['/kernel'] });
    await rejectsWith(under.engine.start('links', []), 'refused');
  });

  it('lets a container go although a helper of its keys was left when dockerd was killed', async () => {
    const filters = JSON.stringify({ label: ['troupe.container=hard', `troupe.installation=${under.installation}`] });
    const listed = z.array(
      z.object({ Image: z.string(), Mounts: z.array(z.object({ Name: z.string(), Destination: z.string() })) }),
    );
    const [found] = await under.client.json('GET', '/containers/json', listed, { query: { all: true, filters } });
    const volume = found?.Mounts.find(({ Destination }) => Destination === '/etc/troupe')?.Name;
    assert.ok(found && volume, 'the container has a volume of keys');
    await under.client.call('POST', '/containers/create', {
      body: {
        Image: found.Image,
        Cmd: ['-'],
        Labels: { 'troupe.installation': under.installation, 'troupe.helper': 'hard' },
        HostConfig: { Mounts: [{ Type: 'volume', Source: volume, Target: '/etc/troupe' }] },
      },
    });
    await under.engine.remove('hard');
    const volumes = JSON.stringify({ name: [volume] });
    const left = await under.client.json('GET', '/volumes', z.object({ Volumes: z.array(z.unknown()).nullable() }), {
      query: { filters: volumes },
    });
    assert.deepEqual(left.Volumes ?? [], []);
  });
});
