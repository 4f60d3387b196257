/** Which files of a folder go along when it is deployed: git, .dockerignore, links that lead out, and what looks like a secret. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { linksOut, manifestOf, walk } from '../../cmd/client/deploy/files.ts';
import { dockerRules, rulesOf } from '../../cmd/client/deploy/ignored.ts';
import { leftLines } from '../../cmd/client/deploy/left.ts';
import { secretIn } from '../../cmd/client/deploy/secrets.ts';
import { tempDir } from '../support/temp.ts';

/** Of letters and digits that do not repeat, and in no source: tools that look for secrets find none here. */
const letters = (length: number) =>
  'aQ3kZ9xLw7Bv2NfT8mRc5Hy1Pd6GsJ4uEqK0oXiVzWbYtCnMlDpFrAhSjUgIe'.repeat(4).slice(0, length);
const PRIVATE_KEY = `-----BEGIN OPENSSH PRIVATE ${'KEY'}-----\n${letters(70)}\n${letters(70)}\n`;

async function folderOf(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await tempDir(t);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}

const git = (folder: string, ...words: string[]) =>
  execFileSync('git', ['-C', folder, '-c', 'user.name=x', '-c', 'user.email=x@example.com', ...words], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });

async function walked(folder: string, exclude: readonly string[] = [], withSecrets = false) {
  const { files, secrets, links, ignored } = await walk(folder, { exclude, withSecrets });
  const paths = (list: readonly { readonly path: string }[]) => list.map(({ path }) => path);
  return { files: paths(files), secrets: paths(secrets), links: paths(links), ignored: paths(ignored) };
}

