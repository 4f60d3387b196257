/** Which images a machine runs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unfitProblem } from '../../transports/engines/docker/image/architecture.ts';

test('an image for another kind of machine is told, unless an emulator runs it or nobody can tell', () => {
  const told = (architecture: string, machine: string, emulators: readonly string[] = []) =>
    unfitProblem('r.test/ann/app:1', { Os: 'linux', Architecture: architecture }, machine, (name) =>
      emulators.includes(name),
    );
  for (const [architecture, machine] of [
    ...[['amd64', 'amd64'] as const, ['386', 'amd64'] as const, ['arm', 'arm64'] as const],
    ...[['', 'amd64'] as const, ['loong64', 'amd64'] as const, ['arm64', 'loong64'] as const],
  ])
    assert.equal(told(architecture, machine), undefined, `${architecture} on ${machine}`);
  assert.equal(told('arm64', 'amd64', ['aarch64']), undefined);
  assert.equal(
    told('arm64', 'amd64', ['arm']),
    'The image r.test/ann/app:1 is for linux/arm64, and the platform runs linux/amd64: build it for that ' +
      '(docker build --platform linux/amd64), and push it again.',
  );
  assert.match(told('amd64', 'arm64') ?? '', /is for linux\/amd64, and the platform runs linux\/arm64/);
});
