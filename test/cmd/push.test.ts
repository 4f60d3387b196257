/** `git push` into a container acts on the refs that were pushed, and on nothing else. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { describe, type TestContext, test } from 'node:test';
import { folderContainer } from '../support/client/folder-container.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { findProgram, skipUnless } from '../support/require.ts';

failOnLeaks();

/** A container in which releases A and B were pushed, and A runs again. */
async function rolledBack(t: TestContext) {
  const shop = await folderContainer(t);
  const running = () => readFile(shop.at('inside/app/current/app/server.js'), 'utf8');
  for (const version of ['A', 'B']) {
    await shop.commit(version, { 'server.js': version });
    const pushed = await shop.git('push', 't', 'main');
    assert.match(pushed.said, /shop runs release \d/);
    assert.equal(pushed.code, 0);
  }
  assert.equal((await shop.ask('rollback shop 1')).code, 0);
  assert.equal(await running(), 'A');
  return { ...shop, running };
}

describe('a push', { skip: skipUnless(findProgram('git') !== undefined, 'git is missing') }, () => {
  test('of a tag, of another branch, or of nothing new deploys nothing, and says so', async (t) => {
    const { git, commit, running } = await rolledBack(t);
    await git('tag', 'note');
    const tagged = await git('push', 't', 'note');
    assert.deepEqual([tagged.code, await running()], [0, 'A']);
    assert.match(tagged.said, /Tags are stored, and not deployed\./);
    await git('checkout', '-q', '-b', 'feature');
    await commit('F', { 'server.js': 'F' });
    const stored = await git('push', 't', 'feature');
    assert.deepEqual([stored.code, await running()], [0, 'A']);
    assert.match(stored.said, /feature is stored, and not deployed: push to main\./);
    for (const ref of ['feature', 'note', 'main']) {
      const again = await git('push', 't', ref);
      assert.deepEqual([again.code, await running()], [0, 'A']);
      assert.match(
        again.said,
        /Nothing new came, so nothing is deployed\. shop does not run the newest commit of main/,
      );
    }
    const deleted = await git('push', 't', ':feature');
    assert.deepEqual([deleted.code, await running()], [0, 'A']);
    const both = await git('push', 't', 'feature:other', 'feature:main');
    assert.match(both.said, /shop runs release 3/);
    assert.equal(await running(), 'F');
  });

  test('whose deployment failed is tried again with nothing new, but not by another branch', async (t) => {
    const { git, commit, running, ask } = await rolledBack(t);
    await commit('Broken', { broken: '' });
    const failed = await git('push', 't', 'main');
    assert.equal(failed.code, 1);
    const other = await git('push', 't', 'main:develop');
    assert.equal(other.code, 0, other.said);
    const again = await git('push', 't', 'main');
    assert.equal(again.code, 1);
    assert.match(again.said, /main is deployed again, as that failed before\.[\s\S]*exit code 4/);
    assert.equal((await ask('rollback shop 2')).code, 0);
    const since = await git('push', 't', 'main');
    assert.equal(since.code, 0, since.said);
    assert.equal(await running(), 'B');
  });

  test('that git refuses deploys nothing, and hooks of the repository run', async (t) => {
    const { git, at, running, commit } = await rolledBack(t);
    const hook = '#!/bin/sh\nread -r old new ref\necho "seen $ref" >&2\n[ "$ref" != refs/heads/no ]\n';
    await writeFile(at('inside/.troupe/app.git/hooks/pre-receive'), hook, { mode: 0o755 });
    await git('checkout', '-q', 'HEAD~1');
    const refused = await git('push', 't', 'HEAD:refs/heads/main');
    assert.match(refused.said, /rejected/);
    const no = await git('push', 't', 'HEAD:refs/heads/no');
    assert.match(no.said, /seen refs\/heads\/no[\s\S]*pre-receive hook declined/);
    assert.equal(await running(), 'A');
    await commit('C', { 'server.js': 'C' });
    assert.match((await git('push', '-f', 't', 'HEAD:main')).said, /seen refs\/heads\/main[\s\S]*release 3/);
  });

  test('without files of submodules and of Git LFS says so before and after the deployment', async (t) => {
    const { git, at, commit } = await folderContainer(t);
    await mkdir(at('sub'));
    const inSub = (...words: string[]) => git('-C', at('sub'), ...words);
    await inSub('init', '-q', '-b', 'main');
    await writeFile(at('sub/file'), 'x');
    await inSub('add', '-A');
    await inSub('commit', '-q', '-m', 's');
    await git('submodule', 'add', '-q', at('sub'), 'vendor/a sub');
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 12345\n`;
    const files = { 'server.js': '1', 'clip.mp4': pointer, 'notes.md': 'version https://git-lfs.github.com/spec/v1\n' };
    await commit('a', { ...files, 'kept.txt': 'kept', '.gitattributes': 'kept.txt export-ignore\n' });
    const { code, said } = await git('push', 't', 'main');
    assert.equal(code, 0, said);
    const lacks = /does not send the files of submodules: vendor\/a sub\. .*\n.* Git LFS, .*: clip\.mp4\. /;
    const [before = '', after = ''] = said.split('shop runs release 1');
    assert.match(before, lacks);
    assert.match(after, lacks);
    assert.deepEqual(await readdir(at('inside/app/current/app')), [
      ...['.gitattributes', '.gitmodules', 'clip.mp4', 'kept.txt', 'notes.md', 'server.js', 'vendor'],
    ]);
    assert.ok(!(await git('push', 't', 'main:feature')).said.includes('submodules'));
  });
});
