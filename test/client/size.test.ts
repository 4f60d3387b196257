import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { projectRoot } from '../support/project.ts';

const MOST_BYTES = 12_000;

test('a browser loads the library alone, in at most 12 kB', async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(projectRoot, 'client/index.ts')],
    absWorkingDir: projectRoot,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    write: false,
    metafile: true,
  });
  const inputs = Object.keys(metafile.inputs);
  assert.ok(inputs.length > 5);
  assert.deepEqual(
    inputs.filter((input) => !input.startsWith('client/') || input.startsWith('client/node/')),
    [],
  );
  const bytes = gzipSync(outputFiles[0]?.contents ?? '').length;
  assert.ok(bytes > 1000 && bytes <= MOST_BYTES, `${bytes} bytes`);
});
