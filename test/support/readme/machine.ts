/** A fresh Debian for a test: Debian's smallest system, Node, a clone, a network and perhaps a Docker Engine of its own. Nothing of it is left. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, open, readFile, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { hostAptSettings } from '../../../transports/engines/docker/image/apt-sources.ts';
import { debianBaseImage } from '../../../transports/engines/docker/image/base-image.ts';
import { debianRecipe } from '../../../transports/engines/docker/image/debian-recipe.ts';
import { guard } from '../guard.ts';
import { projectRoot } from '../project.ts';
import { findProgram } from '../require.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';

const run = promisify(execFile);

/** What a machine is like. */
export interface MachineKind {
  /** Debian's release. */
  readonly debian: 12 | 13;
  /** Where its Node and npm are from: this machine, Debian's packages, or the registry, in that version. */
  readonly node: 'ours' | 'packaged' | '20.19';
  /** Who works there: root, or a member of the group `docker`. */
  readonly user: 'root' | 'member';
  /** Its Docker Engine, the program of this machine: with images of runs before, with none, or none is installed. */
  readonly docker: 'kept' | 'empty' | 'none';
}

/** The machine, and how to run something there. */
export interface FreshMachine {
  /** Starts a program as its user, in the folder of the clone, with the environment of a login. */
  spawn(program: string, ...args: string[]): ChildProcess;
  /** Runs a line of sh as root to its end, and resolves with what it printed. */
  asRoot(line: string): Promise<string>;
  /** Absolute path of its file system, from here. */
  readonly root: string;
}

/** Programs of this machine that it takes, besides being root. */
export const NEEDED = ['mmdebstrap', 'dockerd', 'pgrep', 'unshare', 'nsenter', 'ip', 'iptables', 'npm'] as const;

const SUITES = { 12: 'bookworm', 13: 'trixie' } as const;
const ROOT = {
  id: 0,
  name: 'root',
  home: '/root',
  path: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
};
const PERSON = { id: 1000, name: 'person', home: '/home/person', path: '/usr/local/bin:/usr/bin:/bin' };
const DOCKER_GROUP = 990;

/**
 * Makes it; the system and the packages are kept in a folder between runs. Ended, with all its processes, when `t` ends.
 */
