import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { dockerdFiles, mountsBelow, sharedSettings } from '../../transports/engines/docker/host/dockerd-files.ts';
import { findDocker, searchDocker } from '../../transports/engines/docker/host/find-docker.ts';
import { doctorDocker, installDocker, missingBuilders } from '../../transports/engines/docker/host/install-docker.ts';
import {
  dockerdInstalled,
  privateDockerHost,
  startPrivateDockerd,
  stopPrivateDockerd,
} from '../../transports/engines/docker/host/private-dockerd.ts';
import { isAlive, runningProcess } from '../../transports/engines/docker/host/processes.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { realRequired, removeDockerFolder, silentLog } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';
import { removeInstallation } from '../support/engine/remove-installation.ts';
import { buildTinyImage, tinyImageMissing } from '../support/engine/tiny-image.ts';
import { projectRoot } from '../support/project.ts';

const folder = mkdtempSync(join(tmpdir(), 'troupe-dockerd-'));
after(() => removeDockerFolder(folder));

const unable = process.getuid?.() !== 0 || !dockerdInstalled() || tinyImageMissing() !== undefined;
const skip = unable && !realRequired ? 'needs root, dockerd, busybox and sshd' : false;

describe('private dockerd', { skip }, () => {
  it('is started, attached to, recovered with its containers after a kill, and stopped with them', async () => {
    const dataDir = join(folder, 'data');
    assert.equal(await privateDockerHost(dataDir), undefined);
    assert.equal(await stopPrivateDockerd({ dataDir, log: silentLog }), false);
    const progress: string[] = [];
    const first = await startPrivateDockerd({ dataDir, log: silentLog, onProgress: (line) => progress.push(line) });
    try {
      assert.equal(first.attached, false);
      assert.ok(progress.length > 0);
      assert.equal(await privateDockerHost(dataDir), first.host);
      assert.equal(await findDocker({ DOCKER_HOST: first.host }), first.host);
      const again = await startPrivateDockerd({ dataDir, log: silentLog });
      assert.deepEqual(again, { ...first, attached: true });

      const base = await buildTinyImage();
      const engine = await dockerEngine({ host: first.host, installation: 'own', log: silentLog, images: { base } });
      const looks: (string | undefined)[] = [];
      const watch = engine.watch((id) => looks.push(id));
      await eventually(() => assert.deepEqual(looks, [undefined]));
      await engine.ensureImage(base.reference, { always: false });
      await engine.create({
        id: 'c1',
        userId: 'u1',
        hostname: 'box',
        image: base.reference,
        cpus: 64,
        memoryMb: 128,
        storageGb: 1,
        mountPaths: ['/root'],
        authorizedKeys: [],
      });
      await engine.start('c1', []);
      const startedAt = (await engine.inspect('c1'))?.startedAt;

      process.kill(first.pid, 'SIGKILL');
      await eventually(() => assert.equal(isAlive(first.pid), false));
      await rejectsWith(engine.inspect('c1'), 'unavailable');
      looks.length = 0;
      const recovered = await startPrivateDockerd({ dataDir, log: silentLog });
      assert.equal(recovered.attached, false);
      await eventually(() => assert.ok(looks.includes(undefined), 'not yet connected again'));
      await eventually(async () => assert.equal((await engine.inspect('c1'))?.phase, 'running'));
      assert.equal((await engine.inspect('c1'))?.startedAt, startedAt);
      await eventually(async () => (await engine.dial('c1', 22, { timeoutMs: 2000 })).destroy());

      assert.equal(await stopPrivateDockerd({ dataDir, log: silentLog }), true);
      assert.equal(isAlive(recovered.pid), false);
      assert.equal(await stopPrivateDockerd({ dataDir, log: silentLog }), false);

      const third = await startPrivateDockerd({ dataDir, log: silentLog });
      await eventually(async () => assert.equal((await engine.inspect('c1'))?.phase, 'exited'));
      await watch.close();
      await engine.close();
      assert.notEqual(third.pid, recovered.pid);
    } finally {
      // The bridge of a network outlives its dockerd.
      const { host } = await startPrivateDockerd({ dataDir, log: silentLog });
      await removeInstallation(host, 'own');
      await stopPrivateDockerd({ dataDir, log: silentLog });
    }
  });

  it('is started when the one that was about to be attached to ends instead', async () => {
    const dataDir = join(folder, 'ending');
    const first = await startPrivateDockerd({ dataDir, log: silentLog });
    try {
      // Frozen, it lives and does not answer.
      process.kill(first.pid, 'SIGSTOP');
      let isAttaching = false;
      const log = { ...silentLog, info: () => (isAttaching = true) };
      const second = startPrivateDockerd({ dataDir, log });
      await eventually(() => assert.ok(isAttaching));
      process.kill(first.pid, 'SIGKILL');
      assert.equal((await second).attached, false);
    } finally {
      assert.equal(await stopPrivateDockerd({ dataDir, log: silentLog, graceSeconds: 0 }), true);
    }
  });

  it('takes what containerd lost track of along when it is stopped', async () => {
    const dataDir = join(folder, 'shims');
    await startPrivateDockerd({ dataDir, log: silentLog });
    const { execRoot } = dockerdFiles(dataDir);
    // What a killed containerd leaves, as the process table shows it: a shim, and a container's first process below it.
    const left = async (root: string): Promise<{ shim: ChildProcess; below: number }> => {
      const words = ['-c', 'sleep 1000 & echo $!; wait', 'sh', '-address', join(root, 'containerd/containerd.sock')];
      const shim = spawn('/bin/sh', words, { argv0: 'containerd-shim', stdio: ['ignore', 'pipe', 'ignore'] });
      const [said] = await once(shim.stdout, 'data');
      return { shim, below: Number(said) };
    };
    const [own, foreign] = [await left(execRoot), await left(join(folder, 'elsewhere'))];
    try {
      assert.equal(await stopPrivateDockerd({ dataDir, log: silentLog, graceSeconds: 0 }), true);
      await eventually(() => assert.ok(own.shim.signalCode === 'SIGKILL' && !isAlive(own.below)));
      assert.ok(isAlive(foreign.below) && foreign.shim.signalCode === null);
    } finally {
      for (const { shim, below } of [own, foreign]) {
        shim.kill('SIGKILL');
        if (isAlive(below)) process.kill(below, 'SIGKILL');
      }
    }
  });

  it('leaves a folder that can be removed when it is stopped after it was killed', async () => {
    const dataDir = join(folder, 'killed');
    const { pid } = await startPrivateDockerd({ dataDir, log: silentLog });
    const mounts = (): string[] => mountsBelow(readFileSync('/proc/self/mounts', 'utf8'), [dataDir]);
    process.kill(pid, 'SIGKILL');
    await eventually(() => assert.equal(isAlive(pid), false));
    assert.notDeepEqual(mounts(), [], 'a killed dockerd leaves no mount: this test needs one');
    assert.equal(await stopPrivateDockerd({ dataDir, log: silentLog }), false);
    assert.deepEqual(mounts(), []);
    rmSync(dataDir, { recursive: true });
  });

  it('comes up although it was killed while it wrote a network down, and panics over that', async () => {
    const dataDir = join(folder, 'half');
    const files = join(dockerdFiles(dataDir).dataRoot, 'network', 'files');
    mkdirSync(files, { recursive: true });
    // What Docker 20.10 had written when chaos killed it: a network with a subnet, and nothing of its addresses.
    const half = readFileSync(join(projectRoot, 'test/support/engine/half-made-network.db.gz'));
    writeFileSync(join(files, 'local-kv.db'), gunzipSync(half));
    const { host } = await startPrivateDockerd({ dataDir, log: silentLog });
    try {
      assert.equal(await privateDockerHost(dataDir), host);
    } finally {
      assert.equal(await stopPrivateDockerd({ dataDir, log: silentLog, graceSeconds: 0 }), true);
    }
  });

  it('says with the end of its log why it does not come up', async () => {
    const dataDir = join(folder, 'broken');
    const { dataRoot } = dockerdFiles(dataDir);
    writeFileSync(dataRoot, 'a file where a folder belongs');
    await assert.rejects(
      startPrivateDockerd({ dataDir, log: silentLog }),
      /did not come up: it ended with 1\. .*points to a file/,
    );
  });
});

