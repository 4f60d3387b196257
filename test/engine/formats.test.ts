import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseSubnet } from '../../lib/ipv4.ts';
import { type TarEntry, tar } from '../../lib/tar.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { jsonLines } from '../../transports/engines/common/calls.ts';
import { checkedMountPaths } from '../../transports/engines/common/confinement.ts';
import { parseImageReference, pullError } from '../../transports/engines/common/image-reference.ts';
import { afterStamp, beforeStamp } from '../../transports/engines/common/log-lines.ts';
import { freeSubnets, parsePool, routedRanges } from '../../transports/engines/common/subnets.ts';
import { dockerAddress, parseDockerHost } from '../../transports/engines/docker/api/address.ts';
import { negotiate } from '../../transports/engines/docker/api/client.ts';
import { changedContainer } from '../../transports/engines/docker/events.ts';
import { mirrorsIn, settingsIn } from '../../transports/engines/docker/image/apt-sources.ts';
import { debianBaseImage } from '../../transports/engines/docker/image/base-image.ts';
import { debianRecipe } from '../../transports/engines/docker/image/debian-recipe.ts';
import { authHeader } from '../../transports/engines/docker/image/images.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { memoryInUse } from '../../transports/engines/docker/stats/usage.ts';

const withCode = (code: string) => (error: unknown) => error instanceof EngineError && error.code === code;

describe('who pulls', () => {
  it('is told to Docker with the padding of base64url, whatever its length: it takes the rest for nobody', () => {
    const reference = parseImageReference('127.0.0.1:5000/ann/app:1');
    for (const name of ['a', 'an', 'ann', 'anna']) {
      const text = authHeader(reference, { username: name, password: 'x' })['x-registry-auth'] ?? '';
      assert.equal(text.length % 4, 0, text);
      assert.match(text, /^[\w-]+={0,2}$/);
      assert.equal(JSON.parse(Buffer.from(text, 'base64url').toString()).username, name);
    }
    assert.deepEqual(authHeader(reference, undefined), {});
  });
});

describe('tar writer', () => {
  it('writes what tar reads back: files, folders, links, modes, long and non-ASCII names', () => {
    const long = `${'deep/'.repeat(60)}file-ü.txt`;
    const entries: TarEntry[] = [
      { kind: 'directory', path: 'etc', mode: 0o755 },
      { kind: 'file', path: 'etc/secret', mode: 0o600, data: Buffer.from('hush\n') },
      { kind: 'file', path: 'empty', mode: 0o644, data: Buffer.alloc(0) },
      { kind: 'file', path: long, mode: 0o755, data: Buffer.alloc(1000, 'x') },
      { kind: 'symlink', path: 'link', target: `/${'t'.repeat(150)}` },
    ];
    const folder = mkdtempSync(join(tmpdir(), 'troupe-tar-'));
    try {
      const archive = join(folder, 'a.tar');
      writeFileSync(archive, tar(entries));
      const list = execFileSync('tar', ['-tvf', archive, '--quoting-style=literal'], {
        encoding: 'utf8',
        env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', TZ: 'UTC' },
      });
      const lines = list.trim().split('\n');
      assert.match(lines[0] ?? '', /^drwxr-xr-x root\/root\s+0 1970-01-01 00:00 etc\/$/);
      assert.match(lines[1] ?? '', /^-rw------- root\/root\s+5 .* etc\/secret$/);
      assert.ok(lines[3]?.startsWith('-rwxr-xr-x') && lines[3].endsWith(` ${long}`), lines[3]);
      assert.ok(lines[4]?.endsWith(` link -> /${'t'.repeat(150)}`), lines[4]);
      assert.equal(execFileSync('tar', ['-xOf', archive, 'etc/secret'], { encoding: 'utf8' }), 'hush\n');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('makes one archive of one input, in whole blocks', () => {
    const entries: TarEntry[] = [{ kind: 'file', path: 'a', mode: 0o644, data: Buffer.from('1') }];
    assert.ok(tar(entries).equals(tar(entries)));
    assert.equal(tar(entries).length % 512, 0);
  });
});

describe('JSON lines', () => {
  it('are the same however the bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), fc.integer({ min: 1, max: 9 }), async (values, size) => {
        const bytes = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(''));
        async function* chunks() {
          for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
        }
        const got: unknown[] = [];
        for await (const value of jsonLines(chunks())) got.push(value);
        assert.deepEqual(got, JSON.parse(JSON.stringify(values)));
      }),
      { numRuns: 50 },
    );
  });

  it('skip what is no JSON and refuse a line without end', async () => {
    const read = async (text: string, bound?: number): Promise<unknown[]> => {
      const got: unknown[] = [];
      for await (const value of jsonLines(
        (async function* () {
          yield Buffer.from(text);
        })(),
        bound,
      ))
        got.push(value);
      return got;
    };
    assert.deepEqual(await read('oops\n{"a":1}\n\n2'), [{ a: 1 }, 2]);
    await assert.rejects(read('x'.repeat(100), 50), withCode('unavailable'));
  });
});

