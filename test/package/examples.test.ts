import assert from 'node:assert/strict';
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { testDatabase } from '../support/database/database.ts';
import { addPackages, compile, projectWithPackage, runNode } from '../support/package.ts';
import { projectRoot } from '../support/project.ts';

const PAGE = 'docs/guide/actors.md';

const folder = await projectWithPackage({ after });
await cp(join(projectRoot, 'examples'), folder, { recursive: true });
const names = (await readdir(folder)).filter((file) => file.endsWith('.ts')).sort();

/** Installs what `packages` names, builds the examples once for all tests, and returns what one of them prints. */
let compiled: Promise<void> | undefined;
async function run(example: string, env: NodeJS.ProcessEnv = {}): Promise<string[]> {
  compiled ??= build();
  await compiled;
  const { code, stdout, stderr } = await runNode(folder, [`built/${example}.js`], env);
  assert.equal(code, 0, stderr);
  assert.equal(stderr, '');
  return stdout.trimEnd().split('\n');
}

async function build(): Promise<void> {
  const readme = await readFile(join(projectRoot, 'supervision/README.md'), 'utf8');
  await writeFile(join(folder, 'readme.ts'), blocksOf(readme).join(''));
  await addPackages(folder, ['@types/node', 'undici-types', 'ws', '@types/ws', 'pg', '@types/pg']);
  const { code, stdout } = await compile(folder);
  assert.equal(code, 0, stdout);
}

/** The blocks of TypeScript in a page. */
function blocksOf(page: string): string[] {
  return [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, block = '']) => block);
}

test('example: a counter, and the one of the README', async () => {
  assert.deepEqual(await run('readme'), ['2']);
  assert.deepEqual(await run('counter'), ['the count is 5']);
});

test('example: a supervisor starts a child again, and those that were started after it', async () => {
  assert.deepEqual(await run('supervisor'), [
    '1 pear left',
    'the stock ended: crashed',
    'stopped',
    '1 pear left, after 2 starts',
  ]);
});

test('example: a pipeline in which a slow stage slows its source', async () => {
  const [waited, refused] = await run('pipeline');
  assert.equal(waited, '100 lines are stored; at most three waited at once');
  assert.match(refused ?? '', /^without waiting, 9\d of 100 are refused: overloaded$/);
});

test('example: an entity reads its row once, and again after a crash', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  assert.deepEqual(await run('entity', { DATABASE_URL: database.url }), [
    'ann has 20, from 1 read',
    'too much: crashed',
    'ann has 20, from 2 reads',
    'bob: not_found',
    '0 accounts are awake',
  ]);
});

test('example: a chat whose room is on one node, and moves when this node leaves', async () => {
  assert.deepEqual(await run('chat'), [
    'ann reads ann: is here',
    'bob reads bob: is here',
    'ann reads bob: is here',
    'ann reads bob: hello | bob reads bob: hello',
    'the lobby is awake on 1 node of 2',
    'who stays reads NAME: is here',
    'who stays reads NAME: still here',
  ]);
});

test('example: a test of an actor', async () => {
  assert.match((await run('safe.test')).join('\n'), /^(#|ℹ) pass 3$/m);
});

test('every block of code in the guide is in an example, and every example is in the guide', async () => {
  const page = await readFile(join(projectRoot, PAGE), 'utf8');
  const sources = await Promise.all(names.map((name) => readFile(join(projectRoot, 'examples', name), 'utf8')));
  const blocks = blocksOf(page);
  assert.ok(blocks.length >= names.length);
  assert.deepEqual(
    blocks.filter((block) => !sources.some((source) => source.includes(block))),
    [],
  );
  assert.deepEqual(
    names.filter((name) => !page.includes(`examples/${name}`)),
    [],
  );
});
