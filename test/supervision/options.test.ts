import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ChildSpec,
  dispatch,
  type EntityKind,
  entities,
  query,
  type Ref,
  SpawnError,
  type SpawnOptions,
  type StatelessOptions,
  type SupervisorSpec,
  spawn,
  spawnStateless,
  startChild,
  startSupervisor,
  stats,
} from '../../supervision/index.ts';
import { until, withSystem } from '../support/supervision/system.ts';

const nothing = (): undefined => undefined;

/** What JavaScript, JSON and the environment hand over where a type was promised. */
function untyped<T>(value: object): T {
  const parsed: T = JSON.parse(JSON.stringify(value), (_key, each: unknown) =>
    each === 'NaN' ? Number.NaN : each === 'Infinity' ? Number.POSITIVE_INFINITY : each,
  );
  return parsed;
}

/** Whether it is the error of an option, and names it. */
const names =
  (option: string) =>
  (error: unknown): boolean =>
    error instanceof SpawnError && error.code === 'invalid' && error.message.startsWith(option);

const WRONG: readonly (readonly [option: string, options: object])[] = [
  ['name', { name: 7 }],
  ['kind', { kind: '' }],
  ['kind', { kind: 7 }],
  ['shutdownAfter', { shutdownAfter: {} }],
  ['shutdownAfter', { shutdownAfter: '10' }],
  ['shutdownAfter', { shutdownAfter: 'NaN' }],
  ['shutdownAfter', { shutdownAfter: -1 }],
  ['shutdownAfter', { shutdownAfter: 'Infinity' }],
  ['shutdownMs', { shutdownMs: '5' }],
  ['shutdownMs', { shutdownMs: 'NaN' }],
  ['mailbox.capacity', { mailbox: { capacity: 0 } }],
  ['mailbox.capacity', { mailbox: { capacity: '10' } }],
  ['mailbox.policy', { mailbox: { policy: 'drop-oldset' } }],
  ['intensity.max', { intensity: { max: 'NaN', withinMs: 1000 } }],
  ['intensity.max', { intensity: { withinMs: 1000 } }],
  ['intensity.withinMs', { intensity: { max: 1, withinMs: 'NaN' } }],
  ['intensity.withinMs', { intensity: { max: 1, withinMs: -1 } }],
  ['backoff.minMs', { backoff: { minMs: -1, maxMs: 10 } }],
  ['backoff.maxMs', { backoff: { minMs: 1, maxMs: '10' } }],
  ['backoff.maxMs', { backoff: { minMs: 20, maxMs: 10 } }],
  ['onCrash', { onCrash: 'reset' }],
  ['afterStop', { afterStop: 'close' }],
  ['initialStateFunc', { initialStateFunc: 7 }],
];

test('an option out of its range is refused where it is given, by name, and nothing is spawned', () =>
  withSystem(async (system) => {
    for (const [option, options] of WRONG) {
      const given = untyped<SpawnOptions<undefined, string>>(options);
      assert.throws(() => spawn(system, nothing, given), names(option), JSON.stringify(options));
      assert.throws(() => spawnStateless(system, nothing, given), names(option), JSON.stringify(options));
    }
    for (const concurrency of [0, 'NaN', '2']) {
      const given = untyped<StatelessOptions<string>>({ concurrency });
      assert.throws(() => spawnStateless(system, nothing, given), names('concurrency'));
    }
    assert.throws(() => spawn(system, untyped<() => undefined>({})), names('the handler'));
    assert.equal(stats(system).kinds.actor?.alive, 0);
  }));

test('the limits of an option are within its range', () =>
  withSystem(async (system) => {
    spawn(system, nothing, {
      shutdownAfter: 0,
      shutdownMs: 0,
      mailbox: { capacity: 1 },
      intensity: { max: 0, withinMs: 0 },
      backoff: { minMs: 0, maxMs: 0 },
    });
    for (const policy of ['reject', 'drop-oldest', 'drop-newest'] as const) {
      spawn(system, nothing, { mailbox: { policy } });
    }
    await until(() => stats(system).kinds.actor?.alive === 3, 'the idle one to stop');
  }));

