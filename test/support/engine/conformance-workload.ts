import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Engine, Workload } from '../../../proto/ports/engine.ts';
import { INIT } from '../../../transports/engines/common/workload.ts';
import { keys, type SeenWorkload, type Suite } from './conformance-suite.ts';
import { eventually } from './eventually.ts';

const never = new AbortController().signal;
const SLEEPER = ['sh', '-c', 'while :; do sleep 1; done'];
const SECRET = 'canary-7f3a9c';

/** What workloads of this container see, from the kernel: what the engine's init began, or is. */
export async function seenFromInside(engine: Engine, id: string): Promise<SeenWorkload> {
  const script = `w=1; case "$(cat /proc/1/comm)" in troupe-init) ;; *init*|tini) for d in /proc/[0-9]*; do
    [ "$(sed -n 's/^PPid:[[:space:]]*//p' "$d/status" 2>/dev/null)" = 1 ] && w=\${d#/proc/}; done;; esac
    cat /proc/$w/environ; printf '\\001'; cat /proc/$w/cmdline; printf '\\001'; readlink /proc/$w/cwd`;
  const [environ = '', words = '', folder = ''] = (await said(engine, id, ['sh', '-c', script])).split('\u0001');
  const entries = environ.split('\0').flatMap((line) => {
    const at = line.indexOf('=');
    return at < 1 ? [] : [[line.slice(0, at), line.slice(at + 1)]];
  });
  return { env: Object.fromEntries(entries), words: givenWords(words.split('\0').slice(0, -1)), folder: folder.trim() };
}

/** The words of what was asked for: the image of the tests runs a command beside its SSH server, as its argument. */
function givenWords(words: readonly string[]): readonly string[] {
  return words.length > 2 && words[1] === INIT ? words.slice(2) : words;
}

async function said(engine: Engine, id: string, command: readonly string[]): Promise<string> {
  const running = await engine.run(id, command, never);
  const chunks: Buffer[] = [];
  running.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  running.stderr.resume();
  await running.ended;
  return Buffer.concat(chunks).toString();
}

/** What an engine promises of workloads with settings. */
export function workloadConformance(suite: () => Suite): void {
  const launch = async (workload: Workload, change: object = {}): Promise<string> => {
    const { engine } = suite();
    const spec = suite().spec({ isConfigured: true, ...change });
    await engine.create(spec);
    await engine.start(spec.id, keys, workload);
    return spec.id;
  };
  /** Waits until the workload is what was asked for: a shell becomes it first. */
  const sees = async (id: string, check: (seen: SeenWorkload) => void): Promise<void> =>
    eventually(async () => check(await suite().under.seen(id)));

  it('gives a workload its variables, which are in no description of it', async () => {
    const { engine, under } = suite();
    const env = {
      PLAIN: 'a b',
      QUOTES: `it's "$HOME" \`x\` \\`,
      LINES: 'one\ntwo\n',
      WIDE: 'ä€😀',
      EMPTY: '',
      KEY: SECRET,
    };
    const id = await launch({ env, command: SLEEPER });
    await sees(id, (seen) => {
      for (const [name, value] of Object.entries(env)) assert.equal(seen.env[name], value, name);
      assert.deepEqual(seen.words, SLEEPER);
    });
    await suite().answers(id);
    assert.ok(!(await under.description(id)).includes(SECRET));
    assert.equal(await said(engine, id, ['sh', '-c', 'echo $PLAIN']), under.runsScripts ? 'a b\n' : '$PLAIN\n');
    await engine.remove(id);
  });

  it('starts a workload with other settings, and with all its files', async () => {
    const { engine, under } = suite();
    const id = await launch({ env: { FIRST: '1', BOTH: '1' }, command: SLEEPER });
    await sees(id, ({ env }) => assert.equal(env.FIRST, '1'));
    for (const path of ['/root/kept', '/opt/installed']) await under.writeFile(id, path, path);
    await engine.stop(id, 1);
    await engine.create(suite().again({ id, isConfigured: true }));
    await engine.start(id, keys, { env: { BOTH: '2' }, command: SLEEPER });
    await sees(id, ({ env }) => assert.deepEqual([env.FIRST, env.BOTH], [undefined, '2']));
    assert.equal(await under.readFile(id, '/root/kept'), '/root/kept');
    if (engine.keepsFiles) assert.equal(await under.readFile(id, '/opt/installed'), '/opt/installed');
    await engine.remove(id);
  });

  it('gives settings to a container that had none, and takes them away, with all its files', async () => {
    const { engine, under } = suite();
    const id = await suite().started();
    const before = await under.seen(id);
    for (const path of ['/root/kept', '/opt/installed']) await under.writeFile(id, path, path);
    await engine.stop(id, 1);
    await engine.create(suite().again({ id, isConfigured: true }));
    await engine.start(id, keys, { env: { LATER: 'yes' }, command: SLEEPER });
    await sees(id, ({ env, words }) => assert.deepEqual([env.LATER, words], ['yes', SLEEPER]));
    await suite().answers(id);
    if (engine.keepsFiles) assert.equal(await under.readFile(id, '/opt/installed'), '/opt/installed');
    await engine.stop(id, 1);
    await engine.create(suite().again({ id }));
    await engine.start(id, keys, { env: {} });
    await suite().answers(id);
    await sees(id, ({ env, words }) => assert.deepEqual([env.LATER, words], [undefined, before.words]));
    assert.equal(await under.readFile(id, '/root/kept'), '/root/kept');
    await engine.remove(id);
  });

  it('runs an entrypoint and a command in a folder, by the rules of images', async () => {
    const { engine } = suite();
    const entrypoint = ['sh', '-c', 'while :; do sleep 1; done', "it's", '$(PLAIN)'];
    const id = await launch({ env: { PLAIN: 'x' }, entrypoint, workingDir: '/srv/new one' });
    await sees(id, (seen) => assert.deepEqual([seen.words, seen.folder], [entrypoint, '/srv/new one']));
    await engine.stop(id, 1);
    await engine.start(id, keys, { env: {}, entrypoint, command: ['$$', 'last'] });
    await sees(id, ({ words }) => assert.deepEqual(words, [...entrypoint, '$$', 'last']));
    await engine.remove(id);
  });
}
