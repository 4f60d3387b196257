import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { projectRoot } from '../support/project.ts';
import { tempDir } from '../support/temp.ts';
import { checkWalls, sourceFiles } from './check.ts';
import { unusedExports } from './exports.ts';
import { FURTHER_ENTRIES } from './rules.ts';
import { scan } from './scan.ts';

/** A tree of source files in a folder of the test's own. */
async function tree(t: TestContext, files: Record<string, string>): Promise<string> {
  const root = await tempDir(t);
  for (const [path, source] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), source);
  }
  return root;
}

/** What the check says about one file with this import, as `rule` or `ok`. */
async function verdict(t: TestContext, file: string, specifier: string): Promise<string> {
  const root = await tree(t, { [file]: `\nimport { x } from '${specifier}';\nx();\n` });
  const findings = checkWalls(root);
  for (const finding of findings) {
    assert.deepEqual([finding.file, finding.line], [file, 2]);
  }
  return findings.map(({ rule }) => rule).join() || 'ok';
}

test('the project itself keeps its walls', () => {
  const errors = checkWalls(projectRoot);
  assert.deepEqual(errors, []);
});

for (const [file, specifier, expected] of [
  ['lib/a.ts', './b.ts', 'ok'],
  ['lib/a.ts', '../proto/b.ts', 'wall'],
  ['lib/a.ts', '../supervision/b.ts', 'wall'],
  ['lib/a.ts', 'node:net', 'library'],
  ['proto/a.ts', '../lib/b.ts', 'ok'],
  ['supervision/a.ts', '../lib/b.ts', 'ok'],
  ['storage/a.ts', '../lib/b.ts', 'ok'],
  ['transports/ssh/a.ts', '../../lib/b.ts', 'ok'],
  ['actors/auth/a.ts', '../../lib/b.ts', 'ok'],
  ['actors/service/a.ts', '../../lib/b.ts', 'ok'],
  ['cmd/main.ts', '../lib/b.ts', 'ok'],
  ['proto/a.ts', './b.ts', 'ok'],
  ['proto/a.ts', 'zod', 'ok'],
  ['proto/a.ts', '../supervision/b.ts', 'wall'],
  ['supervision/a.ts', '../proto/ports/log.ts', 'ok'],
  ['supervision/a.ts', '../proto/errors.ts', 'wall'],
  ['supervision/a.ts', '../storage/b.ts', 'wall'],
  ['storage/db.ts', '../proto/b.ts', 'ok'],
  ['storage/auth/a.ts', '../db.ts', 'ok'],
  ['storage/a.ts', '../supervision/b.ts', 'wall'],
  ['storage/a.ts', '../transports/tcp/b.ts', 'wall'],
  ['transports/ssh/a.ts', '../../proto/b.ts', 'ok'],
  ['transports/http/a.ts', '../ws/b.ts', 'ok'],
  ['transports/ws/a.ts', '../http/b.ts', 'wall'],
  ['transports/clients/dns/a.ts', '../../http/b.ts', 'wall'],
  ['transports/engines/docker/a.ts', '../common/b.ts', 'ok'],
  ['transports/engines/docker/api/a.ts', '../b.ts', 'ok'],
  ['transports/engines/docker/a.ts', '../kubernetes/b.ts', 'wall'],
  ['transports/engines/kubernetes/a.ts', '../docker/b.ts', 'wall'],
  ['transports/engines/common/a.ts', '../docker/b.ts', 'wall'],
  ['transports/ssh/a.ts', '../../storage/b.ts', 'wall'],
  ['transports/ssh/a.ts', '../../supervision/b.ts', 'wall'],
  ['transports/ssh/a.ts', '../../test/support/b.ts', 'wall'],
  ['actors/auth/a.ts', '../../proto/b.ts', 'ok'],
  ['actors/auth/a.ts', '../../supervision/b.ts', 'ok'],
  ['actors/auth/a.ts', '../../storage/auth/b.ts', 'ok'],
  ['actors/auth/a.ts', '../../storage/db.ts', 'ok'],
  ['actors/auth/a.ts', '../shared.ts', 'ok'],
  ['actors/auth/login/a.ts', '../../service/b.ts', 'ok'],
  ['actors/service/a.ts', '../../storage/db.ts', 'ok'],
  ['actors/service/a.ts', '../auth/b.ts', 'wall'],
  ['actors/service/a.ts', '../../storage/auth/b.ts', 'wall'],
  ['actors/auth/deep/a.ts', '../b.ts', 'ok'],
  ['actors/auth/a.ts', '../compute/b.ts', 'wall'],
  ['actors/auth/a.ts', '../../storage/compute/b.ts', 'wall'],
  ['actors/auth/a.ts', '../../transports/ssh/b.ts', 'wall'],
  ['actors/auth/a.ts', '../../cmd/b.ts', 'wall'],
  ['actors/shared.ts', './auth/b.ts', 'wall'],
  ['actors/shared.ts', '../storage/db.ts', 'ok'],
  ['actors/shared.ts', '../storage/auth/b.ts', 'wall'],
  ['cmd/main.ts', '../actors/auth/service.ts', 'ok'],
  ['cmd/node/a.ts', '../../actors/network/certificate-deps.ts', 'ok'],
  ['cmd/node/a.ts', '../../actors/service/placement.ts', 'ok'],
  ['cmd/main.ts', '../actors/auth/b.ts', 'wall'],
  ['cmd/main.ts', '../actors/service/b.ts', 'wall'],
  ['cmd/node/a.ts', '../../actors/auth/users/service.ts', 'wall'],
  ['cmd/main.ts', '../test/b.ts', 'wall'],
  ['cmd/main.ts', './cli/b.ts', 'ok'],
  ['cmd/cli/a.ts', '../node/b.ts', 'ok'],
  ['cmd/node/a.ts', '../cli/b.ts', 'wall'],
  ['cmd/config/a.ts', './b.ts', 'ok'],
  ['cmd/config/a.ts', '../observability/b.ts', 'wall'],
  ['cmd/config/a.ts', '../main.ts', 'wall'],
  ['test/support/a.ts', '../../cmd/b.ts', 'ok'],
  ['bench/a.ts', '../cmd/b.ts', 'ok'],
  ['bench/a.ts', '../test/support/b.ts', 'ok'],
  ['client/a.ts', '../proto/b.ts', 'ok'],
  ['client/a.ts', '../lib/b.ts', 'wall'],
  ['cmd/client/a.ts', '../../client/b.ts', 'ok'],
  ['client/node/a.ts', 'ws', 'ok'],
  ['client/a.ts', 'ws', 'library'],
  ['web/parts/a.tsx', '../../proto/b.ts', 'ok'],
  ['web/parts/a.tsx', '../../client/b.ts', 'ok'],
  ['web/parts/a.tsx', '../../lib/b.ts', 'wall'],
  ['web/parts/a.tsx', '../../actors/b.ts', 'wall'],
  ['web/parts/a.tsx', 'preact/hooks', 'ok'],
  ['client/a.ts', 'preact', 'library'],
  ['cmd/main.ts', 'vite', 'library'],
  ['cmd/main.ts', '../../elsewhere.ts', 'wall'],
  ['storage/db.ts', 'pg', 'ok'],
  ['test/storage/a.test.ts', 'pg', 'ok'],
  ['actors/auth/a.ts', 'pg', 'library'],
  ['cmd/main.ts', 'pg', 'library'],
  ['transports/http/a.ts', 'uWebSockets.js', 'ok'],
  ['transports/ws/a.ts', 'uWebSockets.js', 'library'],
  ['transports/ws/a.ts', 'ws', 'ok'],
  ['actors/auth/a.ts', 'ws', 'library'],
  ['transports/gateway/tcp/a.ts', 'node:net', 'ok'],
  ['actors/gateway/a.ts', 'node:net', 'library'],
  ['actors/gateway/a.ts', 'net', 'library'],
  ['actors/gateway/a.ts', 'node:tls', 'library'],
  ['cmd/main.ts', 'node:http', 'library'],
  ['transports/ssh/a.ts', 'ssh2', 'ok'],
  ['transports/gateway/ssh/a.ts', 'ssh2', 'ok'],
  ['transports/gateway/tcp/a.ts', 'ssh2', 'library'],
  ['transports/bus/a.ts', '@nats-io/jetstream', 'ok'],
  ['supervision/a.ts', '@nats-io/jetstream', 'library'],
  ['transports/clients/acme/a.ts', 'acme-client', 'ok'],
  ['transports/clients/dns/a.ts', 'acme-client', 'library'],
  ['transports/engines/kubernetes/a.ts', '@kubernetes/client-node', 'ok'],
  ['transports/engines/docker/a.ts', '@kubernetes/client-node', 'library'],
  ['transports/engines/docker/a.ts', 'node:child_process', 'ok'],
  ['storage/embedded/a.ts', 'node:child_process', 'ok'],
  ['cmd/a.ts', 'node:child_process', 'ok'],
  ['storage/db.ts', 'node:child_process', 'library'],
  ['supervision/a.ts', 'nact', 'library'],
  ['bench/a.ts', 'nact', 'ok'],
] as const) {
  test(`walls: ${specifier} in ${file}: ${expected}`, async (t) => {
    assert.equal(await verdict(t, file, specifier), expected);
  });
}

