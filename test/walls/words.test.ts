/** One word for one thing, in the whole project. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { projectRoot } from '../support/project.ts';
import { sourceFiles } from './check.ts';
import { declaredIn, formerWords, glossaryOf, namesOf } from './words.ts';

const read = (file: string) => readFileSync(join(projectRoot, file), 'utf8');
const product = sourceFiles(projectRoot).filter((file) => !/^(?:test|bench)\//.test(file));

/** Pages of the project. */
function pages(): string[] {
  const docs = readdirSync(join(projectRoot, 'docs'), { recursive: true, encoding: 'utf8' }).map(
    (page) => `docs/${page}`,
  );
  return [...docs, 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'].filter((page) => page.endsWith('.md'));
}

test('former words stand in no file name, identifier, message, comment or page', () => {
  const found = [...sourceFiles(projectRoot), ...pages()].flatMap((file) =>
    formerWords(file, read(file)).map(({ line, message }) => `${file}:${line} ${message}`),
  );
  assert.deepEqual(found, []);
});

test('a former word is found in every form it takes', () => {
  const found = (file: string, text: string) => formerWords(file, text).map(({ line }) => line);
  assert.deepEqual(found('cmd/a.ts', 'ok\nconst metricsDoor = 1;\n'), [2]);
  assert.deepEqual(found('cmd/a.ts', 'it vouches for Leavers\n// at the DOORS\nheeded'), [1, 1, 2, 3]);
  assert.deepEqual(found('cmd/metrics-door.ts', ''), [1]);
  assert.deepEqual(found('cmd/a.ts', 'relayOnce()'), [1]);
  assert.deepEqual(found('cmd/a.ts', 'once indoors, the kind of desktop needs a look in'), []);
  assert.deepEqual(found('proto/gateway/gateway-token.ts', 'vouches at the door'), [1]);
});

test('a term of the glossary is defined in one file, and nothing elsewhere has its name', () => {
  const rows = glossaryOf(read('ARCHITECTURE.md'));
  assert.ok(rows.length > 0, 'there is a glossary');
  const terms = rows.map(({ term }) => term.toLowerCase());
  assert.deepEqual(terms, [...new Set(terms)].sort(), 'each term has one row, in order');
  const declared = new Map(product.map((file) => [file, declaredIn(read(file))]));
  const found = rows.flatMap(({ term, word, file }) => {
    if (!existsSync(join(projectRoot, file))) return [`${term}: there is no ${file}`];
    const defining = rows.filter((row) => row.word === word).map((row) => row.file);
    return [...declared].flatMap(([other, names]) =>
      namesOf(word)
        .filter((name) => names.includes(name) && !defining.includes(other))
        .map((name) => `${term} is ${name} of ${other}, too`),
    );
  });
  assert.deepEqual(found, []);
});
