/**
 * `npm run test:dockers [-- RELEASE...]` runs the engine's tests on the Docker Engine of other Debian releases: 26.1 of
 * trixie, and what sid has. Each comes from its Debian package into a temporary folder, runs there as a dockerd of its
 * own, and keeps images in the way of that engine's default, and then in containerd, as new installations of Docker 29
 * do. runc is that of this machine. `--files=PATTERN` runs other files. Takes root, and two to four minutes each.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const RELEASES = ['trixie', 'sid'];
const PACKAGES = ['docker.io', 'containerd'];
const MIRROR = process.env.DEBIAN_MIRROR ?? 'http://deb.debian.org/debian';
const ANSWER_MS = 60_000;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { files: { type: 'string', default: 'test/engine/docker' } },
});

for (const release of positionals.length > 0 ? positionals : RELEASES) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-dockers-'));
  try {
    const programs = unpack(release, folder);
    for (const isContainerd of [false, true])
      await testOn(release, programs, join(folder, String(isContainerd)), isContainerd);
  } finally {
    rmSync(folder, { recursive: true, maxRetries: 5 });
  }
}

/** Unpacks the release's packages below `folder`. Returns where their programs are. */
function unpack(release, folder) {
  for (const name of ['lists/partial', 'archives/partial', 'debs', 'root'])
    mkdirSync(join(folder, name), { recursive: true });
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  writeFileSync(join(folder, 'sources.list'), `deb [signed-by=${keys}] ${MIRROR} ${release} main\n`);
  const settings = {
    'Dir::Etc::SourceList': join(folder, 'sources.list'),
    'Dir::Etc::SourceParts': '-',
    'Dir::State::Lists': join(folder, 'lists'),
    'Dir::Cache': folder,
    'Acquire::Languages': 'none',
    'APT::Sandbox::User': 'root',
  };
  const options = Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`]);
  run('apt-get', ['-q', ...options, 'update']);
  run('apt-get', ['-q', ...options, 'download', ...PACKAGES], { cwd: join(folder, 'debs') });
  const debs = globSync('*.deb', { cwd: join(folder, 'debs') });
  for (const deb of debs) run('dpkg-deb', ['-x', join(folder, 'debs', deb), join(folder, 'root')]);
  return ['usr/sbin', 'usr/bin'].map((path) => join(folder, 'root', path)).join(':');
}

/** Runs the tests on a dockerd of these programs. What it keeps goes below `folder`. */
async function testOn(release, programs, folder, isContainerd) {
  mkdirSync(folder);
  const socket = join(folder, 'docker.sock');
  const config = { bridge: 'none', 'userland-proxy': false, features: { 'containerd-snapshotter': isContainerd } };
  writeFileSync(join(folder, 'daemon.json'), JSON.stringify(config));
  const places = { 'config-file': 'daemon.json', 'data-root': 'data', 'exec-root': 'exec', pidfile: 'pid' };
  const args = Object.entries(places).flatMap(([flag, name]) => [`--${flag}`, join(folder, name)]);
  const log = openSync(join(folder, 'log'), 'a');
  const env = { ...process.env, PATH: `${programs}:${process.env.PATH}` };
  const dockerd = spawn('dockerd', [...args, '--host', `unix://${socket}`], { env, stdio: ['ignore', log, log] });
  const ended = new Promise((resolve) => dockerd.once('exit', resolve));
  try {
    await answers(dockerd, socket, join(folder, 'log'));
    const version = run('curl', ['-sS', '--unix-socket', socket, 'http://docker/version'], { stdio: 'pipe' });
    const { Version, ApiVersion } = JSON.parse(version);
    const store = isContainerd ? 'containerd' : 'Docker';
    process.stdout.write(`\nDocker Engine ${Version} of ${release}, API ${ApiVersion}, images kept by ${store}\n`);
    const tests = [join(root, 'scripts/test/main.mjs'), values.files];
    const given = { ...process.env, DOCKER_HOST: `unix://${socket}`, TROUPE_TEST_REAL: 'required' };
    run(process.execPath, tests, { cwd: root, env: given }, true);
  } finally {
    dockerd.kill('SIGTERM');
    await ended;
  }
}

/** Waits until the dockerd has its socket. Throws with the end of its log when it ends. */
async function answers(dockerd, socket, log) {
  const end = Date.now() + ANSWER_MS;
  while (!existsSync(socket)) {
    if (dockerd.exitCode !== null || Date.now() > end) {
      throw new Error(`dockerd does not answer: ${readFileSync(log, 'utf8').trim().split('\n').slice(-3).join(' ')}`);
    }
    await delay(100);
  }
}

/** Runs it to its end, and returns what it printed. Throws when it fails, unless `isTold`: then this program fails in the end. */
function run(program, args, options = {}, isTold = false) {
  const { status, error, stdout } = spawnSync(program, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    encoding: 'utf8',
    ...options,
  });
  if (error) throw error;
  if (status !== 0 && !isTold) throw new Error(`${program} ${args.join(' ')} ended with ${status}`);
  if (status !== 0) process.exitCode = status ?? 1;
  return stdout;
}
