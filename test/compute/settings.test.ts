import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import {
  addIngress,
  deleteContainer,
  deleteIngress,
  deleteSshKey,
  getMounts,
  getSsh,
  listAllContainers,
  listImages,
  listIngress,
  setMounts,
  setPullPolicy,
  setSsh,
  startContainer,
  stopContainer,
} from '../../proto/compute/endpoints.ts';
import type { ComputeNews } from '../../proto/compute/events.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { computeNews } from '../../storage/compute/news.ts';
import { StorageError } from '../../storage/errors.ts';
import { failOnLeaks } from '../support/leaks.ts';
import {
  callFrom,
  openWorld,
  PLATFORM_KEY,
  publicKey,
  REGISTRY,
  refused,
  someone,
  turns,
  type World,
} from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const statusRow = z.object({ status: z.string() });
const gone = () => new StorageError('unavailable', 'the connection was lost');
const put = (
  world: World,
  endpoint: typeof setSsh | typeof setMounts | typeof setPullPolicy,
  id: string,
  body: object,
) => world.call(endpoint, ann, { params: { id }, body });

describe('SSH access', () => {
  test('lets the chosen keys in while it is enabled, and only the platform otherwise', async (t) => {
    const world = await openWorld(t);
    const key = publicKey('chosen');
    const id = await world.running(ann, { ssh_key_ids: [await world.key(ann, key)] });
    assert.deepEqual(await world.on(getSsh, ann, id), { ssh_enabled: false });
    assert.deepEqual(world.engine.keysOf(id), [PLATFORM_KEY]);
    assert.deepEqual(await put(world, setSsh, id, { ssh_enabled: true }), { ssh_enabled: true });
    await until(() => world.engine.keysOf(id).includes(key));
    assert.equal((await world.view(ann, id)).ssh_enabled, true);
    await put(world, setSsh, id, { ssh_enabled: false });
    await until(() => !world.engine.keysOf(id).includes(key));
    assert.equal((await world.view(ann, id)).status, 'running');
  });

  test('changed while the engine is away is changed in the container later', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.engine.fail('renewKeys', new EngineError('unavailable', 'away'), 1);
    await put(world, setSsh, id, { ssh_enabled: true });
    await until(() => world.engine.keysOf(id).length === 2);
  });

  test('changed by a platform that died at once is changed by the next', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const release = world.engine.hold('inspect');
    await put(world, setSsh, id, { ssh_enabled: true });
    await world.stop();
    release();
    assert.equal(world.engine.keysOf(id).length, 1);
    await world.start();
    await until(() => world.engine.keysOf(id).length === 2);
  });

  test('is shown with a command that works as it stands, while it is enabled and the gateway is known', async (t) => {
    let at: { host: string; port: number } | undefined;
    const world = await openWorld(t, { sshAddress: () => at });
    const id = await world.running(ann);
    await put(world, setSsh, id, { ssh_enabled: true });
    assert.equal((await world.view(ann, id)).ssh, undefined);
    at = { host: '127.0.0.1', port: 2222 };
    const ssh = { command: `ssh -p 2222 ${id}@127.0.0.1`, host: '127.0.0.1', port: 2222, user: id };
    assert.deepEqual((await world.view(ann, id)).ssh, ssh);
    assert.deepEqual((await world.list(ann))[0]?.ssh, ssh);
    assert.equal((await world.view(ann, id)).ssh_command, `ssh root@${id}.compute.cloud.test`);
    await put(world, setSsh, id, { ssh_enabled: false });
    assert.equal((await world.view(ann, id)).ssh, undefined);
  });

  test('taken away is news to whoever listens', async (t) => {
    const world = await openWorld(t);
    const news: ComputeNews[] = [];
    const listening = computeNews(world.db).onNews((one) => one.kind !== 'status' && news.push(one));
    t.after(() => listening.close());
    await until(() => news.length > 0);
    const key = await world.key(ann);
    const id = await world.running(ann, { ssh_key_ids: [key] });
    await put(world, setSsh, id, { ssh_enabled: true });
    await put(world, setSsh, id, { ssh_enabled: true });
    await world.call(deleteSshKey, ann, { params: { id: String(key) } });
    await world.call(addIngress, ann, { params: { id }, body: { port: 80 } });
    await world.on(deleteContainer, ann, id);
    await until(() => news.length === 5);
    assert.deepEqual(
      news.map(({ kind }) => kind),
      ['all', 'ssh', 'key', 'ingress', 'gone'],
    );
    assert.deepEqual(news[1], { kind: 'ssh', containerId: id });
  });
});

