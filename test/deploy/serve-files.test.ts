/** troupe-serve of the base image, with this machine's nginx: what of a folder is served, and how. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { projectRoot } from '../support/project.ts';
import { skipWithout } from '../support/require.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PROGRAM = join(projectRoot, 'deploy/base-image/rootfs/usr/local/sbin/troupe-serve');

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

type Site = (path: string, headers?: Readonly<Record<string, string>>, method?: string) => Promise<Answer>;

/** Serves the files, and resolves with what asks for a path, as it is written. */
async function serve(t: TestContext, files: Readonly<Record<string, string | Buffer>>): Promise<Site> {
  const children: ChildProcess[] = [];
  // Before its folders go.
  t.after(() => Promise.all(children.map(end)));
  // A path whose characters would mean something in nginx's settings.
  const folder = join(await tempDir(t), 'a $site;{}');
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  const port = await freePort();
  const env = { ...process.env, PORT: `${port}`, TROUPE_RUN: await tempDir(t) };
  const child = spawn('/bin/sh', [PROGRAM, folder], { env, stdio: ['ignore', 'inherit', 'inherit'] });
  children.push(child);
  const ask: Site = async (path, headers = {}, method = 'GET') => {
    const asking = request({ host: '127.0.0.1', port, path, headers, method, agent: false });
    asking.end();
    const [answer] = await once(asking, 'response');
    return { status: answer.statusCode, headers: answer.headers, body: await buffer(answer) };
  };
  await until(
    () =>
      ask('/').then(
        () => true,
        () => child.exitCode !== null,
      ),
    { what: 'it serves' },
  );
  return ask;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

async function statuses(ask: Site, paths: readonly string[]): Promise<Record<string, number | undefined>> {
  const all = await Promise.all(paths.map(async (path) => [path, (await ask(path)).status] as const));
  return Object.fromEntries(all);
}

describe('a static site', { skip: skipWithout('nginx') }, () => {
  test('has its pages and files, and neither dot files nor lists of folders', async (t) => {
    const ask = await serve(t, {
      'index.html': 'home',
      '404.html': 'not here',
      'about.html': 'about',
      'docs/index.html': 'docs',
      'files/a.txt': 'a',
      'with blank/ü.txt': 'b',
      '.env': 'canary',
      '.git/config': 'canary',
      'sub/.htpasswd': 'canary',
      '.well-known/acme/token': 'well known',
      '.well-known/.env': 'canary',
      'troupe.toml': 'canary',
    });
    const found = {
      ...{ '/': 200, '/index.html': 200, '/about': 200, '/about.html': 200, '/docs': 301, '/docs/': 200 },
      ...{ '/files/a.txt': 200, '/with%20blank/%C3%BC.txt': 200, '/.well-known/acme/token': 200, '/?a=b': 200 },
    };
    assert.deepEqual(await statuses(ask, Object.keys(found)), found);
    assert.equal((await ask('/docs', { host: 'example.com' })).headers.location, '/docs/');
    assert.equal((await ask('/about')).body.toString(), 'about');
    const hidden = [
      ...['/.env', '/%2eenv', '/.git/config', '/.git/', '/sub/.htpasswd', '/.well-known/.env', '/troupe.toml'],
      ...['/files/', '/sub/', '/nothing', '/nothing/deep.js', '/404.html', '/.html', '/docs/../.env'],
    ];
    for (const path of hidden) {
      const { status, body, headers } = await ask(path);
      assert.deepEqual([path, status, body.toString()], [path, 404, 'not here']);
      assert.equal(headers['cache-control'], 'no-cache');
    }
    for (const path of ['/../../etc/passwd', '/..%2f..%2fetc/passwd', '/%00'])
      assert.equal((await ask(path)).status, 400, path);
    assert.equal((await ask('/', {}, 'POST')).status, 405);
  });

  test('answers paths of pages with index.html where it has no 404.html', async (t) => {
    const ask = await serve(t, { 'index.html': 'app', 'assets/app.js': 'x', 'empty/x.txt': 'x', '.env': 'canary' });
    const wanted = {
      ...{ '/cart': 200, '/cart/': 200, '/shop/1/edit': 200, '/empty/': 200, '/cart?next=/a.b': 200 },
      ...{ '/assets/gone.js': 404, '/favicon.ico': 404, '/.env': 404, '/troupe.toml': 404, '/.hidden/x': 404 },
    };
    assert.deepEqual(await statuses(ask, Object.keys(wanted)), wanted);
    const { body, headers } = await ask('/cart');
    assert.deepEqual([body.toString(), headers['content-type']], ['app', 'text/html; charset=utf-8']);
    const without = await serve(t, { 'page.html': 'x' });
    assert.deepEqual(await statuses(without, ['/page', '/', '/nothing']), { '/page': 200, '/': 404, '/nothing': 404 });
  });

  test('has types, parts, compressed files, and 304 for what has not changed', async (t) => {
    const words = 'words '.repeat(1000);
    const ask = await serve(t, {
      'index.html': words,
      'a.mjs': 'x',
      'a.svg': '<svg/>',
      'a.webmanifest': '{}',
      'a.wasm': 'x',
      'a.woff2': 'x',
      'a.unknown': 'x',
      'ready.css': words,
      'ready.css.gz': gzipSync('packed before'),
    });
    const types = {
      ...{ '/': 'text/html; charset=utf-8', '/a.svg': 'image/svg+xml; charset=utf-8', '/a.woff2': 'font/woff2' },
      ...{ '/a.webmanifest': 'application/manifest+json; charset=utf-8', '/a.unknown': 'application/octet-stream' },
    };
    for (const [path, type] of Object.entries(types)) {
      const { headers } = await ask(path);
      assert.deepEqual([headers['content-type'], headers['x-content-type-options']], [type, 'nosniff'], path);
    }
    assert.match(
      String((await ask('/a.mjs')).headers['content-type']),
      /^(text|application)\/javascript; charset=utf-8$/,
    );
    const packed = await ask('/', { 'accept-encoding': 'gzip' });
    assert.equal(packed.headers['content-encoding'], 'gzip');
    assert.equal(packed.headers.vary, 'Accept-Encoding');
    assert.equal(gunzipSync(packed.body).toString(), words);
    assert.ok(packed.body.length < 200);
    const ready = await ask('/ready.css', { 'accept-encoding': 'gzip' });
    assert.equal(gunzipSync(ready.body).toString(), 'packed before');
    assert.equal((await ask('/ready.css')).body.toString(), words);
    const part = await ask('/ready.css', { range: 'bytes=6-10' });
    assert.deepEqual([part.status, part.body.toString()], [206, 'words']);
    assert.equal(part.headers['content-range'], `bytes 6-10/${words.length}`);
    assert.equal((await ask('/ready.css', { range: 'bytes=9999-' })).status, 416);
    for (const sent of [packed, await ask('/')]) {
      const { etag, 'last-modified': modified } = sent.headers;
      assert.equal((await ask('/', { 'if-none-match': String(etag) })).status, 304);
      assert.equal((await ask('/', { 'if-modified-since': String(modified) })).status, 304);
      assert.equal((await ask('/', { 'if-none-match': '"another"' })).status, 200);
    }
    const head = await ask('/', {}, 'HEAD');
    assert.deepEqual([head.headers['content-length'], head.body.length], [`${words.length}`, 0]);
  });

  test('lets names with a hash of the content be kept for a year, and no others', async (t) => {
    const kept = [
      ...['main.3fa94c07.js', 'main.3fa94c07be51d286.chunk.js.map', '3fa94c07be51d2860a3b.js', 'base.27e20196a850.css'],
      ...['img/logo-DkX3a9L1.png', 'chunk-4QK2RZ7A.js', 'styles.min.3fa94c07be51d286.css', '_astro/page.css'],
      ...['_next/static/chunks/main.js', '_app/immutable/entry.js', '_nuxt/entry.js'],
    ];
    const others = [
      ...[
        'index.html',
        'main.js',
        'jquery-3.7.1.min.js',
        'report-20240115.pdf',
        'report-12feb2024.pdf',
        'a-01dec24.txt',
      ],
      ...['photo-1920x1080.jpg', 'photo-iPhone15.png', 'menu-dropDown.svg', 'index-keyboard.js', 'deadbeef.js'],
      ...['_nuxt/builds/latest.json', 'facade.css', 'my-Photo123.png', '3fa94c07.html.txt.old.bak'],
    ];
    const files = Object.fromEntries([...kept, ...others].map((name) => [name, 'x']));
    const ask = await serve(t, files);
    for (const name of [...kept, ...others]) {
      const wanted = kept.includes(name) ? 'public, max-age=31536000, immutable' : 'no-cache';
      assert.equal((await ask(`/${name}`)).headers['cache-control'], wanted, name);
    }
    const { etag } = (await ask('/main.3fa94c07.js')).headers;
    const again = await ask('/main.3fa94c07.js', { 'if-none-match': String(etag) });
    assert.deepEqual([again.status, again.headers['cache-control']], [304, 'public, max-age=31536000, immutable']);
    for (const name of ['gone.3fa94c07.js', '_next/static/gone.js', 'gone-DkX3a9L1.png'])
      assert.equal((await ask(`/${name}`)).headers['cache-control'], 'no-cache', name);
  });

  test('takes hashes of letters alone for such where all files of `assets` have one, as Vite makes them', async (t) => {
    const vite = await serve(t, {
      'index.html': 'x',
      'assets/index-DiwrgTda.js': 'x',
      'assets/logo-a-Vk_2Qx3a.svg': 'x',
    });
    const kept = async (ask: Site, path: string) => (await ask(path)).headers['cache-control'] !== 'no-cache';
    assert.ok(await kept(vite, '/assets/index-DiwrgTda.js'));
    assert.ok(await kept(vite, '/assets/logo-a-Vk_2Qx3a.svg'));
    const mixed = await serve(t, { 'index.html': 'x', 'assets/index-DiwrgTda.js': 'x', 'assets/logo.svg': 'x' });
    assert.ok(!(await kept(mixed, '/assets/index-DiwrgTda.js')));
    const words = await serve(t, {
      'index.html': 'x',
      'assets/menu-dropdown.js': 'x',
      'assets/page-portrait.png': 'x',
    });
    assert.ok(!(await kept(words, '/assets/menu-dropdown.js')));
  });

  test('says what it lacks', async (t) => {
    const folder = await tempDir(t);
    const said = async (words: readonly string[], env: Readonly<Record<string, string>>) => {
      const child = spawn('/bin/sh', [PROGRAM, ...words], {
        env: { ...process.env, ...env },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      t.after(() => end(child));
      const text = buffer(child.stderr);
      const [code] = await once(child, 'exit');
      return [code, (await text).toString()];
    };
    assert.deepEqual(await said([folder], { PORT: 'x' }), [1, 'troupe-serve: PORT must be a number, not x\n']);
    const [code, text] = await said([join(folder, 'none')], { PORT: '8080', TROUPE_RUN: folder });
    assert.equal(code, 1);
    assert.match(String(text), /troupe-serve: there is no such folder\n$/);
  });
});
