import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesOf, millisOf } from '../../transports/engines/kubernetes/metrics-api.ts';
import {
  externalAddressOf,
  podView,
  problemOf,
  serviceView,
  stateOf,
} from '../../transports/engines/kubernetes/views.ts';

const spec = {
  image: 'registry.example/a/b:1',
  hostname: 'h',
  cpus: 1,
  memoryMb: 256,
  storageGb: 1,
  mountPaths: ['/root'],
};

function pod(status: object, metadata: object = {}) {
  return podView.parse({ metadata: { name: 'container-0', ...metadata }, status });
}
const waiting = (reason: string, message = '') =>
  pod({ containerStatuses: [{ name: 'container', state: { waiting: { reason, message } } }] });

test('what keeps a pod from running is told in words, and whether it may pass', () => {
  const table: [ReturnType<typeof pod>, string, RegExp][] = [
    [
      waiting('ErrImagePull', 'manifest unknown'),
      'image_not_found',
      /registry\.example\/a\/b:1 cannot be pulled: manifest unknown/,
    ],
    [waiting('ErrImagePull', 'pull access denied, repository does not exist'), 'image_not_found', /access denied/],
    [waiting('ErrImagePull', 'dial tcp 192.0.2.1:443: i/o timeout'), 'unavailable', /i\/o timeout/],
    [waiting('InvalidImageName'), 'image_not_found', /InvalidImageName/],
    [waiting('CreateContainerError', 'no command specified'), 'refused', /cannot be started: no command specified/],
    [
      pod({
        initContainerStatuses: [{ name: 'prepare', state: { terminated: { exitCode: 1, message: 'disk full' } } }],
      }),
      'refused',
      /data cannot be prepared: disk full/,
    ],
    [
      pod({
        conditions: [
          {
            type: 'PodScheduled',
            status: 'False',
            reason: 'Unschedulable',
            message: '0/3 nodes are available: 3 Insufficient memory.',
          },
        ],
      }),
      'unavailable',
      /No node of the cluster has room for it: 0\/3 nodes/,
    ],
  ];
  for (const [seen, code, message] of table) {
    const { error } = problemOf(seen, spec.image) ?? assert.fail(`nothing said of ${message}`);
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
  }
  assert.equal(problemOf(waiting('ContainerCreating'), spec.image), undefined);
  assert.equal(problemOf(waiting('ImagePullBackOff', 'Back-off pulling image "x"'), spec.image)?.isVague, true);
  assert.equal(
    problemOf(waiting('ImagePullBackOff', 'Back-off pulling image "x": ErrImagePull: not found'), spec.image)?.isVague,
    false,
  );
});

test('memory that was used up, an eviction and a stop are told apart', () => {
  const ended = (terminated: object, more: object = {}) =>
    stateOf(
      'a',
      spec,
      pod({ phase: 'Failed', containerStatuses: [{ name: 'container', state: { terminated } }], ...more }),
      undefined,
    );
  const oom = ended({ exitCode: 137, reason: 'OOMKilled', startedAt: '2026-01-01T00:00:00Z' });
  assert.deepEqual([oom.phase, oom.exitCode, oom.oomKilled], ['exited', 137, true]);
  assert.equal(oom.startedAt, Date.parse('2026-01-01T00:00:00Z'));
  assert.equal(ended({ exitCode: 3, reason: 'Error' }).oomKilled, false);
  const evicted = stateOf('a', spec, pod({ phase: 'Failed', reason: 'Evicted' }), undefined);
  assert.deepEqual([evicted.phase, evicted.exitCode], ['exited', 137]);
  const stopped = stateOf('a', spec, undefined, { exitCode: 143, oomKilled: false, startedAt: 5 });
  assert.deepEqual([stopped.phase, stopped.exitCode, stopped.startedAt], ['exited', 143, 5]);
  assert.equal(stateOf('a', spec, undefined, undefined).phase, 'created');
});

test('a service without an address is nowhere, and one may have a name instead', () => {
  const of = (ingress?: object[]) =>
    externalAddressOf(
      serviceView.parse({ metadata: { name: 's' }, status: { loadBalancer: ingress ? { ingress } : {} } }),
    );
  assert.deepEqual(
    [of(), of([]), of([{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }]), of([{ hostname: 'x.example' }])],
    ['', '', '192.0.2.1', 'x.example'],
  );
});

test('quantities are numbers', () => {
  assert.deepEqual(['12Ki', '1Gi', '2M', '5', 'x'].map(bytesOf), [12_288, 2 ** 30, 2_000_000, 5, 0]);
  assert.deepEqual(['250m', '2', '1500000n', '3u', '-1'].map(millisOf), [250, 2000, 2, 0, 0]);
});