describe('ingress', () => {
  test('of a port on which the platform itself listens is refused, but 80 and 443 are the gateway’s to share', async (t) => {
    const world = await openWorld(t, { takenPorts: [80, 443, 8443] });
    const id = await world.running(ann);
    const add = (port: number) => world.call(addIngress, ann, { params: { id }, body: { port } });
    const { message } = await refused('conflict', add(8443));
    assert.match(message, /^Port 8443 is used by the platform itself/);
    for (const port of [80, 443, 8444]) assert.equal((await add(port)).port, port);
  });

  test('rules are added with a default target, listed, and removed by port; HTTPS follows the rule on 443', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const add = (body: object) => world.call(addIngress, ann, { params: { id }, body });
    const rule = await add({ port: 8080 });
    assert.deepEqual(Object.keys(rule).sort(), ['created_at', 'id', 'port', 'target_port']);
    assert.deepEqual([rule.port, rule.target_port], [8080, 8080]);
    assert.ok(Math.abs(rule.created_at - Date.now() / 1000) < 60);
    assert.equal((await add({ port: 443, target_port: 8443 })).target_port, 8443);
    assert.equal((await world.view(ann, id)).https_enabled, true);
    const { rules } = await world.on(listIngress, ann, id);
    assert.deepEqual(
      rules.map(({ port }) => port),
      [443, 8080],
    );
    await refused('conflict', add({ port: 443 }));
    const remove = (port: string) => world.call(deleteIngress, ann, { params: { id, port } });
    assert.deepEqual(await remove('443'), { status: 'ok' });
    await refused('not_found', remove('443'));
    assert.equal((await world.view(ann, id)).https_enabled, false);
    // It is the row's, not this actor's memory.
    await world.stop();
    await world.start();
    assert.equal((await world.view(ann, id)).https_enabled, false);
    assert.equal((await world.on(listIngress, ann, id)).rules.length, 1);
  });

  test('of two rules on one port at once one is refused', async (t) => {
    const world = await openWorld(t);
    const id = await world.create(ann);
    const adds = await Promise.allSettled(
      [1, 2, 3].map((target_port) =>
        world.call(addIngress, ann, { params: { id }, body: { port: 8000, target_port } }),
      ),
    );
    assert.equal(adds.filter(({ status }) => status === 'fulfilled').length, 1);
  });
});

