/** One view of the actors of all processes, whatever they run, and verbs for one actor anywhere. */
import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import {
  type ActorProcess,
  actOnActor,
  actorDetailsSchema,
  actorSchema,
  listActors,
  showActor,
} from '../../proto/auth/actors.ts';
import { logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import {
  GROUND_SECRET,
  type Ground,
  layGround,
  type ServiceProcess,
  skipWithoutServices,
} from '../support/cluster/services.ts';
import { tinyImage } from '../support/engine/docker-client.ts';
import { standsStill } from '../support/process-state.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const NAMES = ['auth', 'gateway', 'monitor', 'notify'] as const;
const details = z.array(actorDetailsSchema);

describe('actors of the cluster', { skip: skipWithoutServices(), timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  let ground: Ground;
  let platform: RunningPlatform;
  let data: string;
  let env: Record<string, string>;
  let admin: string;
  const alone = new Map<string, ServiceProcess>();

  before(async () => {
    const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
    // A process that stands still is one of the cluster for longer than a slow machine takes to ask three times.
    const slowly = { CLUSTER_HEARTBEAT: '5s' };
    ground = await layGround(cleanup, slowly);
    data = await tempDir(ground);
    env = {
      ...{ DATABASE_URL: ground.databaseUrl, NATS_URL: ground.nats.url, NATS_INSECURE: 'allow', ADMIN_PASSWORD },
      ...{ JWT_SECRET: GROUND_SECRET, ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') },
      DEFAULT_IMAGE: await tinyImage(),
      ...slowly,
    };
    platform = await startPlatform({ data, env });
    ground.after(async () => void (await platform.stop()));
    for (const name of NAMES) alone.set(name, await ground.start(name));
    admin = await logIn(platform.ready.urls.auth, 'admin', ADMIN_PASSWORD);
  });

  after(async () => {
    for (const end of ends) await end();
  });

  const addressOf = (pid: number | undefined) => `${hostname()}:${pid}`;
  const of = (name: (typeof NAMES)[number]): ServiceProcess => {
    const process = alone.get(name);
    assert.ok(process, name);
    return process;
  };
  const run = (...args: string[]) => troupe([...args, '--data', data], { env });

  async function list(query: string) {
    const url = `${platform.ready.urls.auth}${listActors.path}${query}`;
    const { status, json } = await request('GET', url, { token: admin });
    assert.equal(status, 200, JSON.stringify(json));
    const processes: ActorProcess[] = listActors.reply?.parse(json).processes ?? [];
    return { actors: z.array(actorSchema).parse(json.actors), processes };
  }

  async function show(path: string) {
    const query = new URLSearchParams({ path });
    return request('GET', `${platform.ready.urls.auth}${showActor.path}?${query}`, { token: admin });
  }

  const act = (body: object) =>
    request('POST', `${platform.ready.urls.auth}${actOnActor.path}`, { token: admin, body });

  test('one process answers for itself, for another, and for all, gateways and monitors among them', async () => {
    const own = await list('');
    assert.deepEqual([own.processes, own.actors[0]?.path], [[], 'troupe://']);
    const all = await list('?all=true');
    const running = [platform.child.pid, ...NAMES.map((name) => of(name).pid)].map(addressOf);
    assert.deepEqual(all.processes.map(({ address, status }) => `${address} ${status}`).sort(), [
      ...running.map((address) => `${address} answered`).sort(),
    ]);
    const rootOf = (pid: number | undefined) => all.actors.find(({ node }) => node === addressOf(pid))?.path;
    assert.equal(rootOf(platform.child.pid), 'troupe://');
    for (const name of NAMES) assert.equal(rootOf(of(name).pid), `${name}://`);
    const gateway = await list(`?node=${addressOf(of('gateway').pid)}`);
    assert.deepEqual([...new Set(gateway.actors.map(({ node }) => node))], [addressOf(of('gateway').pid)]);
    const { id = '' } = all.processes.find(({ name }) => name === 'auth') ?? {};
    assert.equal(id.length, 12);
    assert.equal((await list(`?node=${id.slice(0, 6)}`)).actors[0]?.path, 'auth://');
    const unknown = await request('GET', `${platform.ready.urls.auth}${listActors.path}?node=nobody`, { token: admin });
    assert.deepEqual([unknown.status, unknown.json.error], [404, 'There is no node nobody.']);
  });

  test('`troupe tree` draws all processes, or one', async () => {
    const drawn = await run('tree');
    assert.equal(drawn.code, 0, drawn.stderr);
    for (const name of NAMES) {
      const heading = new RegExp(`^${addressOf(of(name).pid)}.*\\n {2}${name}  \\[system\\]$`, 'm');
      assert.match(drawn.stdout, heading);
    }
    const one = await run('tree', '--node', addressOf(of('gateway').pid));
    assert.match(one.stdout, /^gateway {2}\[system\]\n/);
    const listed = z.array(actorSchema).parse(JSON.parse((await run('tree', '--json')).stdout));
    assert.equal(new Set(listed.map(({ node }) => node)).size, 5);
  });

  test('a process that stands still is named, and not waited for', async () => {
    const { pid } = of('notify');
    assert.ok(pid);
    process.kill(pid, 'SIGSTOP');
    try {
      await until(() => standsStill(pid), { what: 'it stands still' });
      const { processes } = await list('?all=true');
      const silent = processes.filter(({ status }) => status === 'silent');
      assert.deepEqual(
        silent.map(({ address }) => address),
        [addressOf(pid)],
      );
      const drawn = await run('tree');
      assert.match(drawn.stdout, new RegExp(`^${addressOf(pid)}.* did not answer`, 'm'));
      const nowhere = await run('actor', 'show', 'no/such', '--node', addressOf(pid));
      assert.deepEqual([nowhere.code, nowhere.stdout], [1, '']);
      assert.match(nowhere.stderr, new RegExp(`There is no actor no/such. ${addressOf(pid)} did not answer.`));
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });

  test('an actor is found wherever it lives, released, and wakes again; the audit trail tells who did it', async () => {
    const ann = await ground.person('ann');
    const wake = () => request('GET', `${platform.ready.urls.auth}/api/settings/sessions`, { token: ann.token });
    assert.equal((await wake()).status, 200);
    const path = `auth/parts/auth-user/${ann.id}`;
    const { status, json } = await show(path);
    assert.equal(status, 200, JSON.stringify(json));
    const [user, ...others] = details.parse(json.actors);
    assert.deepEqual([user?.kind, user?.is_entity, user?.is_guarded, others], ['auth/user', true, false, []]);
    const drawn = await run('actor', 'show', path);
    assert.match(
      drawn.stdout,
      /^path {8}\w+:\/\/auth\/parts\/auth-user\/\w+\nnode .*\nkind {8}auth\/user \(entity\)\n/,
    );
    const released = await run('actor', 'release', path);
    assert.equal(released.code, 0, released.stderr);
    assert.match(released.stdout, / is asleep: the next message wakes it from storage\.\n$/);
    assert.equal((await show(path)).status, 404);
    assert.equal((await wake()).status, 200);
    assert.equal((await show(path)).status, 200);
    const trail = await run('audit', '--action', 'actor', '--json');
    const { username, action, target, detail } = z
      .looseObject({ detail: z.record(z.string(), z.unknown()) })
      .parse(JSON.parse(trail.stdout.trim()));
    assert.deepEqual(
      { username, action, target, detail },
      {
        ...{ username: 'admin', action: 'actor.release', target: user?.path },
        detail: { node: user?.node, kind: 'auth/user' },
      },
    );
  });

  test('a part of another process is stopped, and its supervisor starts it again', async () => {
    const node = addressOf(of('gateway').pid);
    const { actors } = await list(`?node=${node}`);
    const part = actors.find(({ kind, path }) => /^gateway:\/\/\w+\/parts\/\w+$/.test(path) && kind.includes('/'));
    assert.ok(part, JSON.stringify(actors));
    const { status, json } = await act({ verb: 'stop', path: part.path, node });
    assert.deepEqual([status, json], [200, { path: part.path, node, is_done: true }]);
    await until(async () => (await show(part.path)).status === 200, { what: 'it is there again' });
  });

  test('what others depend on is refused without force, and what is no entity is not released', async () => {
    for (const [body, message] of [
      [{ verb: 'stop', path: 'troupe://compute' }, /^Other actors depend on troupe:\/\/compute \(supervisor\)/],
      [{ verb: 'reset', path: 'troupe://compute/parts' }, /^Other actors depend on /],
      [{ verb: 'stop', path: 'troupe://', force: true }, /is the process itself: end it with SIGTERM/],
      [{ verb: 'release', path: 'troupe://compute/parts/watcher' }, /is no entity/],
      [{ verb: 'stop', path: 'auth/parts' }, /^Several processes have auth\/parts: say which node, of /],
    ] as const) {
      const { status, json } = await act(body);
      assert.deepEqual([status, json.code], [409, 'conflict'], JSON.stringify(json));
      assert.match(z.string().parse(json.error), message);
    }
    const refused = await run('actor', 'stop', 'troupe://compute');
    assert.deepEqual([refused.code, refused.stdout], [1, '']);
    assert.match(refused.stderr, /use force if that is meant/);
    const forced = await run('actor', 'reset', 'troupe://compute/parts', '--force');
    assert.equal(forced.code, 0, forced.stderr);
    await until(async () => (await show('troupe://compute/parts/watcher')).status === 200, { what: 'it is up again' });
  });

  test('a gateway that ends is missed by nobody', async () => {
    const { pid } = of('gateway');
    await of('gateway').stop();
    await until(async () => (await list('?all=true')).processes.every(({ address }) => address !== addressOf(pid)), {
      what: 'it is in no list',
    });
  });
});
