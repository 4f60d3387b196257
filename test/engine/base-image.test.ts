import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { quotedWord } from '../../lib/shell-word.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import { parseImageReference } from '../../transports/engines/common/image-reference.ts';
import { DockerClient } from '../../transports/engines/docker/api/client.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { hostAptSettings } from '../../transports/engines/docker/image/apt-sources.ts';
import { type BaseImage, debianBaseImage } from '../../transports/engines/docker/image/base-image.ts';
import { imagePresent } from '../../transports/engines/docker/image/images.ts';
import { findProgram } from '../../transports/engines/docker/run.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { dockerSkip, realRequired, silentLog, testDocker } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';
import { removeInstallation } from '../support/engine/remove-installation.ts';

const run = promisify(execFile);

function skip(): string | false {
  if (realRequired) return false;
  if (process.env.TROUPE_TEST_SLOW !== '1') return 'builds a Debian system: set TROUPE_TEST_SLOW=1';
  return findProgram('mmdebstrap') === undefined ? 'missing: mmdebstrap' : dockerSkip();
}

/** Our temporary folders of builds that are there now. */
function buildFolders(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith('troupe-base-'));
}

describe('the Debian base image', { skip: skip() }, () => {
  let docker: { host: string; end: () => Promise<void> };
  let client: DockerClient;
  let engine: Engine;
  let folder: string;
  const installation = `base-${process.pid}`;

  before(async () => {
    docker = await testDocker();
    client = new DockerClient(docker.host);
    engine = await dockerEngine({ host: docker.host, installation, log: silentLog });
    folder = mkdtempSync(join(tmpdir(), 'troupe-key-'));
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'key')]);
  });
  after(async () => {
    await engine.close();
    await removeInstallation(docker.host, installation);
    client.close();
    await docker.end();
    rmSync(folder, { recursive: true });
  });

  const present = (image: BaseImage): Promise<boolean> => imagePresent(client, parseImageReference(image.reference));

  it('leaves nothing behind when its build fails or is given up', async () => {
    const settings = { mirror: 'http://127.0.0.1:9/debian', securityMirror: undefined, build: [], inside: [] };
    const broken = await debianBaseImage(settings);
    const before = buildFolders();
    await assert.rejects(
      broken.build(client, () => undefined, new AbortController().signal),
      /cannot be built: E: /,
    );
    assert.equal(await present(broken), false);

    const given = await debianBaseImage({
      ...(await hostAptSettings()),
      inside: [`// ${process.pid}`],
    });
    const stop = new AbortController();
    const steps: string[] = [];
    const building = given.build(
      client,
      (line) => {
        steps.push(line);
        stop.abort();
      },
      stop.signal,
    );
    await rejectsWith(building, 'unavailable');
    assert.ok(steps.length > 0);
    assert.equal(await present(given), false);
    assert.deepEqual(buildFolders(), before);
  });

  it('lets its owner in by key, and has what a person expects', { timeout: 900_000 }, async () => {
    const lines: string[] = [];
    await Promise.all([
      engine.ensureImage(engine.baseImage, { always: false, onProgress: (line) => lines.push(line) }),
      engine.ensureImage(engine.baseImage, { always: false }),
    ]);
    if (lines.length > 0) assert.match(lines.at(-1) ?? '', /^100%/);
    const key = readFileSync(join(folder, 'key.pub'), 'utf8');
    const spec = {
      id: 'deb',
      userId: 'u1',
      hostname: 'box',
      image: engine.baseImage,
      cpus: 2,
      memoryMb: 512,
      storageGb: 1,
      mountPaths: ['/root'],
      authorizedKeys: [key],
    };
    await engine.create(spec);
    await engine.start('deb', [key]);
    await eventually(async () => (await engine.dial('deb', 22, { timeoutMs: 2000 })).destroy());
    const address = (await engine.inspect('deb'))?.address ?? '';
    const options = [
      'StrictHostKeyChecking=no',
      'UserKnownHostsFile=/dev/null',
      'LogLevel=ERROR',
      'IdentitiesOnly=yes',
    ];
    const common = ['-F', 'none', '-i', join(folder, 'key'), ...options.flatMap((option) => ['-o', option])];
    const env = { PATH: process.env.PATH, LANG: 'xx_XX.UTF-8', TERM: 'xterm-unheard-of' };
    const ssh = async (command: string, ...more: string[]): Promise<string> =>
      (await run('ssh', [...common, ...more, `root@${address}`, command], { env })).stdout.trim();

    assert.equal(await ssh('hostname; whoami; stat -c %a /root'), 'box\nroot\n700');
    assert.equal(await ssh('echo $LANG', '-o', 'SendEnv=LANG'), 'C.UTF-8');
    assert.match(await ssh('test -t 0 && bash -ic "echo $TERM"', '-tt'), /xterm-256color/);
    assert.match(await ssh('ping -c 1 -W 2 127.0.0.1'), / 0% packet loss/);
    assert.equal(await ssh('for p in curl less nano vi ps ip sftp; do command -v $p > /dev/null || echo $p; done'), '');
    await ssh(`mkdir site; printf '%9000s' x > site/index.html; PORT=8080 setsid troupe-serve site > served 2>&1 &`);
    const asked = '--retry 20 --retry-connrefused -s -o /dev/null -H "Accept-Encoding: br"';
    const encoding = await ssh(`curl ${asked} -w '%header{content-encoding}' http://127.0.0.1:8080/; cat served`);
    assert.equal(encoding, 'br');
    await ssh('apt-get update && apt-get install -y tree');
    assert.match(await ssh('tree --version'), /^tree v/);
    await rejectsLogin(run('ssh', [...common, '-o', 'PubkeyAuthentication=no', `root@${address}`, 'true'], { env }));

    const batch = join(folder, 'batch');
    await run('sh', ['-c', `printf 'put %s /root/kept\\n' ${join(folder, 'key.pub')} > ${batch}`]);
    await run('sftp', [...common, '-b', batch, `root@${address}`], { env });
    const hostKey = await ssh('cat /etc/ssh/ssh_host_ed25519_key.pub');

    await engine.stop('deb', 10);
    assert.equal((await engine.inspect('deb'))?.exitCode, 0);
    await engine.start('deb', [key]);
    await eventually(async () => (await engine.dial('deb', 22, { timeoutMs: 2000 })).destroy());
    assert.equal(await ssh('cat /root/kept'), key.trim());
    assert.equal(await ssh('cat /etc/ssh/ssh_host_ed25519_key.pub'), hostKey);
    assert.match(await ssh('tree --version'), /^tree v/);

    // A program of its owner's starts with it, prints to its log, and is told to end.
    const program = `#!/bin/sh\ntrap 'echo told > /root/end; exit' TERM\necho begun\nwhile :; do sleep 0.1; done\n`;
    await ssh(`mkdir -p .troupe; printf %s ${quotedWord(program)} > .troupe/start; chmod +x .troupe/start`);
    await engine.stop('deb', 10);
    await engine.start('deb', [key]);
    const log: string[] = [];
    const reading = new AbortController();
    for await (const lines of engine.logs('deb', { follow: true, tail: 100, signal: reading.signal })) {
      log.push(...lines);
      if (log.some((line) => line.endsWith(' begun'))) break;
    }
    reading.abort();
    await eventually(async () => (await engine.dial('deb', 22, { timeoutMs: 2000 })).destroy());
    await engine.stop('deb', 10);
    assert.equal((await engine.inspect('deb'))?.exitCode, 0);
    await engine.start('deb', [key]);
    await eventually(async () => (await engine.dial('deb', 22, { timeoutMs: 2000 })).destroy());
    assert.equal(await ssh('cat end'), 'told');
  });
});

async function rejectsLogin(login: Promise<unknown>): Promise<void> {
  await assert.rejects(login, /Permission denied \(publickey\)/);
}
