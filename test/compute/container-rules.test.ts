import assert from 'node:assert/strict';
import { test } from 'node:test';
import { afterFailure, crashDelay, driftOf, endOf, nextStep, REMOVED } from '../../actors/compute/container/rules.ts';
import type { HealthState } from '../../proto/compute/health.ts';
import { type ContainerState, EngineError } from '../../proto/ports/engine.ts';
import type { ContainerOutline } from '../../storage/compute/outlines.ts';

const actual = (phase: ContainerState['phase'], address: string | null = null): ContainerState => ({
  id: 'c1',
  phase,
  address,
  exitCode: null,
  oomKilled: false,
  restarts: 0,
  startedAt: null,
});
const row = (
  desired: 'running' | 'stopped' | 'deleted',
  status: 'pending' | 'initializing' | 'running' | 'stopped' | 'failed',
  address: string | null = null,
) => ({
  id: 'c1',
  desired,
  status,
  address,
  instanceType: 'micro' as const,
  externalAddress: null,
  memoryMb: 512,
  mountPaths: ['/root'],
  restart: false,
  predecessorSince: null,
  isPromoting: false,
  keysRevision: 1,
  keysApplied: 1,
  nextImage: undefined,
  healthState: null as HealthState | null,
  healthSince: null as Date | null,
  storageGb: 5,
  network: undefined,
  egress: null,
});

test('the next step follows from what is wanted and what is', () => {
  const table: [ContainerOutline, ContainerState | undefined, string][] = [
    [row('running', 'pending'), undefined, 'launch'],
    [row('running', 'pending'), actual('created'), 'launch'],
    [row('running', 'running', '10.0.0.2'), actual('exited'), 'launch'],
    [row('running', 'running', '10.0.0.2'), undefined, 'launch'],
    [row('running', 'initializing'), actual('running', '10.0.0.2'), 'probe'],
    [row('running', 'running', '10.0.0.2'), actual('running', '10.0.0.2'), 'settled'],
    [row('running', 'running', '10.0.0.2'), actual('running', '10.0.0.3'), 'probe'],
    [{ ...row('running', 'running', '10.0.0.2'), healthState: 'starting' }, actual('running', '10.0.0.2'), 'health'],
    [{ ...row('running', 'running', '10.0.0.2'), healthState: 'unhealthy' }, actual('running', '10.0.0.2'), 'settled'],
    [{ ...row('running', 'running', '10.0.0.2'), isPromoting: true }, actual('running', '10.0.0.2'), 'predecessor'],
    [row('stopped', 'stopped'), actual('running', '10.0.0.2'), 'stop'],
    [row('stopped', 'stopped'), actual('exited'), 'settled'],
    [row('stopped', 'stopped'), undefined, 'settled'],
    [row('running', 'failed'), actual('running', '10.0.0.2'), 'stop'],
    [row('running', 'failed'), actual('exited'), 'settled'],
    [row('deleted', 'stopped'), actual('exited'), 'remove'],
    [row('deleted', 'stopped'), undefined, 'remove'],
  ];
  const shop = { name: 'shop', alias: 'db', place: 2 };
  const member = { ...row('running', 'running', '10.0.0.2'), network: shop };
  const isRunning = actual('running', '10.0.0.2');
  const isIn = (change: object) => ({ owner: 'u1', ...shop, ...change });
  table.push(
    [member, { ...isRunning, network: isIn({}) }, 'settled'],
    [member, { ...isRunning, network: null }, 'join'],
    [member, { ...isRunning, network: isIn({ alias: null }) }, 'join'],
    [member, { ...isRunning, network: isIn({ place: 3 }) }, 'join'],
    // An engine that has no private networks does not say.
    [member, isRunning, 'settled'],
    [row('running', 'running', '10.0.0.2'), { ...isRunning, network: isIn({}) }, 'join'],
    [{ ...member, desired: 'stopped', status: 'stopped' }, { ...actual('exited'), network: null }, 'join'],
    [{ ...member, desired: 'stopped', status: 'stopped' }, undefined, 'settled'],
  );
  for (const [wanted, is, step] of table) {
    assert.equal(nextStep(wanted, is), step, `${wanted.desired}/${wanted.status} and ${is?.phase}`);
  }
});