describe('a folder that is deployed', () => {
  test('leaves behind what is made anew, what is excluded, and what looks like a secret', async (t) => {
    const folder = await folderOf(t, {
      'app.js': '1',
      'sub/deep/a.txt': '2',
      'sub/a.log': '3',
      'node_modules/x/index.js': '4',
      '.git/config': '5',
      '.env': 'SECRET=1',
      '.env.local': 'SECRET=2',
      '.env.example': 'SECRET=',
      deploy_key: PRIVATE_KEY,
      'cert.pem': 'x',
      'big/data.bin': '6',
    });
    await chmod(join(folder, 'app.js'), 0o755);
    await symlink('app.js', join(folder, 'link'));
    const found = await walk(folder, { exclude: ['*.log', '/big/'], withSecrets: false });
    assert.deepEqual(
      found.files.map(({ path, kind, mode }) => [path, kind, mode]),
      [
        ['.env.example', 'file', '644'],
        ['app.js', 'file', '755'],
        ['link', 'link', '777'],
        ['sub/deep/a.txt', 'file', '644'],
      ],
    );
    assert.deepEqual(found.secrets, [
      { path: '.env' },
      { path: '.env.local' },
      { path: 'cert.pem' },
      { path: 'deploy_key', why: 'private key in line 1' },
    ]);
    const all = await walk(folder, { exclude: [], withSecrets: true });
    assert.equal(all.secrets.length, 0);
    assert.match(
      await manifestOf(folder, found.files),
      /^644 [0-9a-f]{64} {2}\.env\.example\n644 [0-9a-f]{64} {2}sub\/deep\/a\.txt\n755 [0-9a-f]{64} {2}app\.js\n$/,
    );
    await writeFile(join(folder, 'new\nline'), '');
    await assert.rejects(walk(folder, { exclude: [], withSecrets: false }), /"new\\nline" has a name/);
  });

  test('takes what git tracks or does not ignore, in it and in repositories below it', async (t) => {
    const folder = await folderOf(t, {
      '.gitignore': 'data/\nlocal.cfg\n*.log\n!kept.log\ntracked.log\n',
      'index.html': 'x',
      'local.cfg': 'pw',
      'data/db.sqlite': 'x',
      'tracked.log': 'x',
      'kept.log': 'x',
      'gone.txt': 'x',
      'sub/new.txt': 'x',
      'sub/.gitignore': 'own.txt\n',
      'sub/own.txt': 'x',
      'inner/.gitignore': 'out/\n',
      'inner/out/x': 'x',
      'inner/in.js': 'x',
      'inner/data/x': 'x',
    });
    git(folder, 'init', '-q');
    git(folder, 'add', '-f', '.gitignore', 'index.html', 'tracked.log', 'gone.txt');
    await rm(join(folder, 'gone.txt'));
    git(join(folder, 'inner'), 'init', '-q');
    const found = await walked(folder);
    assert.deepEqual(found.files, [
      ...['.gitignore', 'index.html', 'inner/.gitignore', 'inner/data/x', 'inner/in.js', 'kept.log'],
      ...['sub/.gitignore', 'sub/new.txt', 'tracked.log'],
    ]);
    assert.deepEqual(found.ignored, ['data', 'inner/out', 'local.cfg', 'sub/own.txt']);
    // A folder of it is under the same rules, and one that git ignores is wanted by who names it.
    assert.deepEqual((await walked(join(folder, 'sub'))).files, ['.gitignore', 'new.txt']);
    assert.deepEqual((await walked(join(folder, 'data'))).files, ['db.sqlite']);
    // What another repository says of itself, in a hook of it, changes nothing.
    process.env.GIT_DIR = join(folder, 'inner', '.git');
    t.after(() => delete process.env.GIT_DIR);
    assert.deepEqual(await walked(folder), found);
  });

  test('reads .gitignore itself where there is no git', async (t) => {
    const folder = await folderOf(t, {
      '.gitignore': 'data/\n*.log\n!kept.log\n/top\n',
      'data/x': 'x',
      'a.log': 'x',
      'kept.log': 'x',
      top: 'x',
      'sub/top': 'x',
      'sub/.gitignore': '!a.log\nown\n',
      'sub/a.log': 'x',
      'sub/own': 'x',
    });
    const wanted = ['.gitignore', 'kept.log', 'sub/.gitignore', 'sub/a.log', 'sub/top'];
    assert.deepEqual((await walked(folder)).files, wanted);
    git(folder, 'init', '-q');
    assert.deepEqual((await walked(folder)).files, wanted);
    const { PATH } = process.env;
    process.env.PATH = join(folder, 'sub');
    t.after(() => Object.assign(process.env, { PATH }));
    const found = await walked(folder);
    assert.deepEqual(found.files, wanted);
    assert.deepEqual(found.ignored, ['a.log', 'data', 'sub/own', 'top']);
  });

  test('takes along what .troupeignore names after !, also where others ignore it', async (t) => {
    const folder = await folderOf(t, {
      '.gitignore': 'dist/\n.env\n.npmrc\n',
      '.dockerignore': '*.md\n',
      'dist/server.js': 'x',
      'dist/.npmrc': `//x/:_authToken=${letters(20)}`,
      'README.md': 'x',
      '.env': 'A=1',
      '.npmrc': `//x/:_authToken=${letters(20)}`,
    });
    assert.deepEqual(await walked(folder), {
      ...{ files: ['.dockerignore', '.gitignore'], secrets: ['.env'], links: [] },
      ignored: ['.npmrc', 'README.md', 'dist'],
    });
    const named = await walked(folder, ['!dist/', '!README.md', '!/.npmrc']);
    assert.deepEqual(named.files, ['.dockerignore', '.gitignore', '.npmrc', 'README.md', 'dist/server.js']);
    assert.deepEqual(named.secrets, ['.env', 'dist/.npmrc']);
    assert.ok((await walked(folder, ['!.env'])).files.includes('.env'));
    // Asked for by name, also where git ignores it.
    assert.deepEqual((await walked(folder, [], true)).files, ['.dockerignore', '.env', '.gitignore']);
  });

  test('leaves out and names links that lead out of it', async (t) => {
    const folder = await folderOf(t, { 'app/sub/x': 'x', 'lib/y': 'y' });
    const app = join(folder, 'app');
    await symlink('../lib', join(app, 'shared'));
    await symlink('../x', join(app, 'sub', 'up'));
    await symlink('x', join(app, 'sub', 'near'));
    await symlink('../sub/x', join(app, 'sub', 'round'));
    await symlink('../../lib/y', join(app, 'sub', 'far'));
    await symlink(join(folder, 'lib'), join(app, 'here'));
    // Nothing is there on this machine: it is a path of the container.
    await symlink('/root/data-of-a-container', join(app, 'data'));
    const found = await walk(app, { exclude: [], withSecrets: false });
    assert.deepEqual(
      found.files.map(({ path }) => path),
      ['data', 'sub/near', 'sub/round', 'sub/up', 'sub/x'],
    );
    assert.deepEqual(leftLines(found, 'shop'), [
      `Left here, as they lead out of the folder: here -> ${folder}/lib, shared -> ../lib, sub/far -> ../../lib/y.`,
    ]);
    // `troupe cp` takes the same folder as it is, but for what an engine refuses.
    assert.deepEqual((await linksOut(app)).map(({ path }) => path).sort(), ['shared', 'sub/far']);
  });

  test('is told of what stays in one line for each reason', () => {
    const names = (count: number) => Array.from({ length: count }, (_, at) => ({ path: `f${at}` }));
    const secrets = [{ path: '.env' }, { path: 'a\x1b.txt', why: 'GitHub token in line 3' }];
    assert.deepEqual(leftLines({ files: [], secrets, links: [], ignored: names(7), unread: 2 }, 'shop'), [
      'Left here, as they look like secrets: .env, a .txt (GitHub token in line 3).',
      '  troupe env secret shop --file .env   gives variables to the app as secrets',
      '  --with-secrets   takes all along; a line !.env in .troupeignore takes one',
      'Left here, as git or Docker ignores them: f0, f1, f2, f3, f4, and 2 more (a line !f0 in .troupeignore takes one along).',
      '2 files were not searched for secrets: the folder has too much text.',
    ]);
  });
});