describe('mounts', () => {
  test('set on a running container restart it, once, with the data of the paths that stay', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann, { mount_paths: ['/root', '/old'] });
    world.engine.files(id)?.set('/root/a', '1').set('/old/b', '2');
    const socket = await world.updates(ann);
    const body = { mount_paths: ['/root', '/new'] };
    assert.deepEqual(await put(world, setMounts, id, body), { ...body, restarted: true });
    assert.equal((await world.view(ann, id)).status, 'pending');
    await world.reaches(ann, id, 'running');
    assert.deepEqual(world.engine.specOf(id)?.mountPaths, ['/root', '/new']);
    assert.equal(world.engine.files(id)?.get('/root/a'), '1');
    assert.equal(world.engine.files(id)?.get('/old/b'), '2');
    assert.deepEqual(await world.on(getMounts, ann, id), { mount_paths: ['/root', '/new'] });
    const statuses = socket.events.slice(1).map((event) => JSON.stringify(event).match(/"status":"(\w+)"/)?.[1]);
    assert.deepEqual(statuses, ['pending', 'initializing', 'running']);
    world.clock.advance(10_000);
    await put(world, setMounts, id, { mount_paths: ['/root', '/old'] });
    await world.reaches(ann, id, 'running');
    assert.equal(world.engine.files(id)?.get('/old/b'), '2');
    assert.deepEqual(await world.notices(ann.userId), ['Container started: "box" is running.']);
  });

  test('restart it at most every ten seconds, and can be changed 64 times', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    await put(world, setMounts, id, { mount_paths: ['/root', '/one'] });
    await world.reaches(ann, id, 'running');
    const refusal = await refused('too_many_changes', put(world, setMounts, id, { mount_paths: ['/root'] }));
    assert.ok(Number(refusal.retryAfter) >= 1 && Number(refusal.retryAfter) <= 10, refusal.message);
    await world.on(stopContainer, ann, id);
    for (let n = 2; n <= 64; n++) await put(world, setMounts, id, { mount_paths: [`/path-${n}`] });
    await refused('limit_reached', put(world, setMounts, id, { mount_paths: ['/more'] }));
    await put(world, setMounts, id, { mount_paths: ['/path-64'] });
  });

  test('are refused where the restart would lose files, unless that is meant', async (t) => {
    const world = await openWorld(t, { engine: { keepsFiles: false } });
    const id = await world.running(ann);
    const refusal = await refused('discards_files', put(world, setMounts, id, { mount_paths: ['/root', '/data'] }));
    assert.match(
      refusal.message,
      /loses all files outside \/root, what it has at \/data included: send "discard": true/,
    );
    assert.deepEqual(await put(world, setMounts, id, { mount_paths: ['/root', '/data'], discard: true }), {
      mount_paths: ['/root', '/data'],
      restarted: true,
    });
    await world.on(stopContainer, ann, id);
    await put(world, setMounts, id, { mount_paths: ['/srv'] });
  });

  test('that are the same restart it too: that is what was asked for', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    assert.deepEqual(await put(world, setMounts, id, { mount_paths: ['/root'] }), {
      mount_paths: ['/root'],
      restarted: true,
    });
    await world.reaches(ann, id, 'running');
    assert.equal(world.engine.calls.filter((call) => call === `stop ${id}`).length, 1);
    assert.equal(world.engine.calls.filter((call) => call === `start ${id}`).length, 2);
  });

  test('set on a stopped one count from its next start', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    await world.on(stopContainer, ann, id);
    await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
    const body = { mount_paths: ['/data'] };
    assert.deepEqual(await put(world, setMounts, id, body), { ...body, restarted: false });
    await turns();
    assert.equal((await world.view(ann, id)).status, 'stopped');
    await world.on(startContainer, ann, id);
    await world.reaches(ann, id, 'running');
    assert.deepEqual(world.engine.specOf(id)?.mountPaths, ['/data']);
  });

  test('set while it starts are the ones it runs with', async (t) => {
    const world = await openWorld(t);
    const release = world.engine.hold('start');
    const id = await world.create(ann);
    await world.reaches(ann, id, 'initializing');
    assert.equal(
      (await world.call(setMounts, ann, { params: { id }, body: { mount_paths: ['/x'] } })).restarted,
      false,
    );
    release();
    await until(() => world.engine.specOf(id)?.mountPaths.includes('/x'));
    await world.reaches(ann, id, 'running');
  });

  test('a restart that was asked for before the platform died is done by the next', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const release = world.engine.hold('stop');
    await put(world, setMounts, id, { mount_paths: ['/root'] });
    await until(() => world.engine.calls.includes(`stop ${id}`));
    world.engine.fail('stop', new EngineError('unavailable', 'gone'));
    await world.stop();
    release();
    await world.start();
    await world.reaches(ann, id, 'running');
    assert.equal(world.engine.calls.filter((call) => call === `start ${id}`).length, 2);
  });

  for (const [what, paths] of [
    ['none', []],
    ['relative ones', ['data']],
    ['the root', ['/']],
    ['an empty one', ['']],
    ['ways up', ['/data/../etc']],
    ['the kernel’s', ['/proc/1']],
    ['the system’s', ['/etc']],
    ['the socket of Docker', ['/var/run/docker.sock']],
    ['options', ['/data:ro']],
    ['NUL', ['/da\0ta']],
    ['the same twice', ['/a', '/a']],
    ['one in another', ['/a', '/a/b']],
    ['seventeen', Array.from({ length: 17 }, (_, i) => `/d${i}`)],
  ] as const) {
    test(`C01: ${what} are refused`, () => {
      assert.throws(() => callFrom(setMounts, ann, { params: { id: 'aaaaaaaaaaaa' }, body: { mount_paths: paths } }), {
        code: 'invalid_request',
      });
    });
  }
});

