/** Two real services on one database, one engine and a real nats-server: each user and container is awake at one of them. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { COMPUTE_CONTAINER, COMPUTE_USER } from '../../actors/compute/placed.ts';
import type { Placement } from '../../actors/service/placement.ts';
import {
  computeSocket,
  createContainer,
  createSshKey,
  deleteContainer,
  deleteSshKey,
  getContainer,
  listContainers,
  startContainer,
  stopContainer,
  terminal,
} from '../../proto/compute/endpoints.ts';
import { listAllContainers } from '../../proto/compute/images.ts';
import { logs } from '../../proto/compute/logs.ts';
import { addIngress, listIngress } from '../../proto/compute/settings.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { PlacementError } from '../../proto/ports/placement.ts';
import { DEFAULT_USER_LIMITS } from '../../proto/user-limits.ts';
import { containerById } from '../../storage/compute/containers.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { stats } from '../../supervision/index.ts';
import type { Cluster } from '../../supervision/placement/index.ts';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { testDatabase } from '../support/database/database.ts';
import { type FakeShells, fakeShells } from '../support/engine/fake-shells.ts';
import { memoryEngine } from '../support/engine/memory-engine.ts';
import { refused, someone } from '../support/service/calls.ts';
import { fakeTokens, REGISTRY } from '../support/service/compute.ts';
import type { FakeSocket } from '../support/service/fake-socket.ts';
import { SHARDS, SHORT_LEASES, settled } from '../support/service/node.ts';
import { type OpenService, openService } from '../support/service/open-service.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutNats();
/** A process. */
interface Node extends OpenService {
  readonly shells: FakeShells;
  /** Lets it find out that its leases are over, as after it stood still, before anything else tells it. */
  awaken(): void;
}

async function setting(t: TestContext) {
  const database = await testDatabase();
  const nats = await startNats(t);
  const engine = memoryEngine();
  const nodes: Node[] = [];
  t.after(async () => {
    await Promise.all(nodes.map((node) => node.end()));
    await engine.close();
    await database.close();
  });

  /** One more process: the service with a bus, a node and actors of its own, on the engine of all. */
  const add = async (timings = SHORT_LEASES): Promise<Node> => {
    const shells = fakeShells();
    let stoodStill = false;
    const asked = (placement: Cluster): Placement => ({
      place: placement.place.bind(placement),
      timers: placement.timers,
      holds: (kind, id) => !stoodStill && placement.holds(kind, id),
      held: (service) => ({ ...placement.held(service), ...(stoodStill ? { shards: [] } : {}) }),
      onAcquired: (service, handler) => placement.onAcquired(service, handler),
      setUp: (service, isUp) => placement.setUp(service, isUp),
      lease: (kind, id) => {
        if (stoodStill) throw new PlacementError('fenced', 'the lease could not be renewed in time');
        return placement.lease(kind, id);
      },
    });
    const opened = await openService(
      t,
      'compute',
      ({ placement }) => ({
        engine,
        shells,
        tokens: fakeTokens(),
        placement: asked(placement),
        registryHost: REGISTRY,
      }),
      { database, nats: nats.server, timings },
    );
    const awaken = () => {
      stoodStill = true;
    };
    const node = Object.assign(opened, { shells, awaken });
    nodes.push(node);
    return node;
  };
  return { db: database.db, engine, add };
}

const awake = (node: Node, kind: string) => stats(node.system).kinds[kind]?.alive ?? 0;
const by = (id: string) => ({ params: { id } });

/** Somebody whose actor is at `node`. */
function someoneAt(node: Node): Caller {
  for (;;) {
    const caller = someone();
    if (node.placement.holds(COMPUTE_USER, caller.userId)) return caller;
  }
}

/** Creates containers of new users until one is at `node`; the others are deleted. Waits until it runs. */
async function containerAt(node: Node, through: Node): Promise<{ readonly owner: Caller; readonly id: string }> {
  for (;;) {
    const owner = someone();
    const id = await create(through, owner);
    if (node.placement.holds(COMPUTE_CONTAINER, id)) {
      await reaches(through, owner, id, 'running');
      return { owner, id };
    }
    await through.call(deleteContainer, owner, by(id));
  }
}

