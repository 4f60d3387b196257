/** The commands in the pages exist, with their options: what `--help` does not name, no page may tell people to type. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { troupe } from '../support/cluster/platform.ts';
import { commandsIn, subcommandsOf } from '../support/docs/commands.ts';
import { projectRoot } from '../support/project.ts';

const helps = new Map<string, Promise<string>>();

/** What `troupe <path> --help` prints. */
function helpOf(path: readonly string[]): Promise<string> {
  const key = path.join(' ');
  const help = helps.get(key) ?? troupe([...path, '--help']).then(({ stdout }) => stdout);
  helps.set(key, help);
  return help;
}

/** What is wrong with a command line, or undefined. */
async function problemOf(words: readonly string[]): Promise<string | undefined> {
  const path: string[] = [];
  let help = await helpOf(path);
  for (const word of words) {
    if (!subcommandsOf(help).includes(word)) break;
    path.push(word);
    help = await helpOf(path);
  }
  const [next] = words.slice(path.length);
  const takesCommand = subcommandsOf(help).length > 0;
  if (next !== undefined && takesCommand && !next.startsWith('-')) return `there is no command ${next}`;
  const general = await helpOf([]);
  const unknown = words.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0] ?? word);
  const wrong = unknown.find((flag) => ![help, general].some((text) => text.includes(`${flag} `)));
  return wrong === undefined ? undefined : `${wrong} is no option of \`troupe ${path.join(' ')}\``;
}

test('every command in the pages exists, with the options it is given', async () => {
  const pages = readdirSync(join(projectRoot, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file}`);
  const found = ['README.md', 'CONTRIBUTING.md', ...pages].flatMap((page) =>
    commandsIn(readFileSync(join(projectRoot, page), 'utf8')).map((words) => ({ page, words })),
  );
  assert.ok(found.length > 40, `${found.length} commands`);
  const problems: string[] = [];
  for (const { page, words } of found) {
    const problem = await problemOf(words);
    if (problem !== undefined) problems.push(`${page}: troupe ${words.join(' ')}: ${problem}`);
  }
  assert.deepEqual(problems, []);
});

test('commands are found in blocks of shell, behind variables, pipes and line ends', () => {
  const page = [
    '```sh',
    './bin/troupe up --domain cloud.example.com \\',
    '  --tls-cert a.pem   # a comment with troupe words',
    'A=1 troupe users add NAME | cat; systemctl stop troupe && troupe database shell -- --quiet',
    'ID=$(troupe users list --json | jq .)',
    'ls /var/lib/troupe /opt/troupe/bin/troupe',
    '```',
    'troupe is no command here, `troupe nodes` is prose',
  ].join('\n');
  assert.deepEqual(commandsIn(page), [
    ['up', '--domain', 'cloud.example.com', '--tls-cert', 'a.pem'],
    ['users', 'add', 'NAME'],
    ['database', 'shell'],
    ['users', 'list', '--json'],
  ]);
});

test('a command or an option that does not exist is found', async () => {
  assert.equal(await problemOf(['users', 'vanish', 'ann']), 'there is no command vanish');
  assert.equal(await problemOf(['up', '--sideways']), '--sideways is no option of `troupe up`');
  assert.equal(await problemOf(['nodes', 'drain', 'NODE', '--force']), undefined);
});