describe('docker events', () => {
  const naming = namingOf('here');
  const event = (change: object): object => ({
    Type: 'container',
    Action: 'die',
    Actor: {
      ID: 'f00',
      Attributes: { 'troupe.installation': 'here', 'troupe.container': 'abc', name: 'troupe-here-abc', exitCode: '0' },
    },
    ...change,
  });

  it('name the container that changed', () => {
    assert.equal(changedContainer(event({}), naming), 'abc');
    assert.equal(changedContainer(event({ Action: 'destroy' }), naming), 'abc');
  });

  it('of a container that only has the labels of another are passed over', () => {
    const labelled = { 'troupe.installation': 'here', 'troupe.container': 'abc' };
    for (const more of [
      { name: 'troupe-here-def' },
      { name: 'troupe-here-abc', 'troupe.helper': 'x' },
      { name: 'troupe-here-', 'troupe.container': '' },
      { name: 'troupe-here-../x', 'troupe.container': '../x' },
    ]) {
      assert.equal(changedContainer(event({ Actor: { Attributes: { ...labelled, ...more } } }), naming), undefined);
    }
  });

  it('of others, of commands, and garbage are passed over', () => {
    assert.equal(changedContainer(event({}), namingOf('elsewhere')), undefined);
    assert.equal(changedContainer(event({ Action: 'exec_create: sh -c secret' }), naming), undefined);
    assert.equal(changedContainer(event({ Type: 'image' }), naming), undefined);
    for (const garbage of [null, 1, 'x', [], {}, { Type: 'container', Action: 'die' }]) {
      assert.equal(changedContainer(garbage, naming), undefined);
    }
  });
});

describe('image references', () => {
  it('are completed as Docker completes them', () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    const cases: [string, string][] = [
      ['debian', 'docker.io/library/debian:latest'],
      ['troupe/base:1', 'docker.io/troupe/base:1'],
      ['localhost:5000/a/b', 'localhost:5000/a/b:latest'],
      ['localhost/a:x', 'localhost/a:x'],
      ['reg.example.com/a_b/c-d__e:V1.0', 'reg.example.com/a_b/c-d__e:V1.0'],
      [`a/b:tag@${digest}`, `docker.io/a/b@${digest}`],
      ['docker.io/debian', 'docker.io/library/debian:latest'],
      // A local image id is not a name by which another user's image can be had.
      ['deadbeef1234', 'docker.io/library/deadbeef1234:latest'],
    ];
    for (const [text, full] of cases) assert.equal(parseImageReference(text).full, full);
  });

  it('that are none are refused', () => {
    const wrong = [
      '',
      '-v',
      'a b',
      'http://x/y',
      'a/B',
      'a//b',
      'a/',
      '/a',
      'a:',
      'a:-x',
      'a@sha256:bad',
      'a@b@c',
      'a\n',
      'ä',
      'x'.repeat(600),
    ];
    for (const text of wrong) assert.throws(() => parseImageReference(text), withCode('image_not_found'), text);
  });

  it('that cannot be pulled: for good, or for now', () => {
    const reference = parseImageReference('a/b');
    const code = (reason: string): string => pullError(reference, reason).code;
    assert.equal(
      code('pull access denied for a/b, repository does not exist or may require docker login'),
      'image_not_found',
    );
    assert.equal(code('manifest for a/b:latest not found: manifest unknown: manifest unknown'), 'image_not_found');
    assert.equal(
      code('Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host'),
      'unavailable',
    );
    assert.equal(code('toomanyrequests: You have reached your pull rate limit'), 'unavailable');
  });
});

