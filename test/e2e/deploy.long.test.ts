/** A folder becomes an app with an address: `troupe deploy` and `git push`, on a real platform and an image of its catalog. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { Agent, get } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { findProgram } from '../../transports/engines/docker/run.ts';
import { generateKeyPair } from '../../transports/ssh/keys.ts';
import {
  deleteAll,
  type Finished,
  type RunningPlatform,
  startPlatform,
  troupe,
  troupeCommand,
} from '../support/cluster/platform.ts';
import { dockerSkip, realRequired } from '../support/engine/docker-under-test.ts';
import { finish } from '../support/ssh/gateway.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

function skip(): string | false {
  if (realRequired) return false;
  if (process.env.TROUPE_TEST_SLOW !== '1') return 'builds a Debian system: set TROUPE_TEST_SLOW=1';
  const missing = ['mmdebstrap', 'git', 'ssh'].find((name) => findProgram(name) === undefined);
  return missing === undefined ? dockerSkip() : `missing: ${missing}`;
}

const server = (words: string, { port = 'process.env.PORT', on = '0.0.0.0' } = {}) =>
  `require('node:http').createServer((_, reply) => reply.end('${words} ' + process.env.KEY)).listen(${port}, '${on}');`;

const deployed = z.object({ container_id: z.string(), name: z.literal('shop'), release: z.int(), url: z.url() });

describe('an app from a folder', { skip: skip(), timeout: 1_500_000 }, () => {
  const ends: (() => unknown)[] = [];
  let platform: RunningPlatform;
  let folder = '';
  let data = '';
  let env: Record<string, string> = {};

  const run = (words: readonly string[], input = ''): Promise<Finished> => troupe(words, { env, input });
  const ok = async (words: readonly string[], input = ''): Promise<Finished> => {
    const finished = await run(words, input);
    assert.equal(finished.code, 0, `${words.join(' ')}\n${finished.stdout}${finished.stderr}`);
    return finished;
  };
  const put = (name: string, content: string) => writeFile(join(folder, name), content);
  const deploy = async (...more: string[]) =>
    deployed.parse(JSON.parse((await ok(['deploy', folder, '--json', '--timeout', '1400', ...more])).stdout));
  /** The page of an address, over HTTPS with the platform's authority. */
  const page = async (url: string): Promise<string> => {
    const { hostname, port, pathname } = new URL(url);
    const agent = new Agent({ ca: await readFile(join(data, 'ca.pem')), servername: hostname });
    const reply = new Promise<string>((resolve, reject) => {
      const headers = { host: `${hostname}:${port}` };
      get({ host: '127.0.0.1', port, path: pathname, agent, headers }, (answer) => resolve(text(answer))).on(
        'error',
        reject,
      );
    });
    try {
      return await reply;
    } finally {
      agent.destroy();
    }
  };
  /** Waits until it is so: gateways hear within a second that what they keep is old. */
  const shows = (url: string, wanted: string, timeoutMs = 10_000): Promise<boolean> =>
    until(async () => (await page(url).catch(() => '')) === wanted, { what: `the page is: ${wanted}`, timeoutMs });
  const login = async () => {
    const { password } = platform.ready.admin;
    const words = ['login', platform.ready.urls.https, '--ca', join(data, 'ca.pem'), '--profile', 'deploy'];
    await ok([...words, '--user', 'admin', '--password-stdin'], `${password ?? env.PASSWORD}\n`);
  };

  before(async () => {
    const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
    [data, folder] = [await tempDir(cleanup), join(await tempDir(cleanup), 'shop')];
    await mkdir(folder);
    env = { XDG_CONFIG_HOME: join(data, 'config'), TROUPE_PROFILE: 'deploy', TROUPE_URL: '', TROUPE_TOKEN: '' };
    platform = await startPlatform({ data });
    cleanup.after(() => platform.stop());
    env.PASSWORD = platform.ready.admin.password ?? '';
    await login();
    const pair = generateKeyPair('laptop');
    await writeFile(join(data, 'key'), pair.privateKey, { mode: 0o600 });
    await ok(['key', 'add', '-', '--login'], pair.publicKey);
  });
  after(async () => {
    const { stdout } = await run(['token']);
    await deleteAll(platform.ready.urls.compute, stdout.trim());
    for (const end of ends) await end();
  });

  test('is built, runs, and is reached over HTTPS', async () => {
    await put('package.json', '{"name":"shop","scripts":{"start":"node server.js","build":"echo yes > built.txt"}}');
    await put('server.js', server('one'));
    await put('.env', 'KEY=canary-of-deploy\n');
    const { stdout, stderr } = await ok(['deploy', folder, '--timeout', '1400']);
    assert.match(stderr, /Left here, as they look like secrets: \.env\./);
    assert.match(
      stderr,
      /Building: npm install [^\n]*; npm run build\n[\s\S]*Starting release 1\.\nshop runs release 1\./,
    );
    // The gateway hears of the port within seconds.
    await shows(stdout.trim(), 'one undefined');
    assert.match((await ok(['show', 'shop'])).stdout, /\ncache\texplicit\n/);
    assert.equal((await ok(['exec', 'shop', '--', 'cat /root/app/current/app/built.txt'])).stdout, 'yes\n');
    assert.equal((await run(['exec', 'shop', '--', 'cat /root/app/current/app/.env'])).code, 1);
  });

  test('takes changes and secrets, and goes back', async () => {
    await put('server.js', server('two'));
    const migrate = 'echo "$PORT" >> /root/migrated';
    const second = await deploy('--note', 'louder', '--release', migrate);
    assert.equal(second.release, 2);
    assert.equal((await ok(['exec', 'shop', '--', 'cat /root/migrated'])).stdout, '8080\n');
    await shows(second.url, 'two undefined');
    await ok(['env', 'secret', 'shop', '--file', join(folder, '.env'), '--json']);
    await shows(second.url, 'two canary-of-deploy', 60_000);
    await ok(['rollback', 'shop']);
    await shows(second.url, 'one canary-of-deploy');
    const listed = await ok(['releases', 'shop', '--json']);
    assert.ok(!listed.stdout.includes('canary'));
    const { releases } = z
      .object({ releases: z.array(z.object({ release: z.int(), current: z.boolean(), note: z.string() })) })
      .parse(JSON.parse(listed.stdout));
    assert.deepEqual(
      releases.map(({ release, current, note }) => [release, current, note]),
      [
        [1, true, ''],
        [2, false, 'louder'],
      ],
    );
  });

  test('stays as it is when a change is not well', async () => {
    const { stdout } = await ok(['open', 'shop']);
    await put('server.js', server('deaf', { on: '127.0.0.1' }));
    const failed = await run(['deploy', folder, '--grace', '5']);
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /node listens on 127\.0\.0\.1:8080\n/);
    assert.match(failed.stderr, /Release 1 runs again\.[\s\S]*troupe: shop is not changed: see above\.\n$/);
    await put('server.js', 'console.error("no DATABASE_URL"); process.exit(3)');
    const crashed = await run(['deploy', folder]);
    assert.match(crashed.stderr, /ended with exit code 3\.[\s\S]*The end of its log:[\s\S]*no DATABASE_URL/);
    await put('server.js', '');
    const ended = await run(['deploy', folder, '--grace', '3']);
    assert.match(ended.stderr, /it must stay in the foreground\.[\s\S]*The end of its log:/);
    assert.ok(!ended.stderr.includes('DATABASE_URL'), 'what another release said is not told of this one');
    const broken = await run(['deploy', folder, '--build', 'false']);
    assert.equal(broken.code, 1);
    assert.match(broken.stderr, /The build failed with exit code 1\./);
    await shows(stdout.trim(), 'one canary-of-deploy');
  });

  test('goes on when the platform is killed in the middle', async () => {
    await put('server.js', server('three'));
    const words = ['deploy', folder, '--start', 'sleep 6; exec node server.js', '--grace', '60'];
    const [program = '', ...args] = troupeCommand(words);
    const command = spawn(program, args, { env: { ...process.env, ...env }, stdio: 'ignore' });
    ends.unshift(() => command.kill('SIGKILL'));
    const pending = () => run(['exec', 'shop', '--', 'test -e /root/app/pending']);
    await until(async () => (await pending()).code === 0, { what: 'the switch has begun', timeoutMs: 60_000 });
    await platform.kill();
    platform = await startPlatform({ data });
    // It would wait for the platform, which has other ports now.
    command.kill('SIGKILL');
    await login();
    const { stdout } = await ok(['open', 'shop']);
    await until(async () => (await page(stdout.trim()).catch(() => '')) === 'three canary-of-deploy', {
      what: 'the release came up without its command',
      timeoutMs: 60_000,
    });
  });

  test('comes by git push, with the SSH key alone', async () => {
    const { host, port } = platform.ready.ssh;
    const own = `-F none -i ${join(data, 'key')} -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no`;
    const git = (...words: string[]) => {
      const all = ['-c', 'user.name=ann', '-c', 'user.email=ann@cloud.test', '-C', folder, ...words];
      const ssh = `ssh ${own} -o UserKnownHostsFile=${join(data, 'known_hosts')}`;
      return finish(spawn('git', all, { env: { ...process.env, GIT_SSH_COMMAND: ssh, HOME: data } }));
    };
    const to = (name: string) => `ssh://admin@${host}:${port}/${name}`;
    await git('init', '-q', '-b', 'main');
    await put('.gitignore', '.env\n');
    await put('server.js', server('pushed'));
    await git('add', '-A');
    await git('commit', '-q', '-m', 'First by git');
    const stored = await git('push', to('shop.git'), 'main:feature');
    assert.equal(stored.code, 0, stored.stderr);
    assert.match(stored.stderr, /feature is stored, and not deployed: push to main or master\./);
    const pushed = await git('push', to('shop.git'), 'main');
    assert.equal(pushed.code, 0, pushed.stderr);
    const [, url = ''] = /shop runs release \d+: (https:\S+)/.exec(pushed.stderr) ?? [];
    await shows(url, 'pushed canary-of-deploy');
    assert.match((await git('push', to('shop.git'), 'main')).stderr, /Nothing new came: shop runs the newest commit/);

    await put('server.js', 'process.exit(4)');
    await git('commit', '-q', '-a', '-m', 'Broken');
    const failed = await git('push', to('shop'), 'main');
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /The program ended with exit code 4\.\n[\s\S]*error: failed to push some refs/);
    await shows(url, 'pushed canary-of-deploy');
    assert.match((await ok(['releases', 'shop'])).stdout, /\*\t\S+\t[0-9a-f]{8} First by git\t\d+\n$/);

    const other = await git('push', to('shop'), 'main:other');
    assert.equal(other.code, 0, 'the broken commit of main is not tried again');
    assert.equal((await git('push', to('shop'), 'main')).code, 1, 'it is tried again');
    assert.match((await git('push', to('nothing'), 'main')).stderr, /There is no container nothing\. Make it first: /);
    assert.equal((await git('clone', '-q', to('shop'), join(data, 'clone'))).code, 0);
    assert.equal(await readFile(join(data, 'clone', 'server.js'), 'utf8'), 'process.exit(4)');
  });

  test('on another port, says what to type so that the ports lead there', async () => {
    await put('server.js', server('moved'));
    const { stdout, stderr } = await ok(['deploy', folder, '--port', '9090']);
    const [hint = '', ...commands] = stderr.trimEnd().split('\n').slice(-5);
    assert.deepEqual([stdout, hint], ['', 'No port leads to 9090. These lead there:']);
    for (const command of commands) await ok(command.trim().split(' ').slice(1));
    const { stdout: address } = await ok(['open', 'shop']);
    await until(async () => (await page(address.trim()).catch(() => '')) === 'moved canary-of-deploy', {
      what: 'the address leads to the other port',
    });
  });

  test('reaches what is asked for from its making on, and keeps it', async () => {
    const bring = (...more: string[]) => ok(['deploy', folder, '--name', 'shut', '--timeout', '1400', ...more]);
    const reach = async (name: string) =>
      z.object({ egress: z.unknown().optional() }).parse(JSON.parse((await ok(['show', name, '--json'])).stdout))
        .egress;
    await bring('--image', 'node', '--build', '', '--egress', '203.0.113.0/24,198.51.100.7');
    assert.deepEqual(await reach('shut'), ['198.51.100.7/32', '203.0.113.0/24']);
    await bring('--build', '');
    assert.deepEqual(await reach('shut'), ['198.51.100.7/32', '203.0.113.0/24']);
    await put('troupe.toml', 'egress = "none"\n');
    await bring('--build', '');
    assert.equal(await reach('shut'), 'none');
    await bring('--build', '', '--egress', 'any');
    assert.equal(await reach('shut'), undefined);
    await put('troupe.toml', '');
    await ok(['rm', 'shut', '--yes']);
    const { code, stderr } = await run(['deploy', folder, '--name', 'shut', '--egress', 'inside']);
    assert.equal(code, 2, stderr);
    assert.match(stderr, /egress/);
  });

  test('at a readable address, if it is asked for, and refuses another access than the ports have', async () => {
    const { url } = await deploy('--port', '9090', '--address', 'our-shop');
    assert.match(new URL(url).host, /^our-shop\.compute\./);
    await until(async () => (await page(url).catch(() => '')) === 'moved canary-of-deploy', { what: 'it is there' });
    const { code, stderr } = await run(['deploy', folder, '--access', 'mine']);
    assert.equal(code, 6);
    assert.match(stderr, /Port \d+ of shop is open to others, .*`troupe port rm shop \d+` closes it/);
  });

  test('of pages alone is served without its dot files, and says what stays at home', async () => {
    const site = join(await tempDir({ after: (end) => void ends.unshift(end) }), 'site');
    await mkdir(join(site, 'data'), { recursive: true });
    for (const [name, text] of [
      ['index.html', 'pages'],
      ['.hidden', 'canary'],
      ['.gitignore', 'data\n'],
      ['data/db', 'canary'],
      ['secrets.env', 'KEY=canary'],
    ] as const)
      await writeFile(join(site, name), text);
    await symlink('../lib', join(site, 'shared'));
    const { stdout, stderr } = await ok(['deploy', site, '--name', 'shop', '--port', '9090']);
    for (const line of ['secrets: secrets.env', 'the folder: shared -> ../lib', 'ignores them: data'])
      assert.ok(stderr.includes(line), stderr);
    const url = stdout.trim();
    await shows(url, 'pages');
    for (const path of ['.hidden', 'data/db.js', 'secrets.env'])
      assert.match(await page(new URL(path, url).href), /404/);
  });
});
