import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { projectRoot } from '../support/project.ts';

const lockfile = z.object({
  packages: z.record(
    z.string(),
    z.object({ resolved: z.string().optional(), optionalDependencies: z.record(z.string(), z.string()).optional() }),
  ),
});

test('the lockfile names every optional package, also those of other platforms', async () => {
  const { packages } = lockfile.parse(JSON.parse(await readFile(join(projectRoot, 'package-lock.json'), 'utf8')));
  // npm leaves out packages that it could not look up when it wrote the file, and npm ci then refuses it.
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) =>
        packages[`node_modules/${name}`] === undefined && packages[`${path}/node_modules/${name}`] === undefined,
    ),
  );
  assert.deepEqual(missing, []);
});

test('the lockfile names no registry', async () => {
  const { packages } = lockfile.parse(JSON.parse(await readFile(join(projectRoot, 'package-lock.json'), 'utf8')));
  assert.deepEqual(
    Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined),
    [],
  );
});