describe('names', () => {
  it('differ by path and are steady', () => {
    const naming = namingOf('x');
    assert.equal(naming.container('abc'), 'troupe-x-abc');
    assert.notEqual(naming.volume('abc', '/a'), naming.volume('abc', '/b'));
    assert.equal(naming.volume('abc', '/a'), namingOf('x').volume('abc', '/a'));
  });

  it('refuse installations and ids that are no plain words', () => {
    for (const name of ['', 'A', '-a', 'a-', 'a b', 'x'.repeat(40)])
      assert.throws(() => namingOf(name), withCode('refused'));
    for (const id of ['', '../x', 'a/b', 'A', 'a b', 'x'.repeat(64)]) {
      assert.throws(() => namingOf('x').container(id), withCode('refused'));
    }
  });

  it('know mount paths in one form only', () => {
    assert.deepEqual(checkedMountPaths(['/b/', '/a//x', '/b']), ['/a/x', '/b']);
  });
});

describe('subnets of containers', () => {
  const pool = parsePool('10.192.0.0/10');

  it('lie in the pool, begin at a place of their own, and are all of them in the end', () => {
    const first = (seed: string): string | undefined => freeSubnets(pool, seed, []).next().value;
    assert.match(first('here') ?? '', /^10\.(19[2-9]|2[0-5]\d)\.\d+\.\d+\/29$/);
    assert.notEqual(first('here'), first('there'));
    const small = [...freeSubnets(parsePool('192.168.7.0/27'), 'x', [])];
    assert.deepEqual(small.toSorted(), ['192.168.7.0/29', '192.168.7.16/29', '192.168.7.24/29', '192.168.7.8/29']);
  });

  it('leave out what is taken, wholly or in part', () => {
    const taken = ['192.168.7.0/28', '192.168.7.20/32', '10.0.0.0/8', 'fe80::/64'].map(parseSubnet);
    const ranges = taken.filter((range) => range !== undefined);
    assert.equal(ranges.length, 3);
    assert.deepEqual([...freeSubnets(parsePool('192.168.7.0/27'), 'x', ranges)], ['192.168.7.24/29']);
  });

  it('are refused in a pool that is none, or not private', () => {
    for (const bad of [
      '',
      '10.0.0.0',
      '10.0.0.1/24',
      '10.0.0.0/30',
      '10.0.0.0/7',
      '8.8.8.0/24',
      '10.0.0.256/29',
      'a/9',
    ]) {
      assert.throws(() => parsePool(bad), /no pool of subnets/, bad);
    }
    assert.deepEqual(parsePool('100.64.0.0/10'), { first: 0x64400000, last: 0x647fffff });
  });

  it('know the routes of the machine', () => {
    const table = [
      'Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT',
      'eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0',
      'docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0',
      '',
    ].join('\n');
    assert.deepEqual(routedRanges(table), [parseSubnet('172.17.0.0/16')]);
  });
});

describe('small formats', () => {
  it('a log is asked for from a nanosecond later', () => {
    assert.equal(afterStamp('2024-01-01T00:00:00Z'), '1704067200.000000001');
    assert.equal(afterStamp('2024-01-01T00:00:00.5Z'), '1704067200.500000001');
    assert.equal(afterStamp('2024-01-01T00:00:00.999999999Z'), '1704067201.000000000');
    assert.equal(afterStamp('2024-01-01T01:00:00+01:00'), '1704067200.000000001');
    assert.equal(beforeStamp('2024-01-01T00:00:00Z'), '1704067199.999999999');
    assert.equal(beforeStamp('2024-01-01T00:00:00.5Z'), '1704067200.499999999');
    for (const wrong of ['', 'yesterday', '2024-01-01', '2024-13-01T00:00:00Z']) {
      assert.throws(() => afterStamp(wrong), withCode('refused'));
    }
  });

  it('hosts', () => {
    assert.deepEqual(parseDockerHost('unix:///run/d.sock'), { socketPath: '/run/d.sock' });
    assert.deepEqual(parseDockerHost('tcp://127.0.0.1:2376'), { host: '127.0.0.1', port: 2376 });
    assert.deepEqual(parseDockerHost('tcp://localhost'), { host: 'localhost', port: 2375 });
    assert.deepEqual(parseDockerHost('tcp://[::1]:80'), { host: '::1', port: 80 });
    const wrongs = [
      '',
      'unix://rel',
      'tcp://',
      'http://localhost',
      'tcp://u@localhost',
      'tcp://localhost/y',
      'tls://x',
    ];
    for (const wrong of [...wrongs, 'ssh://', 'ssh://-oProxyCommand=x', 'ssh://u:p@x', 'ssh://-o@x']) {
      assert.throws(() => parseDockerHost(wrong), withCode('refused'), wrong);
    }
  });

  it('hosts of other machines, with TLS or SSH only', () => {
    for (const host of ['tcp://10.0.0.1:2376', 'tcp://example', 'tcp://127.0.0.1.example:1', 'tcp://[fd00::1]:1']) {
      assert.throws(() => dockerAddress({ DOCKER_HOST: host }), /Set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH/, host);
    }
    const tls = { DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: '/certs' };
    const address = dockerAddress({ DOCKER_HOST: 'tcp://example', ...tls });
    assert.deepEqual(parseDockerHost(address ?? ''), { host: 'example', port: 2376, certs: '/certs' });
    assert.equal(dockerAddress({ DOCKER_HOST: 'unix:///run/d.sock', ...tls }), 'unix:///run/d.sock');
    assert.equal(dockerAddress({ ...tls }), undefined);
    const ssh = dockerAddress({ DOCKER_HOST: 'ssh://ann@example:2222', SSH_AUTH_SOCK: '/run/a b' });
    assert.deepEqual(parseDockerHost(ssh ?? ''), {
      ssh: { host: 'example', user: 'ann', port: 2222, socket: '/var/run/docker.sock', agent: '/run/a b' },
    });
    assert.deepEqual(parseDockerHost('ssh://example/run/user/1000/docker.sock'), {
      ssh: { host: 'example', socket: '/run/user/1000/docker.sock' },
    });
  });

  it('API versions', () => {
    assert.equal(negotiate('1.41'), '1.41');
    assert.equal(negotiate('1.99'), '1.52');
    assert.throws(() => negotiate('1.24'), withCode('unavailable'));
  });

  it('memory in use leaves out the cache that can be given back', () => {
    assert.equal(memoryInUse(100, { total_inactive_file: 30 }), 70);
    assert.equal(memoryInUse(100, { inactive_file: 40 }), 60);
    assert.equal(memoryInUse(10, { inactive_file: 40 }), 10);
    assert.equal(memoryInUse(10, {}), 10);
  });
});