describe('rules of what stays', () => {
  test('are those of gitignore(5) in .troupeignore and `exclude`', () => {
    const rule = rulesOf(['*.log', 'dist/', '/only/top', 'a/**/z', '# words', '', '  indented', '!kept.log']);
    const cases: [string, 'stays' | 'comes' | undefined][] = [
      ['x.log', 'stays'],
      ['a/b/x.log', 'stays'],
      ['x.logs', undefined],
      ['sub/dist/x', 'stays'],
      ['distant', undefined],
      ['only/top', 'stays'],
      ['sub/only/top', undefined],
      ['a/b/c/z', 'stays'],
      ['X.LOG', undefined],
      ['indented', 'stays'],
      ['sub/kept.log', 'comes'],
    ];
    for (const [path, word] of cases) assert.equal(rule(path, false), word, path);
    assert.equal(rule('dist', true), 'stays');
  });

  test('are from the top of the folder in .dockerignore, and the last that fits counts', () => {
    const { stays, hasExceptions } = dockerRules(
      '# words\n*.log\n**/deep.txt\n./tmp/\n/top?\ntexts/**\n!texts/*.md\n[ab].c\nx+y(1)\nq\\*\n',
    );
    assert.ok(hasExceptions);
    const cases: [string, boolean][] = [
      ['x.log', true],
      ['sub/x.log', false],
      ['deep.txt', true],
      ['a/b/deep.txt', true],
      ['tmp', true],
      ['tmp/a/b', true],
      ['top1', true],
      ['top12', false],
      ['texts/a.txt', true],
      ['texts/a.md', false],
      ['texts/sub/a.md', true],
      ['a.c', true],
      ['c.c', false],
      ['x+y(1)', true],
      ['q*', true],
      ['qq', false],
    ];
    for (const [path, isIt] of cases) assert.equal(stays(path), isIt, path);
    const few = dockerRules('*\n!src\n!package.json\n');
    assert.deepEqual(
      ['README.md', 'src', 'src/a.js', 'package.json'].map((path) => few.stays(path)),
      [true, false, false, false],
    );
  });

  test('.dockerignore takes a file out of a folder that stays', async (t) => {
    const folder = await folderOf(t, {
      '.dockerignore': 'texts\n!texts/kept.md\n',
      'texts/a.md': 'x',
      'texts/kept.md': 'x',
    });
    assert.deepEqual((await walked(folder)).files, ['.dockerignore', 'texts/kept.md']);
  });
});

