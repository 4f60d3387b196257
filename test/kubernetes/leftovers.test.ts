/** A test that is killed leaves nothing of its cluster on the machine. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { projectRoot } from '../support/project.ts';
import { until } from '../support/until.ts';

const linesOf = (path: string, word: string): string[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line.includes(word));

/** Command lines of processes that name the folder. */
function processesOf(folder: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return '';
      }
    })
    .filter((line) => line.includes(`${folder}/`));
}

test('a test process that is killed leaves no program, mount, network link, container or file of its cluster', {
  skip: skipWithoutKubernetes(),
  timeout: 900_000,
}, async () => {
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', join(projectRoot, 'test/support/kubernetes/abandoned.ts')],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: projectRoot,
    },
  );
  try {
    const [said] = await once(child.stdout, 'data');
    const folder = String(said).trim();
    const bridge = readFileSync(join(folder, 'bridge'), 'utf8');
    const containers = readdirSync(join(folder, 'd/containers'));
    const inContainers = (): string[] =>
      readdirSync('/proc').filter((pid) => {
        try {
          const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8');
          return containers.some((id) => groups.includes(id));
        } catch {
          return false;
        }
      });
    assert.ok(processesOf(folder).length >= 6);
    assert.ok(containers.length >= 2 && inContainers().length >= 2);
    assert.ok(linesOf('/proc/self/mounts', folder).length >= 3);
    assert.ok(existsSync(`/sys/class/net/${bridge}`));
    child.kill('SIGKILL');
    await until(
      () =>
        !existsSync(folder) &&
        !existsSync(`/sys/class/net/${bridge}`) &&
        processesOf(folder).length === 0 &&
        inContainers().length === 0 &&
        linesOf('/proc/self/mounts', folder).length === 0,
      { timeoutMs: 60_000, everyMs: 100, what: 'all of it is gone' },
    );
    assert.equal(readdirSync('/var/log/pods').filter((name) => name.startsWith('default_lasting_')).length, 0);
  } finally {
    child.kill('SIGKILL');
  }
});
