import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type LeaseStore, PlacementError, type ShardLease } from '../../proto/ports/placement.ts';
import { PlacementNode } from '../../supervision/placement/node.ts';
import { type NodeHooks, TIMINGS } from '../../supervision/placement/node-options.ts';
import { MemoryLeases } from '../../supervision/testing/index.ts';
import { silentLog } from '../support/log.ts';

const SHARDS = 4;
const NEVER = 2 ** 31 - 1;
const NAMES = ['a', 'b', 'c'] as const;

/** Three nodes on one clock. Every call to the store is held up twice, before and after its effect, until the test lets it go on. */
class Simulation {
  now = 0;
  readonly leases = new MemoryLeases(() => this.now);
  readonly gates: { readonly node: number; readonly open: () => void }[] = [];
  readonly frozen = new Set<number>();
  readonly unwell = new Set<number>();
  readonly left = new Set<number>();
  /** Epochs of accepted writes, by shard. */
  readonly writes: number[][] = Array.from({ length: SHARDS }, () => []);
  readonly nodes: PlacementNode[];

  constructor() {
    this.nodes = NAMES.map(
      (id, index) =>
        new PlacementNode({
          self: { id, roles: ['bank'], version: '1', address: id },
          store: this.slow(index),
          log: silentLog,
          shards: SHARDS,
          timings: { answerMs: NEVER },
          now: () => this.now,
          isWell: () => !this.unwell.has(index),
          hooks: { stopEntities: () => this.gate(index) },
        }),
    );
  }

  gate(node: number): Promise<void> {
    return new Promise((open) => this.gates.push({ node, open }));
  }

  slow(node: number): LeaseStore {
    const held =
      <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        await this.gate(node);
        const result = await call(...args);
        await this.gate(node);
        return result;
      };
    const { leases } = this;
    return {
      beat: held(leases.beat.bind(leases)),
      take: held(leases.take.bind(leases)),
      release: held(leases.release.bind(leases)),
      leave: held(leases.leave.bind(leases)),
    };
  }

  /** An entity of the shard begins a write under the epoch its node had then; the store sees it when the gate opens. */
  async write(index: number, shard: number): Promise<void> {
    const epoch = this.nodes[index]?.epochOf('bank', shard);
    if (epoch === undefined) return;
    const lease: ShardLease = { service: 'bank', shard, epoch };
    await this.gate(index);
    try {
      this.leases.fence(lease);
      this.writes[shard]?.push(epoch);
    } catch (error) {
      assert.ok(error instanceof PlacementError);
    }
  }

  /** Lets the n-th waiting call of those nodes that are not frozen go on. */
  open(n: number): void {
    const open = this.gates.filter(({ node }) => !this.frozen.has(node));
    const chosen = open[n % Math.max(1, open.length)];
    if (chosen === undefined) return;
    this.gates.splice(this.gates.indexOf(chosen), 1);
    chosen.open();
  }

  check(): void {
    // A frozen node answers nothing; asking it would wake it.
    const awake = this.nodes.filter((_, index) => !this.frozen.has(index));
    for (let shard = 0; shard < SHARDS; shard++) {
      const serving = awake.filter((node) => node.serves('bank', shard)).map(({ self }) => self.id);
      assert.ok(serving.length <= 1, `${serving.join(' and ')} serve shard ${shard}`);
      const row = this.leases.rows.get(`bank/${shard}`);
      const able = awake.filter((node) => row?.owner !== undefined && node.epochOf('bank', shard) === row.epoch);
      assert.ok(able.length <= 1, `${able.length} nodes can write shard ${shard}`);
      if (able[0] !== undefined) assert.equal(able[0].self.id, row?.owner);
      const epochs = this.writes[shard] ?? [];
      assert.ok((epochs.at(-1) ?? 0) >= (epochs.at(-2) ?? 0), 'a write came after one of a later epoch');
    }
  }

  /** All that can beat do so, and nothing is held up, until it stays as it is. */
  async settle(): Promise<void> {
    this.frozen.clear();
    this.unwell.clear();
    for (let round = 0; round < 8; round++) {
      this.now += TIMINGS.beatMs;
      for (const [index, node] of this.nodes.entries()) if (!this.left.has(index)) void node.beat();
      for (let quiet = 0; quiet < 2; quiet++) {
        await turn();
        if (this.gates.length > 0) quiet = 0;
        while (this.gates.length > 0) this.open(0);
      }
      this.check();
    }
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

const node = fc.nat(NAMES.length - 1);
const step = fc.oneof(
  { weight: 32, arbitrary: fc.record({ what: fc.constant('open' as const), n: fc.nat(20) }) },
  { weight: 16, arbitrary: fc.record({ what: fc.constant('beat' as const), n: node }) },
  {
    weight: 12,
    arbitrary: fc.record({ what: fc.constant('pass' as const), n: fc.constantFrom(10, 300, 1500, 4600, 7000) }),
  },
  {
    weight: 12,
    arbitrary: fc.record({ what: fc.constant('write' as const), n: node, shard: fc.nat(SHARDS - 1) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      what: fc.constantFrom('freeze' as const, 'thaw' as const, 'unwell' as const, 'well' as const),
      n: node,
    }),
  },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('leave' as const), n: node }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

function act(simulation: Simulation, one: Step): void {
  const { n } = one;
  const acts = !simulation.frozen.has(n) && !simulation.left.has(n);
  switch (one.what) {
    case 'open':
      simulation.open(n);
      return;
    case 'pass':
      simulation.now += n;
      return;
    case 'beat':
      if (acts) void simulation.nodes[n]?.beat();
      return;
    case 'write':
      if (acts && 'shard' in one) void simulation.write(n, one.shard);
      return;
    case 'freeze':
      simulation.frozen.add(n);
      return;
    case 'thaw':
      simulation.frozen.delete(n);
      return;
    case 'unwell':
      simulation.unwell.add(n);
      return;
    case 'well':
      simulation.unwell.delete(n);
      return;
    case 'leave':
      if (!acts || simulation.left.size === NAMES.length - 1) return;
      simulation.left.add(n);
      void simulation.nodes[n]?.leave();
  }
}

test('whatever is delayed, frozen or lost in whatever order: one node serves a shard, one can write, and in the end all are held', async () => {
  let writes = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 120, size: 'max' }), async (steps) => {
      const simulation = new Simulation();
      for (const one of steps) {
        act(simulation, one);
        await turn();
        simulation.check();
      }
      await simulation.settle();
      for (let shard = 0; shard < SHARDS; shard++) {
        const should = simulation.nodes.find((_, index) => !simulation.left.has(index))?.view.assignment('bank')[shard];
        const serving = simulation.nodes.filter((one) => one.serves('bank', shard)).map(({ self }) => self.id);
        assert.deepEqual(serving, [should], `shard ${shard}`);
        writes += simulation.writes[shard]?.length ?? 0;
      }
      // Nothing may stay open: each call has a timer.
      for (const one of simulation.nodes) one.halt();
      while (simulation.gates.length > 0) {
        simulation.open(0);
        await turn();
      }
    }),
    { numRuns: 1000 },
  );
  assert.ok(writes > 100, `only ${writes} writes were accepted: the trial shows little`);
});