export async function freshMachine(t: Cleanup, kind: MachineKind): Promise<FreshMachine> {
  const cache = join(process.env.TROUPE_TEST_CACHE || join(homedir(), '.cache', 'troupe'), 'readme');
  const folder = await mkdtemp(join(tmpdir(), 'troupe-readme-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const user = kind.user === 'root' ? ROOT : PERSON;
  // What is kept is one machine's at a time.
  const kept = (await isFirst(t, join(cache, 'in-use'))) ? cache : folder;
  // Addresses for tests of networks (RFC 2544): no other network uses them.
  const block = `198.18.${randomInt(256)}.`;
  const at = 4 * randomInt(64);
  const [ours, its] = [`${block}${at + 1}`, `${block}${at + 2}`];
  const name = `readme${randomInt(1_000_000)}`;
  const node = await nodeFor(kind, cache);
  const settings = {
    FOLDER: folder,
    SYSTEM: await debianSystem(cache, kind),
    DOCKER: { kept: join(kept, 'docker'), empty: join(folder, 'docker'), none: '' }[kind.docker],
    DOCKER_GROUP: String(kind.user === 'member' ? DOCKER_GROUP : 0),
    ARCHIVES: join(kept, `archives-${kind.debian}`),
    NPM_CACHE: user === ROOT ? join(homedir(), '.npm') : join(kept, 'npm'),
    CLONE: projectRoot,
    NODE: node?.program ?? '',
    NPM: node?.npm ?? '',
    PERSON: String(user.id),
    HOME_THERE: user.home,
    OURS: ours,
    ITS: its,
  };

  const script = join(projectRoot, 'test/support/readme/machine.sh');
  const isolated = ['--net', '--mount', '--pid', '--uts', '--ipc', '--fork', '--kill-child'];
  const child = spawn('unshare', [...isolated, 'bash', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...settings },
  });
  const ended = once(child, 'close');
  let inside = '';
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
    // The first process of its namespace goes last, after its Docker Engine with all that ran there.
    await until(async () => inside === '' || !existsSync(`/proc/${inside}`), {
      what: 'the end of the machine',
      timeoutMs: 60_000,
    });
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const heard = async (word: string) => {
    const { value } = await lines.next();
    if (value === word) return;
    const log = await readFile(join(folder, 'dockerd.log'), 'utf8').catch(() => '');
    throw new Error(`the machine ended before it was ${word}:\n${log.slice(-2000)}`);
  };
  await heard('namespaces');
  const { stdout } = await run('pgrep', ['-P', String(child.pid)]);
  inside = stdout.trim();
  await connect(t, name, inside, ours);
  child.stdin.write('go on\n');
  await heard('ready');

  // Seen from here: its file systems are mounted in its own namespace.
  const root = `/proc/${inside}/root`;
  if (kind.docker === 'kept') await bringBaseImage(`unix://${root}/run/docker.sock`);
  // Authorities of this machine that npm needs to reach its registry.
  const authorities = process.env.NODE_EXTRA_CA_CERTS;
  if (authorities) await copyFile(authorities, join(root, 'etc/ssl/machine.pem'));
  const wordsFor = ({ id, name, home, path }: typeof ROOT) => [
    ...['--target', inside, '--net', '--mount', '--pid', '--uts', '--ipc', '--'],
    ...['/usr/bin/setpriv', `--reuid=${id}`, `--regid=${id}`, `--groups=${id === 0 ? 0 : DOCKER_GROUP}`],
    ...['env', '-i', `HOME=${home}`, `USER=${name}`, `PATH=${path}`, 'TERM=dumb'],
    ...(authorities ? ['NODE_EXTRA_CA_CERTS=/etc/ssl/machine.pem'] : []),
  ];
  const inClone = ['sh', '-c', 'cd ~/troupe && exec "$@"', 'sh'];
  return {
    root,
    // A group of its own, as a command at a terminal has.
    spawn: (program, ...args) =>
      spawn('nsenter', [...wordsFor(user), ...inClone, program, ...args], {
        stdio: ['pipe', 'pipe', 'pipe'],
        detached: true,
      }),
    asRoot: async (line) =>
      (await run('nsenter', [...wordsFor(ROOT), 'sh', '-c', line], { maxBuffer: 16 << 20 })).stdout,
  };
}

/** The Node and npm that are copied into a machine; undefined where Debian's packages bring them. */
async function nodeFor({ node }: MachineKind, cache: string): Promise<{ program: string; npm: string } | undefined> {
  if (node === 'packaged') return undefined;
  if (node === 'ours') {
    const places = await run('sh', ['-c', 'command -v node; realpath "$(command -v npm)"']);
    const [program = '', npm = ''] = places.stdout.trim().split('\n');
    return { program, npm: dirname(dirname(npm)) };
  }
  const modules = join(cache, `node-${node}`, 'node_modules');
  const name = `node-linux-${process.arch}`;
  // The npm that this line of Node comes with.
  await run('npm', ['install', '--prefix', dirname(modules), '--prefer-offline', `${name}@${node}`, 'npm@10.8.2']);
  return { program: join(modules, name, 'bin/node'), npm: join(modules, 'npm') };
}

/** Debian's smallest system with apt, made from the sources of this machine, once for each set of them. */
async function debianSystem(cache: string, { debian, node }: MachineKind): Promise<string> {
  const recipe = await debianRecipe(await hostAptSettings());
  const suite = SUITES[debian];
  const sources = recipe.sources?.replaceAll(recipe.suite, suite);
  const packages = ['ca-certificates', ...(node === 'packaged' ? ['nodejs', 'npm'] : [])].join(',');
  const hash = createHash('sha256').update(`${suite}\n${packages}\n${sources}`).digest('hex').slice(0, 12);
  const place = join(cache, `debian-${hash}`);
  if (existsSync(place)) return place;
  await mkdir(cache, { recursive: true });
  const draft = await mkdtemp(join(cache, 'unfinished-'));
  try {
    const list = join(draft, 'sources.list');
    if (sources !== undefined) await writeFile(list, sources);
    const settings = join(draft, 'apt.conf');
    await writeFile(settings, `${recipe.buildSettings.join('\n')}\n`, { mode: 0o600 });
    await run(
      'mmdebstrap',
      [
        '--variant=minbase',
        `--include=${packages}`,
        '--format=directory',
        `--aptopt=${settings}`,
        suite,
        join(draft, 'system'),
      ].concat(sources === undefined ? [] : [list]),
      { maxBuffer: 16 << 20 },
    );
    // How this machine's apt fetches; without them its base image would be another than ours, and be built again.
    await writeFile(join(draft, 'system/etc/apt/apt.conf.d/99machine'), `${recipe.buildSettings.join('\n')}\n`);
    await rename(join(draft, 'system'), place);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return place;
}

/** Copies the base image from the tests' Docker Engine where that has it: building it anew is another test's. */
async function bringBaseImage(to: string): Promise<void> {
  const from = process.env.DOCKER_HOST;
  const { reference } = await debianBaseImage();
  if (!from || findProgram('docker') === undefined) return;
  const has = (host: string) =>
    run('docker', ['-H', host, 'image', 'inspect', reference]).then(
      () => true,
      () => false,
    );
  if ((await has(to)) || !(await has(from))) return;
  await run('sh', ['-c', 'docker -H "$1" save "$3" | docker -H "$2" load', 'sh', from, to, reference]);
}

/** Whether nobody else uses the cached Docker Engine; then it is ours until `t` ends. */
async function isFirst(t: Cleanup, file: string): Promise<boolean> {
  const holder = await readFile(file, 'utf8').catch(() => undefined);
  if (holder !== undefined && existsSync(`/proc/${holder}`)) return false;
  await unlink(file).catch(() => {});
  try {
    const handle = await open(file, 'wx');
    await handle.writeFile(String(process.pid));
    await handle.close();
  } catch {
    return false;
  }
  t.after(() => rm(file, { force: true }));
  return true;
}

/** Gives the machine a network behind an address of this one's. */
async function connect(t: Cleanup, name: string, inside: string, ours: string): Promise<void> {
  await run('ip', ['link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', inside]);
  const rules = [
    ['-t', 'nat', 'POSTROUTING', '-s', `${ours}/30`, '!', '-o', name, '-j', 'MASQUERADE'],
    ['-t', 'filter', 'FORWARD', '-i', name, '-j', 'ACCEPT'],
    ['-t', 'filter', 'FORWARD', '-o', name, '-j', 'ACCEPT'],
  ].map(([flag = '', table = '', chain = '', ...rest]) => ({ table: [flag, table], chain, rest }));
  const undo = rules.map(({ table, chain, rest }) => ['iptables', '-w', ...table, '-D', chain, ...rest]);
  const endGuard = guard(undo.map((command) => `${command.map((word) => `'${word}'`).join(' ')} 2>/dev/null`));
  t.after(async () => {
    for (const [program = '', ...args] of undo) await run(program, args).catch(() => {});
    endGuard();
  });
  await run('ip', ['addr', 'add', `${ours}/30`, 'dev', name]);
  await run('ip', ['link', 'set', name, 'up']);
  for (const { table, chain, rest } of rules) await run('iptables', ['-w', ...table, '-I', chain, ...rest]);
  await writeFile('/proc/sys/net/ipv4/ip_forward', '1');
}