test('walls: each file by which cmd enters a service besides its service.ts is so entered', () => {
  const entered = new Set(
    sourceFiles(projectRoot)
      .filter((file) => file.startsWith('cmd/'))
      .flatMap((file) =>
        scan(readFileSync(join(projectRoot, file), 'utf8')).map(({ name }) => join(dirname(file), name)),
      ),
  );
  assert.deepEqual(
    [...FURTHER_ENTRIES.keys()].filter((file) => !entered.has(file)),
    [],
  );
});

test('walls: the environment is read in cmd, tests and benchmarks only', async (t) => {
  const source = 'export const X = 1;\nconst home = process.env.HOME;\n';
  const root = await tree(t, {
    'cmd/a.ts': source,
    'bench/a.ts': source,
    'storage/a.ts': source,
    'test/a.test.ts': source,
  });
  const found = checkWalls(root).map(({ file, line, rule }) => `${file}:${line} ${rule}`);
  assert.deepEqual(found, ['storage/a.ts:2 environment']);
});

test('walls: services and the runtime open no connections by globals', async (t) => {
  const source = `await fetch(url); await globalThis.fetch(url);
source.fetch(1); const fetched = { fetch: 1 }; 'fetch(url)'; // fetch(url)
new WebSocket(url);
`;
  const root = await tree(t, { 'actors/auth/a.ts': source, 'transports/clients/a.ts': source, 'cmd/a.ts': source });
  const found = checkWalls(root).map(({ file, line, rule }) => `${file}:${line} ${rule}`);
  assert.deepEqual(
    found,
    [1, 1, 3].map((line) => `actors/auth/a.ts:${line} network`),
  );
});