/** One node whose store answers at once. */
function oneNode(hooks: Partial<NodeHooks> = {}) {
  const simulation = { now: 0 };
  const store = new MemoryLeases(() => simulation.now);
  const node = new PlacementNode({
    ...{ self: { id: 'a', roles: ['bank'], version: '1', address: 'a' }, store, log: silentLog, shards: SHARDS },
    ...{ now: () => simulation.now, hooks: { stopEntities: async () => {}, ...hooks } },
  });
  const beat = async () => {
    await node.beat();
    await turn();
  };
  return { simulation, store, node, beat };
}

test('a shard that another node took, whatever our clocks say, is lost at the next beat', async () => {
  const lost: string[] = [];
  const stopping: number[] = [];
  const { store, node, beat } = oneNode({
    stopEntities: async (shards) => {
      stopping.push(...shards.map(({ shard }) => shard));
    },
    onLost: (leases, why) => lost.push(`${leases.map(({ shard }) => shard)}: ${why}`),
  });
  await beat();
  assert.equal(node.holding, SHARDS);
  // As if the clock of the store had jumped ahead.
  store.nodes.delete('a');
  await store.beat({ id: 'b', roles: ['shop'], version: '1', address: 'b', draining: false, weight: 1 }, 60_000, {
    stamp: '',
    mark: '',
  });
  await store.take('b', [{ service: 'bank', shard: 2 }], SHARDS);
  await beat();
  assert.equal(node.serves('bank', 2), false);
  assert.equal(node.holding, SHARDS - 1);
  assert.deepEqual([lost, stopping], [['2: another node took it'], [2]]);
  assert.equal(node.ownerOf('bank', 2)?.node, 'b');
});

test('a node whose loop stood still serves nothing from the first question on, before any timer', async () => {
  const { simulation, node, beat } = oneNode();
  await beat();
  assert.equal(node.serves('bank', 0), true);
  simulation.now += TIMINGS.ttlMs - TIMINGS.marginMs - 1;
  assert.equal(node.serves('bank', 0), true);
  simulation.now += 1;
  assert.equal(node.serves('bank', 0), false);
  assert.equal(node.holding, 0);
  const epoch = 1;
  await beat();
  assert.equal(node.holding, 0, 'others may be coming back, too');
  await beat();
  assert.equal(node.holding, SHARDS);
  assert.ok((node.epochOf('bank', 0) ?? 0) > epoch);
});

test('a beat that is answered too late counts for nothing', async () => {
  const { simulation, store, node } = oneNode();
  const answer = store.beat.bind(store);
  store.beat = async (...given) => {
    const view = await answer(...given);
    simulation.now += TIMINGS.ttlMs;
    return view;
  };
  await node.beat();
  await turn();
  assert.equal(node.holding, 0);
});

test('what a call took or released whose answer was lost is found at the next beat', async () => {
  const { store, node, beat } = oneNode();
  const take = store.take.bind(store);
  store.take = async (...given) => {
    await take(...given);
    throw new Error('the connection is gone');
  };
  await beat();
  assert.equal(node.holding, 0);
  store.take = take;
  await beat();
  assert.equal(node.epochOf('bank', 0), 2);
  const release = store.release.bind(store);
  store.release = async (...given) => {
    await release(...given);
    throw new Error('the connection is gone');
  };
  await node.drain();
  await beat();
  assert.equal(node.holding, 0);
  assert.ok([...store.rows.values()].every(({ owner }) => owner === undefined));
  node.halt();
});