async function create(node: Node, owner: Caller): Promise<string> {
  const key = await node.call(createSshKey, owner, { body: { name: 'laptop', public_key: publicKey() } });
  return (await node.call(createContainer, owner, { body: { name: 'box', ssh_key_ids: [key.id] } })).id;
}

async function reaches(node: Node, owner: Caller, id: string, status: string): Promise<void> {
  await until(async () => (await node.call(getContainer, owner, by(id))).status === status, {
    what: `the container is ${status}`,
  });
}

test('containers of a node that was killed are looked after by another: calls, work under way, what happens to them', {
  skip,
}, async (t) => {
  const { engine, add, db } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const { owner, id } = await containerAt(b, a);
  const other = await containerAt(b, b);
  await a.call(stopContainer, owner, by(id));
  await reaches(b, owner, id, 'stopped');
  assert.equal(awake(a, 'compute/container'), 0, 'all of it happened at B');

  // B dies in the middle of a start, and another container crashes while nobody looks.
  const release = engine.hold('create');
  await a.call(startContainer, owner, by(id));
  await until(() => engine.calls.includes(`create ${id}`), { what: 'the start is under way' });
  await b.kill();
  engine.crash(other.id);
  release();
  await reaches(a, owner, id, 'running');
  await until(() => engine.calls.filter((one) => one === `start ${other.id}`).length === 2, {
    what: 'what crashed is started again',
  });
  await reaches(a, other.owner, other.id, 'running');
  assert.equal((await containerById(db, id))?.desired, 'running');
  await a.call(deleteContainer, owner, by(id));
  await until(async () => (await containerById(db, id)) === undefined, { what: 'it is gone' });
});

test('a reply waits for a container that another node looks after', { skip }, async (t) => {
  const { engine, add } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const { owner, id } = await containerAt(b, a);
  await a.call(stopContainer, owner, by(id));
  await until(async () => (await engine.inspect(id))?.phase === 'exited', { what: 'it has stopped' });
  const query = { wait: 'running', timeout: '30' };
  const { status, memory_used_mb } = await a.call(startContainer, owner, { ...by(id), query });
  assert.deepEqual([status, typeof memory_used_mb], ['running', 'number']);
});

test('of several nodes one works on a container, whatever the engine tells all of them', { skip }, async (t) => {
  const { engine, add } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const { owner, id } = await containerAt(b, a);
  engine.crash(id);
  await until(() => engine.calls.filter((one) => one === `start ${id}`).length === 2, { what: 'it is started again' });
  await reaches(a, owner, id, 'running');
  engine.tell(id);
  engine.reconnect();
  await reaches(b, owner, id, 'running');
  assert.deepEqual([awake(a, 'compute/container'), awake(b, 'compute/container') > 0], [0, true]);
  assert.equal(engine.calls.filter((one) => one === `start ${id}`).length, 2);
});

test('a node that has lost a container without knowing changes neither its row nor the engine', {
  skip,
}, async (t) => {
  const { db, engine, add } = await setting(t);
  const b = await add({ ...SHORT_LEASES, ttlMs: 120_000 });
  const { owner, id } = await containerAt(b, b);

  // Its beats are stopped, and its lease is over long before it thinks so.
  b.placement.node.halt();
  await leaseStore(db).leave(b.placement.node.self.id);
  const c = await add();
  await until(() => c.placement.holds(COMPUTE_CONTAINER, id), { what: 'another takes it' });
  assert.ok(b.placement.holds(COMPUTE_CONTAINER, id), 'B still believes');

  // What it observes it may not write.
  engine.crash(id);
  await until(() => b.db.fenced > 0, { what: 'the write of B is refused' });
  await reaches(c, owner, id, 'running');
  await c.call(stopContainer, owner, by(id));
  await reaches(c, owner, id, 'stopped');
  // It may have read the row a moment before C wrote it: it looks when the engine tells something, and may not write that.
  const seenByB = async () => {
    engine.tell(id);
    return (await b.call(getContainer, owner, by(id))).status;
  };
  await until(async () => (await seenByB()) === 'stopped', { what: 'B has read the row again' });
  const writing = b.call(startContainer, owner, by(id));
  const before = b.db.fenced;
  await until(() => b.db.fenced > before, { what: 'the start at B is refused' });
  assert.equal((await containerById(db, id))?.desired, 'stopped');
  // It beats again, as a node that goes on: if it stood still, what C hands over to it would have no owner.
  await b.placement.node.start();
  assert.equal((await writing).status, 'pending');
  await reaches(c, owner, id, 'running');
});

