/** What a browser loads before anything can be done, and what it must not load. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { buildOfConsole } from '../support/web/console-build.ts';

const MOST_BYTES = 150_000;

const { folder, skip } = buildOfConsole;
const read = (path: string) => readFileSync(join(folder, path));
const assets = () => readdirSync(join(folder, 'assets')).filter((name) => !/\.(gz|br)$/.test(name));
/** Files that the page names, as `src` or `href`. */
const named = () =>
  [
    ...read('index.html')
      .toString()
      .matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g),
  ].map(([, path = '']) => path);

test('the first load, with the list of containers and the fonts, is small', { skip }, () => {
  const first = new Set([
    'index.html',
    ...named(),
    ...assets()
      .filter((name) => name.endsWith('.woff2') || /^containers-/.test(name))
      .map((name) => `assets/${name}`),
  ]);
  const sizes = [...first].map(
    (path) => [path, path.endsWith('.woff2') ? read(path).length : gzipSync(read(path)).length] as const,
  );
  const total = sizes.reduce((sum, [, bytes]) => sum + bytes, 0);
  assert.ok(sizes.length >= 6, sizes.join('\n'));
  assert.ok(total <= MOST_BYTES, `${total} bytes:\n${sizes.join('\n')}`);
});

test('schemas and the terminal are not among it', { skip }, () => {
  const scripts = assets().filter((name) => name.endsWith('.js'));
  const holding = (mark: RegExp) => scripts.filter((name) => mark.test(read(`assets/${name}`).toString()));
  assert.deepEqual(holding(/ZodError|node:crypto/), []);
  const terminal = holding(/xterm-screen/);
  assert.equal(terminal.length, 1);
  assert.ok(!named().includes(`assets/${terminal[0]}`));
});

test('the page holds no script and no style of its own, and names its files with their hashes', { skip }, () => {
  const html = read('index.html').toString();
  assert.doesNotMatch(html, /<style|<script(?![^>]* src=)|\son\w+=|\sstyle=/i);
  // A font that is asked for with a hash is not the one that the sheet asks for: it would be loaded twice.
  const tags = [...html.matchAll(/<(?:script|link)(?! rel="preload")[^>]*"\/(assets\/[^"]+)"[^>]*>/g)];
  assert.ok(tags.length >= 2);
  for (const [tag, path = ''] of tags) {
    const hash = createHash('sha384').update(read(path)).digest('base64');
    assert.ok(tag.includes(`integrity="sha384-${hash}"`), tag);
  }
});

test('the fonts are loaded beside the script, as the sheet asks for them', { skip }, () => {
  const html = read('index.html').toString();
  const fonts = assets().filter((name) => name.endsWith('.woff2'));
  assert.ok(fonts.length > 0);
  for (const name of fonts) {
    const tag = `<link rel="preload" as="font" type="font/woff2" crossorigin href="/assets/${name}">`;
    assert.ok(html.includes(tag), `${tag}\n${html}`);
  }
});

test('each sheet says the order of the layers first', { skip }, () => {
  const order = /@layer [a-z, ]+;/.exec(readFileSync(join(folder, '../../web/styles/index.css'), 'utf8'))?.[0];
  const sheets = assets().filter((name) => name.endsWith('.css'));
  assert.ok(order !== undefined && sheets.length > 3);
  for (const name of sheets)
    assert.equal(read(`assets/${name}`).toString().split(';')[0], order.replaceAll(', ', ',').slice(0, -1), name);
});