test('walls: SQL names a table with its owner alone, and a view everywhere', async (t) => {
  const sql = (statement: string) => `export const TEXT = \`${statement}\`;\n`;
  const root = await tree(t, {
    'storage/auth/a.ts': sql('select id from users'),
    'storage/offboarding.ts': sql('update users set leaving = null'),
    'storage/settings.ts': sql('lock table settings'),
    'storage/notify/a.ts': `// read from users\n${sql('select id from known_users')}`,
    'storage/notify/b.ts': sql('delete from notifications where not exists (select from users)'),
    'storage/offboarding/a.ts': sql('delete from users'),
    'cmd/cli/a.ts': sql('insert\n into settings (key) values (1)'),
    'bench/a.ts': sql('select from users'),
  });
  const found = checkWalls(root).map(({ file, line, rule }) => `${file}:${line} ${rule}`);
  assert.deepEqual(found, ['cmd/cli/a.ts:2 table', 'storage/notify/b.ts:1 table', 'storage/offboarding/a.ts:1 table']);
});

test('walls: a circle among files is found once, and named', async (t) => {
  const root = await tree(t, {
    'proto/a.ts': "import './b.ts';\n",
    'proto/b.ts': "\nexport * from './c.ts';\nimport './d.ts';\n",
    'proto/c.ts': "export type X = import('./a.ts').X;\n",
    'proto/d.ts': 'export const alone = true;\n',
    'proto/self.ts': "import './self.ts';\n",
  });
  const found = checkWalls(root).map(({ file, line, message }) => `${file}:${line} ${message}`);
  assert.deepEqual(found, [
    'proto/a.ts:1 imports in a circle: proto/a.ts -> proto/b.ts -> proto/c.ts -> proto/a.ts',
    'proto/self.ts:1 imports in a circle: proto/self.ts -> proto/self.ts',
  ]);
});