test('a container that runs, but not as its row says, is mended', () => {
  const runs = row('running', 'running', '10.0.0.2');
  const is = { ...actual('running', '10.0.0.2'), mountPaths: ['/root'], limits: { cpus: 1, memoryMb: 512 } };
  assert.equal(nextStep(runs, is), 'settled');
  assert.equal(nextStep({ ...runs, restart: true }, is), 'restart');
  assert.equal(nextStep({ ...runs, mountPaths: ['/root', '/data'] }, is), 'restart');
  assert.equal(nextStep(runs, { ...is, mountPaths: [] }), 'restart');
  assert.equal(nextStep(runs, { ...is, paused: true }), 'resume');
  assert.equal(nextStep(runs, { ...is, limits: { cpus: 2, memoryMb: 512 } }), 'adjust');
  assert.equal(nextStep(runs, { ...is, limits: { cpus: 1, memoryMb: 1024 } }), 'adjust');
  assert.equal(nextStep({ ...runs, keysRevision: 2 }, is), 'keys');
  assert.equal(nextStep(runs, { ...is, address: null }), 'restart');
  assert.equal(nextStep(runs, { ...is, externalAddress: '192.0.2.1' }), 'probe');
  assert.equal(nextStep({ ...runs, externalAddress: '192.0.2.1' }, { ...is, externalAddress: '192.0.2.1' }), 'settled');
  assert.equal(nextStep({ ...runs, nextImage: 'a/b:2' }, is), 'image');
  assert.equal(nextStep({ ...runs, nextImage: null, keysRevision: 2 }, is), 'keys');
  assert.equal(nextStep({ ...row('stopped', 'stopped'), nextImage: null }, actual('exited')), 'image');
  assert.equal(nextStep(runs, { ...is, limits: { cpus: 1, memoryMb: 512, storageGb: 5 } }), 'settled');
  assert.equal(nextStep(runs, { ...is, limits: { cpus: 1, memoryMb: 512, storageGb: 4 } }), 'adjust');
  const listed = ['203.0.113.0/24'];
  assert.equal(nextStep(runs, { ...is, egress: 'any' }), 'settled');
  assert.equal(nextStep(runs, { ...is, egress: 'unknown' }), 'adjust');
  assert.equal(nextStep({ ...runs, egress: [] }, { ...is, egress: 'any' }), 'adjust');
  assert.equal(nextStep({ ...runs, egress: [] }, { ...is, egress: [] }), 'settled');
  assert.equal(nextStep({ ...runs, egress: listed }, { ...is, egress: [] }), 'adjust');
  assert.equal(nextStep({ ...runs, egress: listed }, { ...is, egress: [...listed] }), 'settled');
  // Not while nobody wants it to run, and each only as long as it may help.
  assert.equal(
    nextStep({ ...runs, restart: true, desired: 'stopped', status: 'stopped' }, actual('exited')),
    'settled',
  );
  const clamped = { ...is, limits: { cpus: 0.5, memoryMb: 512 } };
  assert.equal(nextStep(runs, clamped, driftOf(runs, clamped)), 'settled');
  assert.equal(nextStep(runs, { ...clamped, limits: { cpus: 0.1, memoryMb: 512 } }, driftOf(runs, clamped)), 'adjust');
});

test('a missing image and a refusal are final, an engine that is away is tried again, ever more slowly', () => {
  assert.equal(afterFailure(new EngineError('image_not_found', 'no such image'), 1).reason, 'no such image');
  assert.equal(afterFailure(new EngineError('refused', 'no'), 1).reason, 'no');
  const waits = [1, 2, 3, 20].map((failures) => afterFailure(new EngineError('unavailable', 'away'), failures));
  assert.ok(waits.every((wait) => wait.reason === undefined));
  assert.deepEqual(
    waits.map((wait) => wait.retryMs),
    [1000, 2000, 4000, 30_000],
  );
  assert.equal(afterFailure(undefined, 1).reason, undefined);
});

test('restarts after crashes wait longer and longer, up to a bound', () => {
  assert.ok(crashDelay(2) < crashDelay(3));
  assert.equal(crashDelay(50), 30_000);
});

test('the reason of an end is told', () => {
  const started = { ...actual('exited'), startedAt: 5 };
  const reason = (end: ContainerState | undefined) => endOf({ status: 'running' }, end, undefined);
  assert.equal(reason({ ...started, exitCode: 3 }), 'it ended with exit code 3');
  assert.equal(reason({ ...started, oomKilled: true, exitCode: 137 }), 'it ran out of memory');
  assert.equal(reason(started), 'it ended');
  assert.match(reason(undefined) ?? '', /^it was removed from outside/);
});

test('an end counts once, and what never started has none', () => {
  const started = { ...actual('exited'), startedAt: 5 };
  assert.equal(endOf({ status: 'running' }, started, 5), undefined);
  assert.equal(endOf({ status: 'running' }, started, 4), 'it ended');
  assert.equal(endOf({ status: 'running' }, undefined, REMOVED), undefined);
  assert.equal(endOf({ status: 'initializing' }, undefined, undefined), undefined);
  assert.equal(endOf({ status: 'running' }, actual('created'), undefined), undefined);
  assert.equal(endOf({ status: 'pending' }, started, undefined), undefined);
});
