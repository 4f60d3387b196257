/** The commands of README, the first guide and that to the HTTP API can be pasted. readme.long.test.ts runs them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { projectRoot } from '../support/project.ts';
import { blocksOf, commandsFor, placeholders } from '../support/readme/blocks.ts';

test('no block leaves something to be filled in', () => {
  const blocks = ['README.md', 'docs/guide/first-app.md', 'docs/guide/http-api.md'].flatMap(blocksOf);
  assert.ok(blocks.length > 20);
  for (const block of blocks) assert.deepEqual(placeholders(block), [], block);
});

test("README's two commands are there: one starts the platform, the other passes its tests", () => {
  const { scripts } = z
    .object({ scripts: z.record(z.string(), z.string()) })
    .parse(JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8')));
  for (const name of ['start', 'test'] as const) {
    assert.ok(scripts[name]);
    assert.equal(commandsFor(name).length, 1, name);
  }
});