test('the pull policy counts from the next start', async (t) => {
  const image = `${REGISTRY}/ann/app:1`;
  const pulls: boolean[] = [];
  const world = await openWorld(t, {
    engine: { images: [image] },
    wrapEngine: (engine) => ({
      ...engine,
      ensureImage: (name, options) => {
        pulls.push(options.always);
        return engine.ensureImage(name, options);
      },
    }),
  });
  const id = await world.running(ann, { image });
  assert.deepEqual(await put(world, setPullPolicy, id, { pull_policy: 'Always' }), { pull_policy: 'Always' });
  assert.deepEqual(pulls, [false]);
  await world.on(stopContainer, ann, id);
  await world.on(startContainer, ann, id);
  await world.reaches(ann, id, 'running');
  assert.deepEqual(pulls, [false, true]);
  assert.equal((await world.view(ann, id)).pull_policy, 'Always');
});

describe('images', () => {
  test('are the default one and what the registry has, and can be given at creation as they are listed', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const world = await openWorld(t, {
      engine: { images: [image] },
      catalog: { list: async ({ username }) => (username === 'ann' ? [image] : []) },
    });
    const images = await world.call(listImages, ann);
    assert.deepEqual(images[1], { name: 'ann/app:1', image, source: 'registry' });
    assert.deepEqual([images[0]?.image, images[0]?.source, images.length], [world.engine.baseImage, 'builtin', 2]);
    assert.equal((await world.call(listImages, bob)).length, 1);
    for (const entry of images) await world.running(ann, { image: entry.image });
  });

  test('are the default one alone while the registry is away', async (t) => {
    const world = await openWorld(t, { catalog: { list: () => Promise.reject(new Error('refused')) } });
    assert.equal((await world.call(listImages, ann)).length, 1);
    assert.ok(world.log.lines.some(({ level, message }) => level === 'warn' && message.includes('registry')));
  });
});

test('the administrator sees the containers of all users, with owner, address and whole seconds', async (t) => {
  const world = await openWorld(t);
  await world.db.run(`insert into users (id, username, display_name, password_hash) values ($1, 'ann', 'Ann', 'x')`, [
    ann.userId,
  ]);
  const [mine, other] = [await world.running(ann), await world.create(bob)];
  const all = await world.call(listAllContainers, { ...someone('admin'), isAdmin: true });
  assert.deepEqual(
    all.map(({ id, user_id, owner }) => [id, user_id, owner]),
    [
      [mine, ann.userId, 'ann'],
      [other, bob.userId, ''],
    ],
  );
  const { external_ip, created_at, ...rest } = all[0] ?? assert.fail();
  assert.equal(external_ip, '10.0.0.1');
  assert.ok(Number.isInteger(created_at) && Math.abs(created_at - Date.now() / 1000) < 60);
  const { created_at: _, ...view } = await world.view(ann, mine);
  const { user_id, owner, ...shown } = rest;
  assert.deepEqual(shown, { ...view, memory_used_mb: shown.memory_used_mb, storage_used_gb: shown.storage_used_gb });
});

test('every change leaves one entry in the trail, and what was refused leaves none', async (t) => {
  const world = await openWorld(t);
  const key = await world.key(ann);
  const id = await world.running(ann, { ssh_key_ids: [key] });
  await put(world, setSsh, id, { ssh_enabled: true });
  await put(world, setSsh, id, { ssh_enabled: true });
  await world.call(addIngress, ann, { params: { id }, body: { port: 443 } });
  await refused('conflict', world.call(addIngress, ann, { params: { id }, body: { port: 443 } }));
  await world.call(deleteIngress, ann, { params: { id, port: '443' } });
  await refused('not_found', world.call(deleteIngress, ann, { params: { id, port: '443' } }));
  await put(world, setMounts, id, { mount_paths: ['/data'] });
  await put(world, setPullPolicy, id, { pull_policy: 'Always' });
  await world.reaches(ann, id, 'running');
  await refused('conflict', world.on(startContainer, ann, id));
  await world.on(stopContainer, ann, id);
  await world.on(startContainer, ann, id);
  await world.on(deleteContainer, ann, id);
  await world.call(deleteSshKey, ann, { params: { id: String(key) } });
  const entries = await readAudit(world.db, { limit: 100 });
  assert.deepEqual(
    entries.map(({ action }) => action),
    [
      ...['ssh_key.create', 'container.create', 'container.ssh', 'container.ingress.add', 'container.ingress.remove'],
      ...['container.mounts', 'container.pull_policy', 'container.stop', 'container.start', 'container.delete'],
      'ssh_key.delete',
    ],
  );
  assert.ok(entries.every(({ username, userId, address }) => username === 'ann' && userId === ann.userId && address));
  assert.ok(entries.slice(1, -1).every(({ target }) => target === id));
  assert.deepEqual(entries[5]?.detail, { mount_paths: ['/data'], restarted: true });
});

