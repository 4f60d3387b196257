/** The hint of a step that lacks a program names that program, and the image that has it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hintOnMissing, missingProgram } from '../../cmd/client/deploy/missing-program.ts';

test('the missing program is read of what shells say', () => {
  for (const [line, program] of [
    ['/root/app/releases/new-1/build: 1: python3: not found', 'python3'],
    ['../start: 1: exec: python3: not found', 'python3'],
    ['sh: 1: vite: not found', 'vite'],
    ['bash: line 1: npm: command not found', 'npm'],
    ["/usr/bin/env: 'node': No such file or directory", 'node'],
    ['/usr/bin/env: ‘node’: No such file or directory', 'node'],
    ['sh: g++: not found', 'g++'],
  ] as const)
    assert.equal(
      missingProgram(['npm warn deprecated', line, 'A program that it calls is not in the container.']),
      program,
    );
  for (const line of ['Error: Page not found', '404 /x: not found here', 'module x: is not found.'])
    assert.equal(missingProgram([line]), undefined, line);
});

test('the hint names the image of the platform that has it, as it is called here', () => {
  assert.equal(
    hintOnMissing('pip3', 'my shop', 'troupe'),
    "pip3 is not in the container. The image python has it: troupe update 'my shop' --image python",
  );
  assert.match(hintOnMissing('npm', 'shop', 'ssh x'), /The image node has it: ssh x update shop --image node$/);
  assert.match(
    hintOnMissing('vite', 'shop', 'troupe'),
    /^vite is not in the container\. Let the build install it, or /,
  );
});