test('work of a node that was frozen does not reach the engine when it goes on', { skip }, async (t) => {
  const { db, engine, add } = await setting(t);
  const b = await add();
  const { owner, id } = await containerAt(b, b);
  await b.call(stopContainer, owner, by(id));
  await reaches(b, owner, id, 'stopped');
  const starts = () => engine.calls.filter((one) => one === `start ${id}`).length;

  const release = engine.hold('create');
  await b.call(startContainer, owner, by(id));
  await until(() => engine.calls.filter((one) => one === `create ${id}`).length === 2, { what: 'it is being started' });
  // As if it stood still from here on until its lease was over.
  b.placement.node.halt();
  await leaseStore(db).leave(b.placement.node.self.id);
  const c = await add();
  await until(() => c.placement.holds(COMPUTE_CONTAINER, id), { what: 'another takes it' });
  await c.call(stopContainer, owner, by(id));
  await reaches(c, owner, id, 'stopped');
  b.awaken();
  release();
  await until(() => awake(b, 'compute/container') === 0, { what: 'B lets go' });
  await reaches(c, owner, id, 'stopped');
  assert.equal(starts(), 1);
  // What was under way in the engine asked once more before it changed anything.
  assert.ok(engine.calls.includes(`fenced ${id}`));
  assert.equal((await engine.inspect(id))?.phase, 'exited');
  assert.equal((await containerById(db, id))?.status, 'stopped');
});

test('the container limit holds when one user creates at both nodes at once', { skip }, async (t) => {
  const { add } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const ann = someoneAt(b);
  const { id } = await a.call(createSshKey, ann, { body: { name: 'laptop', public_key: publicKey() } });
  const made = await Promise.allSettled(
    Array.from({ length: DEFAULT_USER_LIMITS.containers + 6 }, (_, n) =>
      [a, b][n % 2]?.call(createContainer, ann, { body: { name: `box ${n}`, ssh_key_ids: [id] } }),
    ),
  );
  assert.equal(made.filter(({ status }) => status === 'fulfilled').length, DEFAULT_USER_LIMITS.containers);
  for (const one of made) if (one.status === 'rejected') await refused('limit_reached', Promise.reject(one.reason));
  assert.equal((await a.call(listContainers, ann)).containers.length, DEFAULT_USER_LIMITS.containers);
});

test('one rule a port, when both nodes are asked at once', { skip }, async (t) => {
  const { add } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const { owner, id } = await containerAt(b, a);
  const made = await Promise.allSettled(
    Array.from({ length: 8 }, (_, n) =>
      [a, b][n % 2]?.call(addIngress, owner, { ...by(id), body: { port: 8000, target_port: 3000 + n } }),
    ),
  );
  assert.equal(made.filter(({ status }) => status === 'fulfilled').length, 1);
  assert.equal((await a.call(listIngress, owner, by(id))).rules.length, 1);
});

test('while a node drains, every call is answered, and each change is made once', { skip }, async (t) => {
  const { db, add } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const owners = Array.from({ length: 6 }, () => someoneAt(b));
  const counts = { made: 0 };
  let isOver = false;
  const load = owners.map(async (owner) => {
    // At least once after the drain as well.
    for (let last = false; !last; ) {
      last = isOver;
      const body = { name: 'laptop', public_key: publicKey() };
      const { id } = await a.call(createSshKey, owner, { body });
      counts.made++;
      assert.equal((await a.call(listContainers, owner)).containers.length, 0);
      await a.call(deleteSshKey, owner, { params: { id: String(id) } });
    }
  });
  await until(() => counts.made > 20, { what: 'the load is on' });
  await b.leave();
  isOver = true;
  await Promise.all(load);
  const trail = (action: string) => db.run('select from audit_log where action = $1', [action]);
  assert.deepEqual([await trail('ssh_key.create'), await trail('ssh_key.delete')], [counts.made, counts.made]);
  assert.equal(a.placement.node.holding, SHARDS);
});