test('walls: a file past 400 lines is refused, but not in tests', async (t) => {
  const long = '// line\n'.repeat(401);
  const root = await tree(t, {
    'proto/a.ts': long,
    'proto/b.ts': long.slice(8),
    'test/a.test.ts': long,
    'bench/a.ts': long,
  });
  assert.deepEqual(
    checkWalls(root).map(({ file, rule }) => [file, rule]),
    [['proto/a.ts', 'length']],
  );
});

test('walls: what tests share lies in test/support, not beside them', async (t) => {
  const root = await tree(t, {
    'test/auth/a.test.ts': '',
    'test/auth/kit.ts': '',
    'test/helpers.ts': '',
    'test/support/auth/a.ts': '',
    'test/soak/a.ts': '',
  });
  const found = checkWalls(root).map(({ file, rule }) => `${file} ${rule}`);
  assert.deepEqual(found, ['test/auth/kit.ts place', 'test/helpers.ts place']);
});

test('walls: every way to import is seen, and text that looks like one is not', () => {
  const source = String.raw`
import a from 'one';
import 'two'; export * from "three";
import type {
  B,
} from 'four';
export { c } from 'five'; // import 'no'
const d = await import('six'); /* import 'no' from 'no'
import 'no' */ type E = import('seven').E;
const load = createRequire(import.meta.url);
load('eight'); load.resolve('nine'); createRequire(join(x, 'no'))('ten'); require('eleven');
const text = "import 'no'" + 'from "no"' + ~import "no" @{load('twelve')} from "no" @{~@{1}~}~;
const regex = /import 'no'; [/'"] from "no"/.test(x), half = 1 / 2; import('thirteen'); f(x) / 2; import(~fourteen~);
Array.from('no'); x.import; const from = 'no'; import(computed); it('no', () => {}); Promise.resolve('no');
const s = 'a\'', t = { from: 'no' }; import z from'fifteen'
`;
  const withTemplates = source.replaceAll('~', '`').replaceAll('@{', '$' + '{');
  assert.deepEqual(
    scan(withTemplates).map(({ name, line }) => `${line} ${name}`),
    [
      ...[
        '2 one',
        '3 two',
        '3 three',
        '6 four',
        '7 five',
        '8 six',
        '9 seven',
        '11 eight',
        '11 nine',
        '11 ten',
        '11 eleven',
      ],
      ...['12 twelve', '13 thirteen', '13 fourteen', '15 fifteen'],
    ],
  );
});

test('walls: every way to read the environment is seen', () => {
  const source = `process.env.A; process.env['B']; process['env'];
const { env } = process; process?.env;
process.exitCode = 1; const { pid } = process.versions; my.process.env; 'process.env'; // process.env`;
  assert.deepEqual(
    scan(source).map(({ kind, line }) => `${line} ${kind}`),
    ['1 environment', '1 environment', '1 environment', '2 environment', '2 environment'],
  );
});

test('walls: the command prints file and line, and its exit code says whether the walls stand', async (t) => {
  const root = await tree(t, { 'proto/a.ts': "\nimport '../cmd/b.ts';\n", 'cmd/b.ts': '' });
  const check = join(dirname(fileURLToPath(import.meta.url)), `check${import.meta.url.slice(-3)}`);
  const loader = check.endsWith('.ts') ? ['--import', 'tsx'] : [];
  const run = (folder: string) =>
    new Promise<{ code: number | string | null | undefined; stdout: string }>((done) =>
      execFile(process.execPath, [...loader, check, folder], { cwd: projectRoot }, (error, stdout) =>
        done({ code: error?.code ?? 0, stdout }),
      ),
    );
  const broken = await run(root);
  assert.equal(broken.code, 1);
  assert.match(broken.stdout, /proto\/a\.ts:2: error: wall: imports cmd\/b\.ts, but/);
  const clean = await run(await tree(t, { 'proto/a.ts': '' }));
  assert.deepEqual(clean, { code: 0, stdout: 'The walls stand.\n' });
});

