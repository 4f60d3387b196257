/** The commands of README, the first guide and that to the HTTP API, pasted as they stand into a fresh Debian. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { blocksOf } from '../support/readme/blocks.ts';
import { freshMachine, NEEDED } from '../support/readme/machine.ts';
import { startPlatform, stopPlatform } from '../support/readme/platform.ts';
import { skipUnless, skipWithout } from '../support/require.ts';
import { until } from '../support/until.ts';

/** The guide begins anew with a container of the same name, on the platform that runs. Its page is looked at then. */
const guide = [
  './bin/troupe rm first --yes\n',
  ...blocksOf('docs/guide/first-app.md').filter((block) => !block.includes('npm start')),
  'curl -sf --retry 30 --retry-delay 1 --retry-all-errors "$(./bin/troupe open first)" # the page of the guide\n',
];
const pasted = [
  ...[...blocksOf('README.md'), ...blocksOf('docs/guide/http-api.md')].filter(
    (block) => !/npm (start|test)/.test(block),
  ),
  ...guide,
];
/** Where the shell's output stands in the machine, for what waits for some of it. */
const SAID = '/root/said';

const options = {
  skip: skipWithout(...NEEDED) || skipUnless(process.getuid?.() === 0, 'a machine of its own takes root'),
  timeout: 900_000,
};

/** What a person types into a block that asks: a password, or words for a terminal. */
function typedInto(block: string, at: number, password: string): string {
  if (block.includes('PASSWORD') && block.startsWith('read ')) return `echo '${password}'`;
  // What this block says, not one before it.
  const own = `sed -n '/^@@ block ${at}$/,$p' ${SAID}`;
  const once = (shown: string) => `until ${own} | grep -qF '${shown}'; do sleep 1; done`;
  // `script` waits busily for a command whose input has ended.
  if (block.includes('troupe login')) return `${once('Password of admin: ')}; echo '${password}'; sleep 20`;
  if (block.includes('--shell')) return `${once('[Y/n]')}; echo; ${once('~? lists')}; echo 'uname -n; exit'; sleep 20`;
  if (/^ssh .*@127\.0\.0\.1$/m.test(block)) return 'echo uname -n; echo exit';
  // Typed until the terminal has ended: what is typed before it is connected is lost.
  if (block.includes('/terminal?')) return 'while echo "uname -n; exit"; do sleep 1; done 2>/dev/null';
  // wscat listens until its input ends: here, when it has printed one. In curl's list a comma stands between two.
  if (block.includes('/ws/notifications'))
    return `until grep -qE '(^|[]}])\\{"id":.*Container started' ${SAID}; do sleep 1; done`;
  return 'true';
}

test(
  'the blocks, from npm start to the host name of a container, work as they stand in a fresh Debian 12',
  options,
  async (t) => {
    const machine = await freshMachine(t, { debian: 12, node: 'ours', user: 'root', docker: 'kept' });
    const platform = await startPlatform(machine);
    const { password } = platform;

    // One shell for all of them, in which a failing command is told of, and each has what is typed into it.
    const script = ['set -o pipefail', 'trap \'echo "@@ failed: $BASH_COMMAND"\' ERR'];
    for (const [at, block] of pasted.entries()) {
      await writeFile(join(machine.root, `root/block-${at}`), block);
      // Some ask at a terminal, which `script` makes.
      const isAtTerminal = /troupe login|--shell/.test(block);
      const pasting = isAtTerminal ? `script -qec 'bash /root/block-${at}' /dev/null` : `. /root/block-${at}`;
      script.push(`echo "@@ block ${at}"`, `${pasting} < <(${typedInto(block, at, password)})`);
    }
    script.push('echo "@@ end"', 'echo "@@ id $ID"');
    await writeFile(join(machine.root, 'root/pasted'), script.join('\n'));
    const shell = machine.spawn('bash', '-c', `bash /root/pasted 2>&1 | tee ${SAID}`);
    shell.stdin?.end();
    let said = '';
    let isDone = false;
    shell.once('close', () => {
      isDone = true;
    });
    for (const stream of [shell.stdout, shell.stderr]) stream?.on('data', (chunk: Buffer) => (said += chunk));
    await until(async () => isDone, { what: 'all blocks', timeoutMs: 240_000 }).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${said.slice(-3000)}`);
    });
    assert.doesNotMatch(said, /@@ failed/, said);
    assert.match(said, /@@ end/, said);
    const output = (word: string) => {
      const at = pasted.findIndex((block) => block.includes(word));
      return said.split(`@@ block ${at}\n`)[1]?.split('@@ ')[0] ?? '';
    };
    const id = /@@ id ([a-z0-9]{12})/.exec(said)?.[1] ?? 'no id';
    assert.match(
      output('--shell'),
      /uname -n; exit[\s\S]*?[a-z0-9]{12}\.compute\.troupe\.localhost\s/,
      'a shell of the first container',
    );
    assert.match(output('exec first -- uname'), /^first\t.*running/m);
    assert.match(output('exec first -- uname'), /^Linux /m);
    assert.match(output('exec first -- uname'), /notes\.txt is copied to first:\/root\/notes\.txt/);
    assert.match(output('troupe open first'), /^http:\/\/[a-z0-9]{12}\.compute\.troupe\.localhost:18080\/$/m);
    assert.match(output('files?path='), /bring milk/);
    assert.ok(output('/terminal?').split('uname -n').at(-1)?.includes(id), 'a shell by WebSocket');
    assert.ok(output('ssh -p 2222 -o').includes(id), 'a shell by SSH');
    for (const word of ['troupe notifications', '/api/notifications'])
      assert.match(output(word), /Container started/, 'news of the container');
    for (const word of ['api-token create', '/api/tokens']) assert.match(output(word), /svc_/);
    assert.match(output('.compute.troupe.localhost'), /hello/, 'the container answers at its host name');
    assert.match(output('# the page of the guide'), /^hello$/m);
    assert.match(output('troupe users list'), /^admin .* active {2}no limit {2}/m);
    await stopPlatform(platform);
  },
);
