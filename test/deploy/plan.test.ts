/** What a folder is taken for when it is deployed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { planOf, type TellingTexts } from '../../cmd/client/deploy/plan.ts';
import { type FolderSettings, settingsOf, withStart } from '../../cmd/client/deploy/settings.ts';

const plan = (texts: TellingTexts, settings: FolderSettings = {}, typed: FolderSettings = {}) =>
  planOf('My Shop', texts, settings, typed);

describe('a folder that is deployed', () => {
  test('says by its files what it is made from, how it is built and how it starts', () => {
    const cases: [TellingTexts, string | undefined, string | undefined, string | undefined][] = [
      [
        { 'package.json': '{"scripts":{"start":"x","build":"y"}}', 'package-lock.json': '{}' },
        'node',
        'npm ci\nnpm run build',
        'npm start',
      ],
      [{ 'package.json': '{"main":"src/main.js"}' }, 'node', 'npm install --no-audit --no-fund', 'node src/main.js'],
      [{ 'package.json': '{}', 'index.js': '' }, 'node', 'npm install --no-audit --no-fund', 'node index.js'],
      [{ 'package.json': '[]' }, 'node', 'npm install --no-audit --no-fund', undefined],
      [
        { 'requirements.txt': '', 'app.py': '' },
        'python',
        'python3 -m venv .venv\n.venv/bin/pip install -r requirements.txt',
        'python app.py',
      ],
      [{ 'pyproject.toml': '' }, 'python', 'python3 -m venv .venv\n.venv/bin/pip install .', undefined],
      [{ 'main.py': '' }, 'python', undefined, 'python3 main.py'],
      [{ 'server.js': '' }, 'node', undefined, 'node server.js'],
      [{ Procfile: 'worker: x\nweb:  ./run --port $PORT\n' }, undefined, undefined, './run --port $PORT'],
      [{ Dockerfile: '' }, undefined, undefined, undefined],
    ];
    const site = plan({ 'index.html': '' });
    assert.deepEqual(
      [site.image, site.build, site.start?.split('\n').at(-1)],
      [undefined, undefined, 'exec troupe-serve'],
    );
    for (const [texts, image, build, start] of cases) {
      const found = plan(texts);
      assert.deepEqual([found.image, found.build, found.start], [image, build, start], JSON.stringify(texts));
    }
  });

  test('is overruled by troupe.toml, and that by what was typed', () => {
    const texts = { 'package.json': '{"scripts":{"start":"x"}}' };
    const settings = { start: 'a', build: 'b', release: 'migrate', port: 1, health: '/up', name: 'of-toml' };
    assert.deepEqual(plan(texts, settings, { start: 'typed', build: '' }), {
      name: 'of-toml',
      image: 'node',
      build: undefined,
      release: 'migrate',
      start: 'typed',
      port: 1,
      check: { kind: 'http', path: '/up' },
      grace: 30,
      found: 'package.json',
    });
    assert.equal(plan(texts).name, 'my-shop');
    const procfile = { Procfile: 'release: npm run migrate\nweb: node web.js\n' };
    assert.deepEqual([plan(procfile).release, plan(procfile).start], ['npm run migrate', 'node web.js']);
    assert.equal(plan(procfile, {}, { release: '' }).release, undefined);
    assert.deepEqual(plan(texts, { health: 'tcp' }).check, { kind: 'tcp', path: '/' });
  });

  test('is refused with a sentence where it contradicts itself', async () => {
    assert.throws(() => plan({ 'package.json': '{' }), /package\.json is no JSON/);
    assert.throws(() => plan({}, { health: 'http://x' }), /must be a path such as \/healthz, tcp or none/);
    assert.throws(() => planOf('...', {}, {}, {}), /What is the app called\?/);
    await assert.rejects(settingsOf('port = "x"'), /troupe\.toml: port must be a whole number from 1 to 65535/);
    await assert.rejects(settingsOf('prot = 1'), /troupe\.toml: prot is not known: there is name, image/);
    await assert.rejects(settingsOf('exclude = "a"'), /exclude must be a list of texts/);
    await assert.rejects(settingsOf('port = '), /troupe\.toml cannot be read: /);
    assert.deepEqual(await settingsOf('address = "shop"'), { address: 'shop' });
    const networks = ['203.0.113.0/24', '198.51.100.7'];
    assert.deepEqual(await settingsOf(`egress = ${JSON.stringify(networks)}`), { egress: networks });
    assert.deepEqual(await settingsOf('egress = "none"'), { egress: 'none' });
    for (const egress of ['[]', '1', '""'])
      await assert.rejects(settingsOf(`egress = ${egress}`), /egress must be any, none, or networks such as 203/);
    assert.deepEqual(await settingsOf('port = 80\nexclude = ["a"]'), { port: 80, exclude: ['a'] });
  });

  test('says how it starts once somebody was asked for it', async () => {
    for (const start of ['perl server.pl', 'echo "a\\b" \'c\' # $PORT', 'a\tb\x7f\u00e9']) {
      assert.deepEqual(await settingsOf(withStart('', start)), { start });
      assert.deepEqual(await settingsOf(withStart('# mine\nport = 80\n', start)), { start, port: 80 });
    }
  });
});