test('the spec of a supervisor and of its children is checked where it is given', () =>
  withSystem(async (system) => {
    const child = { id: 'a', restart: 'permanent', shutdownMs: 10, start: () => spawn(system, nothing) } as const;
    const spec: SupervisorSpec = {
      name: 'service',
      strategy: 'one-for-one',
      intensity: { max: 1, withinMs: 1000 },
      children: [],
    };
    const wrong: readonly (readonly [string, object])[] = [
      ['strategy', { strategy: 'one-for-many' }],
      ['intensity.max', { intensity: { max: 'NaN', withinMs: 1 } }],
      ['intensity.withinMs', { intensity: { max: 1 } }],
      ['backoff.minMs', { backoff: { minMs: 'NaN', maxMs: 1 } }],
      ['children', { children: 'none' }],
    ];
    for (const [option, part] of wrong) {
      const given = { ...spec, ...untyped<Partial<SupervisorSpec>>(part) };
      assert.throws(() => startSupervisor(system, given), names(option), option);
    }
    const supervisor = await startSupervisor(system, spec);
    const wrongChildren: readonly (readonly [string, object])[] = [
      ['id', { id: '' }],
      ['restart', { restart: 'always' }],
      ['shutdownMs', { shutdownMs: 'NaN' }],
      ['start', { start: 7 }],
    ];
    for (const [option, part] of wrongChildren) {
      const given: ChildSpec = { ...child, ...untyped<Partial<ChildSpec>>(part) };
      assert.throws(() => startSupervisor(system, { ...spec, children: [given] }), names(option), option);
      await assert.rejects(startChild(supervisor, given), names(option), option);
    }
    assert.equal(stats(system).kinds.supervisor?.alive, 1);
  }));

test('what a kind of entities is given is checked before the first of them wakes', () =>
  withSystem(async (system) => {
    const kind: EntityKind<string, string> = {
      kind: 'thing',
      sleepAfterMs: 1000,
      activate: () => 'state',
      handle: (state) => state,
    };
    const wrong: readonly (readonly [string, object])[] = [
      ['kind', { kind: '' }],
      ['sleepAfterMs', { sleepAfterMs: 'NaN' }],
      ['coolDownMs', { coolDownMs: 'NaN' }],
      ['activateMs', { activateMs: 'NaN' }],
      ['decisionMs', { decisionMs: 'NaN' }],
      ['shutdownMs', { shutdownMs: -1 }],
      ['intensity.max', { intensity: { withinMs: 1 } }],
      ['backoff.maxMs', { backoff: { minMs: 1 } }],
      ['mailbox.policy', { mailbox: { policy: 'drop-all' } }],
    ];
    for (const [option, part] of wrong) {
      const given = { ...kind, ...untyped<Partial<EntityKind<string, string>>>(part) };
      assert.throws(() => entities(system, given), names(option), option);
    }
    assert.equal(stats(system).kinds.entities, undefined);
  }));

test('the time that an ask may take is checked whether its actor lives or not', () =>
  withSystem(async (system) => {
    const ref: Ref<object> = spawn(system, nothing);
    const gone: Ref<object> = spawn(system, nothing, { shutdownAfter: 0 });
    await until(() => stats(system).kinds.actor?.alive === 1, 'the end of one');
    for (const to of [ref, gone]) {
      for (const timeout of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
        assert.throws(() => query(to, (replyTo) => ({ replyTo }), timeout), names('timeoutMs'));
      }
    }
  }));

test('a kind may have any name, and is counted under it', () =>
  withSystem(async (system) => {
    for (const kind of ['__proto__', 'constructor', 'toString']) {
      const ref: Ref<string> = spawn(system, nothing, { kind });
      dispatch(ref, 'x');
      const numbers = () => Object.entries(stats(system).kinds).find(([name]) => name === kind)?.[1];
      await until(() => numbers()?.handled === 1, `${kind} in the numbers`);
      assert.equal(numbers()?.alive, 1);
    }
    assert.ok(JSON.stringify(stats(system)).includes('"__proto__":{"alive":1'));
  }));