describe('what looks like a secret', () => {
  test('is known by the name of the file', async (t) => {
    const secrets = [
      ...['.env', '.env.production', 'local.env', '.envrc', 'secrets.yml', 'secrets.json', 'config/x.key', 'a.pem'],
      ...['.netrc', '_netrc', '.pypirc', '.git-credentials', 'service-account.json', 'service_account_prod.json'],
      ...['id_ed25519', 'id_ecdsa_sk', 'x.kdbx', 'x.p12', 'terraform.tfstate', 'terraform.tfstate.backup'],
      ...['prod.tfvars', '.aws/credentials', '.ssh/work', '.kube/config', '.docker/config.json', '.htpasswd'],
    ];
    const others = [
      ...['.env.example', 'env.js', 'secrets.py', 'key.js', 'id_card.png', '.npmrc', 'monkey', 'service-account.md'],
      ...['.ssh/config', '.ssh/known_hosts', '.ssh/work.pub', 'environment.ts', 'sample.env.example', 'keys/index.js'],
    ];
    const folder = await folderOf(t, Object.fromEntries([...secrets, ...others].map((name) => [name, 'x'])));
    const found = await walked(folder);
    assert.deepEqual(found.secrets, [...secrets].sort());
    assert.deepEqual(found.files, [...others].sort());
  });

  test('is known by the forms of well-known tokens', () => {
    const hex = (length: number) => '3fa94c07be51d286'.repeat(20).slice(0, length);
    const cases: [string, string, string][] = [
      ['a.txt', `\n\ntoken: ghp${'_'}${letters(36)}`, 'GitHub token in line 3'],
      ['a.py', `x = "github${'_pat_'}${letters(82)}"`, 'GitHub token in line 1'],
      ['a.yml', `glpat${'-'}${letters(20)}`, 'GitLab token in line 1'],
      ['a.js', `const s = 'xoxb${'-'}1234098765-5678012349-${letters(24)}'`, 'Slack token in line 1'],
      ['a.js', `pay('sk${'_live_'}${letters(24)}')`, 'Stripe key in line 1'],
      ['.npmrc', `//registry.npmjs.org/:_authToken=${letters(9)}`, 'npm token in line 1'],
      ['a', `npm${'_'}${letters(36)}`, 'npm token in line 1'],
      ['a.json', `{"key": "AIza${letters(35)}"}`, 'Google API key in line 1'],
      ['gcp.json', `{"type": "service_account",\n"private_key_id": "${hex(40)}"}`, 'Google service account in line 2'],
      ['a.py', `ID = 'AKIA${'Q3KZ7XLW2BVNFTMR'}'\nKEY = '${letters(40)}'`, 'AWS key in line 1'],
      ['a.ini', `aws_secret_access_key = ${letters(40)}`, 'AWS key in line 1'],
      ['a.js', `const key = \`${PRIVATE_KEY}\``, 'private key in line 1'],
      ['a.json', JSON.stringify({ key: PRIVATE_KEY }), 'private key in line 1'],
      ['a', `sk-ant-api03-${letters(93)}AA`, 'Anthropic key in line 1'],
      ['a', `sk-${letters(20)}T3Blbk${'FJ'}${letters(20)}`, 'OpenAI key in line 1'],
      ['a', `svc_ey${letters(30)}.ey${letters(30)}.${letters(43)}`, 'Troupe token in line 1'],
    ];
    for (const [path, text, wanted] of cases) {
      const found = secretIn(path, text);
      assert.equal(found && `${found.name} in line ${found.line}`, wanted, `${path}: ${text}`);
    }
  });

  test('is no placeholder, no example, no public key, and no word about secrets', () => {
    const cases: [string, string][] = [
      ['README.md', `export GITHUB_TOKEN=ghp${'_'}${'x'.repeat(36)}`],
      [
        'README.md',
        `AWS_ACCESS_KEY_ID=AKIA${'IOSFODNN7EXAMPLE'}\nAWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY`,
      ],
      ['a.py', `ID = 'AKIA${'Q3KZ7XLW2BVNFTMR'}'`],
      ['.npmrc', `//registry.npmjs.org/:_authToken=\${NPM_TOKEN}\nregistry=https://registry.npmjs.org/`],
      ['app.js', `initializeApp({ apiKey: 'AIza${letters(35)}' })`],
      ['app.js', `Stripe('pk${'_live_'}${letters(24)}')`],
      [
        'app.js',
        `if (!text.startsWith('-----BEGIN PRIVATE ${'KEY'}-----')) throw new Error('this is no key at all, look again')`,
      ],
      ['names.txt', 'svc_payment_processing_of_the_queue'],
      ['package-lock.json', `"integrity": "sha512-${letters(86)}=="`],
    ];
    for (const [path, text] of cases) assert.equal(secretIn(path, text), undefined, `${path}: ${text}`);
  });

  test('is looked for in small texts only', async (t) => {
    const token = `ghp${'_'}${letters(36)}`;
    const folder = await folderOf(t, {
      'small.txt': token,
      'binary.dat': `\0${token}`,
      'large.txt': `${token}${' '.repeat(256 * 1024)}`,
    });
    assert.deepEqual((await walked(folder)).secrets, ['small.txt']);
  });
});
