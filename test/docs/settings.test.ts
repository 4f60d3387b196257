/** Every variable that Troupe reads from its environment is described in docs/reference. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { projectRoot } from '../support/project.ts';

test('every setting is described in docs/reference', () => {
  const source = ['config', 'user-limits']
    .map((file) => readFileSync(join(projectRoot, `cmd/config/${file}.ts`), 'utf8'))
    .join('\n');
  const settings = [...source.matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm)].map(([, name = '']) => name);
  assert.ok(settings.length > 40, `${settings.length} settings`);
  const folder = join(projectRoot, 'docs/reference');
  const pages = readdirSync(folder).map((page) => readFileSync(join(folder, page), 'utf8'));
  const words = new Set(pages.flatMap((page) => page.match(/[A-Z][A-Z0-9_]+/g) ?? []));
  assert.deepEqual(
    settings.filter((name) => !words.has(name)),
    [],
  );
});
