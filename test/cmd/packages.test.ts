/** What `up --install` installs: one question for all that is missing, and a platform also without a registry. */
import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readEnvironment } from '../../cmd/config/config.ts';
import { installPackages, missingPackages } from '../../cmd/node/packages.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';

const silent = { onProgress: () => {}, onNotice: () => {} };

/** A stand-in for apt-get that notes what it was told, and cannot install `unknown`. */
async function aptGet(t: Cleanup, unknown = 'no-such-package') {
  const path = join(await tempDir(t), 'apt-get');
  const notes = `${path}.notes`;
  const script = ['#!/bin/sh', `echo "$*" >> ${notes}`, `case "$*" in *" ${unknown}"*) echo E: none; exit 100;; esac`];
  await writeFile(path, `${script.join('\n')}\n`);
  await chmod(path, 0o755);
  const installed = async () =>
    [...(await readFile(notes, 'utf8').catch(() => '')).matchAll(/^install .*Timeout=\d+ (.*)$/gm)].map(
      ([, names]) => names,
    );
  return { path, installed };
}

test('packages that are missing are named in one question, and installed after a yes', async (t) => {
  const apt = await aptGet(t);
  const questions: string[] = [];
  const ask = async (question: string) => questions.push(question) > 0;
  await installPackages(['docker.io', 'mmdebstrap', 'docker-registry'], {
    ask,
    aptGet: apt.path,
    ...silent,
  });
  assert.equal(questions.length, 1);
  for (const name of ['docker.io', 'mmdebstrap', 'docker-registry']) assert.ok(questions[0]?.includes(name), name);
  assert.deepEqual(await apt.installed(), ['docker.io mmdebstrap', 'docker-registry']);
});

test('nothing is asked where nothing is missing, and nothing installed after a no', async (t) => {
  const apt = await aptGet(t);
  let asked = 0;
  const ask = async () => {
    asked++;
    return false;
  };
  await installPackages([], { ask, aptGet: apt.path, ...silent });
  assert.equal(asked, 0);
  await installPackages(['mmdebstrap'], { ask, aptGet: apt.path, ...silent });
  assert.equal(asked, 1);
  assert.deepEqual(await apt.installed(), []);
});

test('a registry that cannot be installed is told, and does not keep the platform from starting', async (t) => {
  const apt = await aptGet(t, 'docker-registry');
  const lines: string[] = [];
  const options = {
    ask: async () => true,
    aptGet: apt.path,
    ...silent,
    onProgress: (line: string) => void lines.push(line),
  };
  await installPackages(['mmdebstrap', 'docker-registry'], options);
  assert.match(lines.at(-1) ?? '', /apt-get install failed: E: none/);
  const other = await aptGet(t, 'mmdebstrap');
  await assert.rejects(installPackages(['mmdebstrap'], { ...options, aptGet: other.path }), /apt-get install failed/);
});

test('what settings make needless is not missing', () => {
  const settings = { DEFAULT_IMAGE: 'app:1', REGISTRY: 'off', DOCKER_HOST: 'unix:///nowhere' };
  assert.deepEqual(missingPackages(readEnvironment(settings), undefined), []);
});