test('a connection to /compute/ws hears of all changes while its user moves, by hand-over and by a kill', {
  skip,
}, async (t) => {
  const { add } = await setting(t);
  const [a, b, c] = [await add(), await add(), await add()];
  await settled(a, b, c);
  const ann = someoneAt(b);
  const id = await create(a, ann);
  await reaches(a, ann, id, 'running');
  const socket = await a.connect(computeSocket, ann);
  await until(() => lists(socket) === 1, { what: 'the list' });
  assert.equal(statusOf(socket, id), 'running');

  await b.leave();
  await until(() => lists(socket) === 2, { what: 'the list from its next node' });
  await a.call(stopContainer, ann, by(id));
  await until(() => statusOf(socket, id) === 'stopped', { what: 'the change is told' });

  // Whoever has it now dies, unless that is the node of the connection itself: then the other one does.
  await (a.placement.holds(COMPUTE_USER, ann.userId) ? c.leave() : c.kill());
  await a.call(startContainer, ann, by(id));
  await until(() => statusOf(socket, id) === 'running', { what: 'the next change is told' });
  assert.equal(socket.closed, undefined);
});

test('a terminal stays joined while its container moves, and ends with it', { skip }, async (t) => {
  const { add } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const { owner, id } = await containerAt(b, a);
  const socket = await a.connect(terminal, owner, by(id));
  const shell = await until(() => a.shells.opened[0], { what: 'the shell is open' });
  await b.kill();
  shell.far.write('still here');
  await until(() => socket.bytes.join('') === 'still here', { what: 'it prints' });
  await until(() => a.placement.holds(COMPUTE_CONTAINER, id), { what: 'A takes the container' });
  await until(() => awake(a, 'compute/container') > 0, { what: 'the terminal says that it is there' });
  await a.call(stopContainer, owner, by(id));
  assert.deepEqual(await socket.end(), { code: 1000, reason: 'container stopped' });
});

test('a log goes on while its container moves: each line once', { skip }, async (t) => {
  const { engine, add } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const { owner, id } = await containerAt(b, a);
  const socket = await a.connect(logs, owner, by(id));
  const lines = () => socket.texts.map((line) => line.slice(31));
  engine.print(id, ['one']);
  await until(() => lines().includes('one'), { what: 'the first line' });
  await b.kill();
  engine.print(id, ['two']);
  await until(() => a.placement.holds(COMPUTE_CONTAINER, id), { what: 'A takes the container' });
  engine.print(id, ['three']);
  await until(() => lines().includes('three'), { what: 'the last line' });
  assert.deepEqual(lines(), ['Server listening on 0.0.0.0 port 22.', 'one', 'two', 'three']);
  await a.call(stopContainer, owner, by(id));
  assert.deepEqual(await socket.end(), { code: 1000, reason: 'container stopped' });
});

/** How many whole lists it was sent. */
function lists(socket: FakeSocket): number {
  return socket.texts.filter((text) => text.startsWith('{"type":"containers"')).length;
}

const eventSchema = z.union([
  z.object({ type: z.literal('containers'), data: z.array(z.object({ id: z.string(), status: z.string() })) }),
  z.object({ type: z.literal('container_status'), data: z.object({ container_id: z.string(), status: z.string() }) }),
]);

/** What a client believes after all that it was sent. */
function statusOf(socket: FakeSocket, id: string): string | undefined {
  let status: string | undefined;
  for (const event of socket.events.map((one) => eventSchema.parse(one))) {
    if (event.type === 'containers') status = event.data.find((one) => one.id === id)?.status;
    else if (event.data.container_id === id) status = event.data.status;
  }
  return status;
}

test('the listing of all containers is answered where it is asked, also when it is larger than what crosses between nodes', {
  skip,
}, async (t) => {
  const { add, db } = await setting(t);
  const [a, b] = [await add(), await add()];
  await settled(a, b);
  const admin = { ...someoneAt(b), isAdmin: true };
  await db.run(
    `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths, ssh_enabled, desired, status)
     select 'c' || lpad(n::text, 11, '0'), 'u' || n, 1, repeat('x', 60), 'nano', 512, 5, 'IfNotPresent', '{/root}', false, 'stopped', 'stopped'
     from generate_series(1, 6000) n`,
  );
  for (const node of [a, b]) {
    const all = await node.call(listAllContainers, admin);
    assert.equal(all.length, 6000);
    assert.ok(JSON.stringify(all).length > 1_100_000);
  }
});
