import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { projectRoot } from '../support/project.ts';
import { tempDir } from '../support/temp.ts';
import { sortTests } from './rule.ts';

/** A project with these files. Returns its root. */
async function project(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const root = await tempDir(t);
  for (const [path, source] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), source);
  }
  return root;
}

test('a test is quick when nothing it loads starts a program or asks for a part of the machine', async (t) => {
  const root = await project(t, {
    'lib/pure.ts': "import { join } from 'node:path';\nexport const a = join('x');\n",
    'test/pure.test.ts': "import { a } from '../lib/pure.ts';\n",
    'test/support/require.ts': 'export const skipWithout = () => false;\n',
    'test/support/server.ts': "import { spawn } from 'node:child_process';\nexport const start = () => spawn('x');\n",
    'test/support/index.ts': "export * from './server.ts';\n",
    'test/far/server.test.ts': "import { start } from '../support/index.ts';\n",
    'test/lazy.test.ts': "const { start } = await import('./support/server.ts');\n",
    'test/docker.test.ts': "import { skipWithout } from './support/require.ts';\n",
    'test/page.test.ts': "import {\n  chromium,\n} from 'playwright-core';\n",
  });
  const { quick, others } = sortTests(root);
  assert.deepEqual(quick, ['test/pure.test.ts']);
  assert.deepEqual(Object.fromEntries(others), {
    'test/docker.test.ts': ['test/docker.test.ts', 'test/support/require.ts'],
    'test/far/server.test.ts': [
      'test/far/server.test.ts',
      'test/support/index.ts',
      'test/support/server.ts',
      'node:child_process',
    ],
    'test/lazy.test.ts': ['test/lazy.test.ts', 'test/support/server.ts', 'node:child_process'],
    'test/page.test.ts': ['test/page.test.ts', 'playwright-core'],
  });
});

test('types load nothing, and files that import each other are no way round the rule', async (t) => {
  const root = await project(t, {
    'test/types.test.ts':
      "import type {\n  ChildProcess,\n} from 'node:child_process';\nexport type { X } from './support.ts';\n",
    'test/circle.test.ts': "import './a.ts';\n",
    'test/a.ts': "import './b.ts';\n",
    'test/b.ts': "import './a.ts';\nimport { type ChildProcess, spawn } from 'node:child_process';\n",
    'test/support.ts': "import 'node:child_process';\n",
  });
  const { quick, others } = sortTests(root);
  assert.deepEqual(quick, ['test/types.test.ts']);
  assert.deepEqual(others.get('test/circle.test.ts'), [
    'test/circle.test.ts',
    'test/a.ts',
    'test/b.ts',
    'node:child_process',
  ]);
});

test('of this project, those that use the shared database, Docker or NATS are not quick, and many are', () => {
  const { quick, others } = sortTests(projectRoot);
  assert.ok(quick.includes('test/quick/rule.test.ts'));
  assert.ok(quick.length > 50, `${quick.length} files`);
  for (const part of ['database/database', 'engine/docker-client', 'bus/nats-server', 'cluster/platform']) {
    const file = `test/support/${part}.ts`;
    assert.ok(
      [...others.values()].some((way) => way.includes(file)),
      file,
    );
  }
});