describe('apt settings of the machine', () => {
  it('name the mirror in both forms of sources', () => {
    const stanza =
      'Types: deb\n# x\nURIs: http://m.example/debian/\nSuites: trixie\n\nTypes: deb\nURIs: https://m.example/debian-security\nSuites: s';
    assert.deepEqual(mirrorsIn(stanza), {
      mirror: 'http://m.example/debian',
      securityMirror: 'https://m.example/debian-security',
    });
    const lines =
      'deb-src http://no.example/debian x\n# deb http://no.example/debian x\ndeb [arch=amd64] http://m.example/debian bookworm main\n';
    assert.deepEqual(mirrorsIn(lines), { mirror: 'http://m.example/debian', securityMirror: undefined });
  });

  it('name no mirror where there is none, and never take credentials or other distributions', async () => {
    const other =
      'deb http://m.example/ubuntu jammy main\ndeb http://u:p@m.example/debian x main\ndeb file:/srv/debian x main';
    for (const text of [other, '', 'Types: deb\nEnabled: no\nURIs: http://m.example/debian\n']) {
      assert.deepEqual(mirrorsIn(text), { mirror: undefined, securityMirror: undefined });
    }
    // mmdebstrap then has a default of its own.
    const recipe = await debianRecipe({ ...mirrorsIn(''), build: [], inside: [] });
    assert.equal(recipe.sources, undefined);
  });

  it('hand a proxy on to the containers only when it holds no password and is not local', () => {
    const dump = (value: string): string => `APT "";\nAcquire::http::Proxy "${value}";\nAcquire::Check-Date "false";\n`;
    assert.equal(settingsIn(dump('http://proxy:3128')).inside.length, 2);
    for (const value of ['http://u:p@proxy:3128', 'http://127.0.0.1:3142', 'http://localhost:1']) {
      assert.equal(settingsIn(dump(value)).build.length, 2);
      assert.deepEqual(settingsIn(dump(value)).inside, ['Acquire::Check-Date "false";']);
    }
  });

  it("name another base image when they change, but not for a build's proxy alone", async () => {
    const settings = { mirror: 'http://a/debian', securityMirror: undefined, build: [], inside: [] };
    const { reference } = await debianBaseImage(settings);
    assert.match(reference, /^troupe\.invalid\/base:[0-9a-f]{16}$/);
    assert.equal(
      (await debianBaseImage({ ...settings, build: ['Acquire::http::Proxy "http://x";'] })).reference,
      reference,
    );
    assert.notEqual((await debianBaseImage({ ...settings, mirror: 'http://b/debian' })).reference, reference);
  });
});