test('others find no such container, whatever they ask of it', async (t) => {
  const world = await openWorld(t);
  const id = await world.running(ann);
  await world.call(addIngress, ann, { params: { id }, body: { port: 80 } });
  for (const [endpoint, body] of [
    [getSsh, undefined],
    [setSsh, { ssh_enabled: true }],
    [listIngress, undefined],
    [addIngress, { port: 8000 }],
    [getMounts, undefined],
    [setMounts, { mount_paths: ['/x'] }],
    [setPullPolicy, { pull_policy: 'Always' }],
  ] as const) {
    await refused('not_found', world.service.call(endpoint, callFrom(endpoint, bob, { params: { id }, body })));
  }
  await refused('not_found', world.call(deleteIngress, bob, { params: { id, port: '80' } }));
  assert.equal((await world.on(listIngress, ann, id)).rules.length, 1);
});

describe('notifications', () => {
  test('a start that was asked for is told once it runs, a stop when it is asked for, each once', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    await world.on(stopContainer, ann, id);
    await world.on(startContainer, ann, id);
    await world.reaches(ann, id, 'running');
    assert.deepEqual(await world.notices(ann.userId), [
      'Container started: "box" is running.',
      'Container stopped: "box": it was stopped.',
      'Container started: "box" is running.',
    ]);
  });

  test('neither a restart of the platform nor a change of address tells anything', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    await world.stop();
    await world.start();
    world.engine.reconnect();
    await turns();
    await world.reaches(ann, id, 'running');
    assert.equal((await world.notices(ann.userId)).length, 1);
  });

  test('an end by itself is told, its new start is not: nobody asked for it', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    world.engine.crash(id, { exitCode: 2 });
    await until(async () => (await world.notices(ann.userId)).length === 2);
    await world.reaches(ann, id, 'running');
    await turns();
    assert.match((await world.notices(ann.userId)).at(-1) ?? '', /stopped.*exit code 2/);
    assert.equal((await world.notices(ann.userId)).length, 2);
  });

  test('a status that reached the database although its answer was lost is told once', async (t) => {
    const world = await openWorld(t);
    const socket = await world.updates(ann);
    const { tx } = world.db;
    let lost = 0;
    world.db.tx = async (work, options) => {
      const result = await tx(work, options);
      const [row] = await world.db.many(statusRow, 'select status from containers');
      if (row?.status !== 'running' || lost > 0) return result;
      lost++;
      throw gone();
    };
    const id = await world.create(ann);
    await until(() => lost === 1);
    await world.reaches(ann, id, 'running');
    await until(() => socket.texts.at(-1)?.includes('"running"'));
    world.engine.reconnect();
    await turns();
    assert.deepEqual(await world.notices(ann.userId), ['Container started: "box" is running.']);
    assert.equal(socket.texts.filter((text) => text.includes('"running"')).length, 1);
  });

  test('a stop whose answer was lost is done all the same', async (t) => {
    const world = await openWorld(t);
    const id = await world.running(ann);
    const { tx } = world.db;
    world.db.tx = async (work, options) => {
      await tx(work, options);
      throw gone();
    };
    await refused('unavailable', world.on(stopContainer, ann, id));
    world.db.tx = tx;
    world.engine.reconnect();
    await until(async () => (await world.engine.inspect(id))?.phase === 'exited');
    assert.equal((await world.view(ann, id)).status, 'stopped');
    assert.equal((await world.notices(ann.userId)).length, 2);
  });
});
