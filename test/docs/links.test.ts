/** The project's pages lead somewhere: every link in them, and every page that is named in a source. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { test } from 'node:test';
import { anchorsOf, linksOf } from '../support/docs/markdown.ts';
import { projectRoot } from '../support/project.ts';

const SKIPPED = /^(node_modules|dist|coverage|\.git|\.troupe)(\/|$)/;
/** Applied migrations are never edited: what they name may have moved since. */
const FROZEN = /^storage\/migrations\//;
const SOURCES = /\.(md|ts|mjs|sql|ya?ml|json|proto|sh)$|(^|\/)Dockerfile$/;

const files = filesBelow(projectRoot);
const read = (file: string) => readFileSync(join(projectRoot, file), 'utf8');

test('every relative link of a page leads to a file and an anchor that exist', () => {
  const pages = files.filter((file) => file.endsWith('.md'));
  assert.ok(pages.length > 10);
  const broken = pages.flatMap((page) =>
    linksOf(read(page)).flatMap(({ path, anchor, line }) => {
      const target = path === '' ? page : join(dirname(page), path);
      const where = `${page}:${line}: ${path}${anchor === undefined ? '' : `#${anchor}`}`;
      if (target.startsWith('..') || !existsSync(join(projectRoot, target))) return [`${where}: no such file`];
      if (anchor === undefined || !target.endsWith('.md') || anchorsOf(read(target)).has(anchor)) return [];
      return [`${where}: no such heading`];
    }),
  );
  assert.deepEqual(broken, []);
});

test('every page of docs/ that a file of the project names exists', () => {
  const named = files
    .filter(
      (file) =>
        SOURCES.test(file) && file !== 'package-lock.json' && !FROZEN.test(file) && !file.startsWith('test/docs/'),
    )
    .flatMap((file) => [...read(file).matchAll(/\bdocs\/[\w/-]+\.md\b/g)].map(([page]) => ({ file, page })));
  assert.ok(named.length > 10);
  assert.deepEqual(
    named.filter(({ page }) => !existsSync(join(projectRoot, page))),
    [],
  );
});

test('every file and folder of the project that a page names exists', () => {
  const places =
    /(?<![\w./-])(?:proto|supervision|actors|storage|transports|cmd|test|bench|deploy|scripts|lib|bin)\/[\w./*{},<>-]*/g;
  const named = files
    .filter((file) => file.endsWith('.md'))
    .flatMap((file) =>
      [...read(file).matchAll(places)].map(([place]) => ({ file, place: place.replace(/[.,]+$/, '') })),
    )
    // Patterns, and examples such as `actors/x`.
    .filter(({ place }) => !/[*{<]|NNNN|\/[a-z]$/.test(place));
  assert.ok(named.length > 50);
  assert.deepEqual(
    named.filter(({ place }) => !existsSync(join(projectRoot, place))),
    [],
  );
});

test('links are read as they are shown: not those in code, not those to other places', () => {
  const page = [
    '[a](b.md) and [c](d/e.md#f "title"), `[not](code.md)`',
    '```md',
    '[not](fenced.md)',
    '```',
    '[out](https://example.com/x) [mail](mailto:a@example.com) [here](#there)',
    '[named]: g.md',
  ].join('\n');
  assert.deepEqual(linksOf(page), [
    { path: 'b.md', anchor: undefined, line: 1 },
    { path: 'd/e.md', anchor: 'f', line: 1 },
    { path: '', anchor: 'there', line: 5 },
    { path: 'g.md', anchor: undefined, line: 6 },
  ]);
});

test('anchors are made of headings as GitHub makes them', () => {
  const page =
    '# The `up` command\n## Ports: 80, 443\n```\n# no heading\n```\n## [Ports](x.md): 80, 443 ##\n### A_b – c';
  assert.deepEqual([...anchorsOf(page)], ['the-up-command', 'ports-80-443', 'ports-80-443-1', 'a_b--c']);
});

/** Paths from `root`, with `/`, of all files that belong to the project. */
function filesBelow(root: string, folder = ''): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = relative(root, join(root, folder, entry.name))
      .split(sep)
      .join('/');
    if (SKIPPED.test(path)) return [];
    return entry.isDirectory() ? filesBelow(root, path) : [path];
  });
}

test('every test that a page names by its title exists in that file', () => {
  const named = files
    .filter((file) => file.startsWith('docs/'))
    .flatMap((page) =>
      [...read(page).matchAll(/`(test\/[\w/.-]+\.test\.ts)`: "([^"]+)"/g)].map(([, file = '', title = '']) => ({
        page,
        file,
        title,
      })),
    );
  assert.ok(named.length > 20);
  assert.deepEqual(
    named.filter(({ file, title }) => !existsSync(join(projectRoot, file)) || !read(file).includes(`'${title}'`)),
    [],
  );
});