test('a line of the product is written as the others are', async (t) => {
  const lines = [
    `// ${'x'.repeat(118)}`,
    'const maxWait = 5;',
    'const MAX_WAIT = 5;',
    "export const name = 'x';",
    'const list = [1];',
    'class A {',
    '  private a = 1;',
    '  private constructor() {}',
    '  #b = 2;',
    '}',
    'f({ ...{ a, b }, c });',
    'f({ ...(d ? { a } : {}), ...e });',
    '// Never twice (hazard X12).',
  ];
  const odd = async (file: string) =>
    checkWalls(await tree(t, { [file]: lines.join('\n') }))
      .filter(({ rule }) => rule === 'idiom')
      .map(({ line }) => line);
  assert.deepEqual(await odd('actors/auth/a.ts'), [1, 2, 4, 7, 11, 13]);
  assert.deepEqual(await odd('supervision/a.ts'), [1, 2, 4, 11, 13]);
  assert.deepEqual(await odd('test/a.test.ts'), [13]);
  assert.deepEqual(await odd('bench/a.ts'), [13]);
});

test('a test waits for conditions, and says why where it waits for time', async (t) => {
  const lines = [
    "import { setTimeout as delay } from 'node:timers/promises';",
    'await new Promise((resolve) => setTimeout(resolve, 10));',
    'await new Promise<void>((resolve) => {',
    '  setTimeout(resolve, 10);',
    '});',
    "await pause(10, 'pace');",
    'const timer = setTimeout(() => child.kill(), 1000);',
  ];
  const odd = async (file: string) =>
    checkWalls(await tree(t, { [file]: lines.join('\n') })).map(({ line, rule }) => `${line} ${rule}`);
  assert.deepEqual(await odd('test/a.test.ts'), ['1 idiom', '2 idiom', '4 idiom']);
  assert.deepEqual(await odd('test/support/pause.ts'), []);
});

test('every export of the product has a reader', () => {
  const files = new Map(sourceFiles(projectRoot).map((file) => [file, readFileSync(join(projectRoot, file), 'utf8')]));
  assert.deepEqual(
    unusedExports(files, (file) => !/^(test|bench)\//.test(file)),
    [],
  );
});

test('a type has a name of its own in the product', () => {
  const places = new Map<string, string[]>();
  for (const file of sourceFiles(projectRoot).filter((path) => !/^(test|bench)\//.test(path)))
    for (const [, name = ''] of readFileSync(join(projectRoot, file), 'utf8').matchAll(
      /^(?:export )?(?:declare )?(?:abstract )?(?:interface|type|class|enum) (\w+)/gm,
    ))
      places.set(name, [...(places.get(name) ?? []), file]);
  assert.deepEqual(
    [...places].filter(([, files]) => files.length > 1),
    [],
  );
});

test('an export without a reader is found, and one with a reader is not, however it is read', () => {
  const files = new Map([
    [
      'proto/a.ts',
      'export const one = 1;\nexport type Two = 2;\nexport async function three() {}\nexport class Four {}\n',
    ],
    ['proto/b.ts', 'export interface Five {}\n'],
    ['proto/c.ts', 'export const six = 6;\nexport const seven = 7;\n'],
    [
      'test/d.ts',
      "import {\n  one as uno,\n  type Two,\n} from '../proto/a.ts';\nimport * as all from '../proto/b.ts';\n",
    ],
    ['test/e.ts', "const { six } = await import('../proto/c.ts');\n"],
  ]);
  const names = unusedExports(files, (file) => file.startsWith('proto/')).map(({ line, name }) => `${line} ${name}`);
  assert.deepEqual(names, ['3 three', '4 Four']);
});