describe('files of a private dockerd', () => {
  it('keep every socket path short enough, in folders of the owner alone', () => {
    const short = dockerdFiles(join(folder, 's'));
    assert.ok(short.socket.startsWith(folder));
    const long = dockerdFiles(join(folder, 'x'.repeat(90)));
    try {
      assert.match(long.socket, /^\/run\/troupe-[0-9a-f]{16}\/docker\.sock$/);
      assert.ok(long.dataRoot.startsWith(folder));
    } finally {
      rmSync(join(long.socket, '..'), { recursive: true });
    }
  });

  it('know a dead, a reused and a zombie process from a living one', async () => {
    const pidFile = join(folder, 'pid');
    assert.equal(runningProcess(pidFile, 'node', 'x'), undefined);
    writeFileSync(pidFile, `${process.pid}\n`);
    assert.equal(runningProcess(pidFile, 'dockerd', pidFile), undefined);
    writeFileSync(pidFile, 'garbage');
    assert.equal(runningProcess(pidFile, 'node', 'x'), undefined);
    assert.equal(isAlive(process.pid), true);
    // The shell's child ends and is never waited for: a zombie as long as the shell's successor runs.
    const parent = spawn('sh', ['-c', 'true & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] });
    try {
      const pid = await new Promise<number>((resolve) =>
        parent.stdout.once('data', (data) => resolve(Number(String(data)))),
      );
      await eventually(() => assert.equal(isAlive(pid), false));
    } finally {
      const ended = new Promise((resolve) => parent.once('close', resolve));
      parent.kill('SIGKILL');
      await ended;
    }
  });

  it('find what is mounted below them, innermost first', () => {
    const mounts = 'a /x/y t rw 0 0\nb /x/y/z\\040w t rw 0 0\nc /x/yy t rw 0 0\nd / t rw 0 0\n';
    assert.deepEqual(mountsBelow(mounts, ['/x/y']), ['/x/y/z w', '/x/y']);
  });

  it("share with the machine's own Docker only how images are reached", () => {
    const config = join(folder, 'daemon.json');
    writeFileSync(config, '{"registry-mirrors":["http://m"],"hosts":["tcp://0.0.0.0:1"],"data-root":"/x"}');
    assert.deepEqual(sharedSettings(config), { 'registry-mirrors': ['http://m'] });
    // From 29.10 on, that takes loopback addresses out, unless it names them.
    writeFileSync(config, '{"insecure-registries":["registry.lan:5000","::1/128"]}');
    const insecure = ['registry.lan:5000', '::1/128', '127.0.0.0/8'];
    assert.deepEqual(sharedSettings(config), { 'insecure-registries': insecure });
    writeFileSync(config, 'not json');
    assert.deepEqual(sharedSettings(config), {});
  });
});

describe('finding Docker', () => {
  it('tries DOCKER_HOST alone when it is set, and tells what was wrong', async () => {
    const found = await searchDocker({ DOCKER_HOST: `unix://${folder}/none.sock` }, []);
    assert.equal(found.host, undefined);
    assert.equal(found.tried.length, 1);
    assert.match(found.tried[0]?.problem ?? '', /ENOENT/);
    assert.equal(await findDocker({ DOCKER_HOST: 'ssh://elsewhere' }), undefined);
  });

  it('passes over sockets that are absent, and over servers that are no Docker', async () => {
    const path = join(folder, 'other.sock');
    const server = createServer((socket) =>
      socket.resume().end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nOK'),
    );
    await new Promise<void>((resolve) => server.listen(path, resolve));
    try {
      const found = await searchDocker({}, [join(folder, 'absent.sock'), path]);
      assert.equal(found.host, undefined);
      assert.deepEqual(
        found.tried.map(({ host }) => host),
        [`unix://${path}`],
      );
      assert.match(found.tried[0]?.problem ?? '', /not a Docker Engine/);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it('says what is missing and how to get it', async () => {
    const env = { DOCKER_HOST: `unix://${folder}/none.sock` };
    const nothing = await doctorDocker(env, () => undefined);
    assert.deepEqual(
      nothing.map(({ name, ok }) => [name, ok]),
      [
        ['docker', false],
        ['mmdebstrap', false],
      ],
    );
    assert.ok(nothing.every(({ how }) => how !== undefined && how !== ''));
    const all = await doctorDocker(env, (program) => `/usr/bin/${program}`);
    assert.equal(all[1]?.ok, true);
    const without =
      (...names: string[]) =>
      (program: string) =>
        names.includes(program) ? undefined : `/usr/bin/${program}`;
    assert.deepEqual(missingBuilders(without('newuidmap'), true), []);
    assert.deepEqual(missingBuilders(without('newuidmap'), false), ['uidmap']);
    assert.deepEqual(missingBuilders(without('mmdebstrap', 'newuidmap'), false), ['mmdebstrap', 'uidmap']);
  });
});

describe('installing Docker', () => {
  /** A stand-in for apt-get: notes its arguments, says `says`, and ends with `code` on install. */
  const fakeApt = (name: string, says: string, code: number): { path: string; notes: string } => {
    const path = join(folder, name);
    const notes = `${path}.notes`;
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      path,
      `#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >> ${notes}\necho '${says}'\n[ "$1" = update ] || exit ${code}\n`,
    );
    chmodSync(path, 0o755);
    return { path, notes };
  };

  it('asks apt for what is needed, without questions, and passes its lines on', async () => {
    const apt = fakeApt('apt-good', 'Setting up docker.io (1) ...', 0);
    const lines: string[] = [];
    await installDocker({ aptGet: apt.path, onProgress: (line) => lines.push(line) });
    const [update, install] = readFileSync(apt.notes, 'utf8').split('\n');
    assert.equal(update, 'noninteractive update');
    assert.match(install ?? '', /^noninteractive install -y .*docker\.io mmdebstrap$/);
    assert.ok(lines.includes('Setting up docker.io (1) ...'));
  });

  it("fails with apt's own words", async () => {
    const apt = fakeApt('apt-bad', 'E: Unable to locate package docker.io', 100);
    await assert.rejects(installDocker({ aptGet: apt.path }), /E: Unable to locate package docker\.io/);
  });
});
