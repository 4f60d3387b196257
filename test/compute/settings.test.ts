import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { deleteContainer, deleteSshKey, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { ComputeNews } from '../../proto/compute/events.ts';
import { adminDeleteContainer, adminStopContainer, listAllContainers, listImages } from '../../proto/compute/images.ts';
import {
  addIngress,
  deleteIngress,
  forgetAnswers,
  getMounts,
  getSsh,
  listIngress,
  setMounts,
  setPullPolicy,
  setSsh,
  updateContainer,
} from '../../proto/compute/settings.ts';
import type { Call } from '../../proto/endpoint.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { computeNews } from '../../storage/compute/news.ts';
import { StorageError } from '../../storage/errors.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, PLATFORM_KEY, REGISTRY } from '../support/service/compute.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const statusRow = z.object({ status: z.string() });
const gone = () => new StorageError('unavailable', 'the connection was lost');
const put = (
  compute: ComputeUnderTest,
  endpoint: typeof setSsh | typeof setMounts | typeof setPullPolicy,
  id: string,
  body: object,
) => compute.call(endpoint, ann, { params: { id }, body });

describe('the name', () => {
  const rename = (compute: ComputeUnderTest, id: string, body: object, who = ann) =>
    compute.call(updateContainer, who, { params: { id }, body });

  test('is another from then on, in views and for whoever follows, with an entry in the audit trail', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann, { name: 'box' });
    const socket = await compute.updates(ann);
    const renamed = await rename(compute, id, { name: 'Web 2' });
    assert.deepEqual([renamed.name, renamed.status], ['Web 2', 'running']);
    assert.deepEqual(renamed, await compute.view(ann, id));
    assert.deepEqual(
      (await compute.list(ann)).map(({ name }) => name),
      ['Web 2'],
    );
    await until(() => socket.texts.length > 1, { what: 'the change is told' });
    const told = JSON.parse(socket.texts[1] ?? '');
    assert.deepEqual([told.type, told.data.container_id, told.data.status], ['container_status', id, 'running']);
    await rename(compute, id, { name: 'Web 2' });
    const entries = await readAudit(compute.db, { action: 'container.rename', limit: 10 });
    assert.deepEqual(
      entries.map(({ target, detail }) => [target, detail]),
      [[id, { name: 'Web 2', before: 'box' }]],
    );
    await turns();
    assert.equal(socket.texts.length, 2, 'the same name again is no change');
  });

  test('is kept by a change without fields, which writes nothing and tells nobody', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.updates(ann);
    const written = z.object({ xmin: z.string(), outbox: z.string(), audit: z.string() });
    const state = () =>
      compute.db.one(
        written,
        `select xmin::text as xmin, (select count(*) from outbox)::text as outbox,
           (select count(*) from audit_log)::text as audit
         from containers where id = $1`,
        [id],
      );
    // The watcher lists all now and then.
    const calls = () => compute.engine.calls.filter((call) => call !== 'list');
    const [before, view, work] = [await state(), await compute.view(ann, id), calls()];
    assert.deepEqual(await rename(compute, id, {}), view);
    await refused('not_found', rename(compute, id, {}, bob));
    await turns();
    assert.deepEqual([await state(), calls(), socket.texts.length], [before, work, 1]);
  });

  test('is checked as at creation, and is its owner’s to change', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.create(ann);
    for (const body of [{ name: '' }, { name: '-x' }, { name: 'x'.repeat(64) }, { name: 'x', mounts: [] }])
      await refused('invalid_request', (async () => rename(compute, id, body))());
    await refused('not_found', rename(compute, id, { name: 'mine' }, bob));
    assert.equal((await compute.view(ann, id)).name, 'box');
    await compute.on(deleteContainer, ann, id);
    await refused('not_found', rename(compute, id, { name: 'late' }));
  });
});

describe('SSH access', () => {
  test('lets the chosen keys in while it is enabled, and only the platform otherwise', async (t) => {
    const compute = await openCompute(t);
    const key = publicKey('chosen');
    const id = await compute.running(ann, { ssh_key_ids: [await compute.key(ann, key)] });
    assert.deepEqual(await compute.on(getSsh, ann, id), { ssh_enabled: false });
    assert.deepEqual(compute.engine.keysOf(id), [PLATFORM_KEY]);
    assert.deepEqual(await put(compute, setSsh, id, { ssh_enabled: true }), { ssh_enabled: true });
    await until(() => compute.engine.keysOf(id).includes(key));
    assert.equal((await compute.view(ann, id)).ssh_enabled, true);
    await put(compute, setSsh, id, { ssh_enabled: false });
    await until(() => !compute.engine.keysOf(id).includes(key));
    assert.equal((await compute.view(ann, id)).status, 'running');
  });

  test('changed while the engine is away is changed in the container later', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.fail('renewKeys', new EngineError('unavailable', 'away'), 1);
    await put(compute, setSsh, id, { ssh_enabled: true });
    await until(() => compute.engine.keysOf(id).length === 2);
  });

  test('changed by a platform that died at once is changed by the next', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const release = compute.engine.hold('inspect');
    await put(compute, setSsh, id, { ssh_enabled: true });
    await compute.stop();
    release();
    assert.equal(compute.engine.keysOf(id).length, 1);
    await compute.start();
    await until(() => compute.engine.keysOf(id).length === 2);
  });

  test('is shown with a command that works as it stands, while it is enabled and the gateway is known', async (t) => {
    let at: { host: string; port: number } | undefined;
    const compute = await openCompute(t, { sshAddress: () => at });
    const id = await compute.running(ann);
    await put(compute, setSsh, id, { ssh_enabled: true });
    assert.equal((await compute.view(ann, id)).ssh, undefined);
    at = { host: '127.0.0.1', port: 2222 };
    const ssh = { command: `ssh -p 2222 ${id}@127.0.0.1`, host: '127.0.0.1', port: 2222, user: id };
    assert.deepEqual((await compute.view(ann, id)).ssh, ssh);
    assert.deepEqual((await compute.list(ann))[0]?.ssh, ssh);
    assert.equal((await compute.view(ann, id)).ssh_command, `ssh root@${id}.compute.cloud.test`);
    await put(compute, setSsh, id, { ssh_enabled: false });
    assert.equal((await compute.view(ann, id)).ssh, undefined);
  });

  test('taken away is news to whoever listens', async (t) => {
    const compute = await openCompute(t);
    const news: ComputeNews[] = [];
    const listening = computeNews(compute.db).onNews((one) => one.kind !== 'status' && news.push(one));
    t.after(() => listening.close());
    await until(() => news.length > 0);
    const key = await compute.key(ann);
    const id = await compute.running(ann, { ssh_key_ids: [key] });
    await put(compute, setSsh, id, { ssh_enabled: true });
    await put(compute, setSsh, id, { ssh_enabled: true });
    await compute.call(deleteSshKey, ann, { params: { id: String(key) } });
    await compute.call(addIngress, ann, { params: { id }, body: { port: 80 } });
    await compute.on(deleteContainer, ann, id);
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
    const compute = await openCompute(t, { takenPorts: [80, 443, 8443] });
    const id = await compute.running(ann);
    const add = (port: number) => compute.call(addIngress, ann, { params: { id }, body: { port } });
    const { message } = await refused('conflict', add(8443));
    assert.match(message, /^Port 8443 is used by the platform itself/);
    for (const port of [80, 443, 8444]) assert.equal((await add(port)).port, port);
  });

  test('rules are added with a default target, listed, and removed by port; HTTPS follows the rule on 443', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const add = (body: object) => compute.call(addIngress, ann, { params: { id }, body });
    const rule = await add({ port: 8080 });
    assert.deepEqual(Object.keys(rule).sort(), ['created_at', 'id', 'port', 'target_port']);
    assert.deepEqual([rule.port, rule.target_port], [8080, 8080]);
    assert.ok(Math.abs(rule.created_at - Date.now() / 1000) < 60);
    assert.equal((await add({ port: 443, target_port: 8443 })).target_port, 8443);
    assert.equal((await compute.view(ann, id)).https_enabled, true);
    const { rules } = await compute.on(listIngress, ann, id);
    assert.deepEqual(
      rules.map(({ port }) => port),
      [443, 8080],
    );
    await refused('conflict', add({ port: 443 }));
    const remove = (port: string) => compute.call(deleteIngress, ann, { params: { id, port } });
    assert.deepEqual(await remove('443'), { status: 'ok' });
    await refused('not_found', remove('443'));
    assert.equal((await compute.view(ann, id)).https_enabled, false);
    // It is the row's, not this actor's memory.
    await compute.stop();
    await compute.start();
    assert.equal((await compute.view(ann, id)).https_enabled, false);
    assert.equal((await compute.on(listIngress, ann, id)).rules.length, 1);
  });

  test('of two rules on one port at once one is refused', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.create(ann);
    const adds = await Promise.allSettled(
      [1, 2, 3].map((target_port) =>
        compute.call(addIngress, ann, { params: { id }, body: { port: 8000, target_port } }),
      ),
    );
    assert.equal(adds.filter(({ status }) => status === 'fulfilled').length, 1);
  });
});

describe('mounts', () => {
  test('set on a running container restart it, once, with the data of the paths that stay', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann, { mount_paths: ['/root', '/old'] });
    compute.engine.files(id)?.set('/root/a', '1').set('/old/b', '2');
    const socket = await compute.updates(ann);
    const body = { mount_paths: ['/root', '/new'] };
    assert.deepEqual(await put(compute, setMounts, id, body), { ...body, restarted: true });
    assert.equal((await compute.view(ann, id)).status, 'pending');
    await compute.reaches(ann, id, 'running');
    assert.deepEqual(compute.engine.specOf(id)?.mountPaths, ['/root', '/new']);
    assert.equal(compute.engine.files(id)?.get('/root/a'), '1');
    assert.equal(compute.engine.files(id)?.get('/old/b'), '2');
    assert.deepEqual(await compute.on(getMounts, ann, id), { mount_paths: ['/root', '/new'] });
    const statuses = socket.events.slice(1).map((event) => JSON.stringify(event).match(/"status":"(\w+)"/)?.[1]);
    assert.deepEqual(statuses, ['pending', 'initializing', 'running']);
    compute.clock.advance(10_000);
    await put(compute, setMounts, id, { mount_paths: ['/root', '/old'] });
    await compute.reaches(ann, id, 'running');
    assert.equal(compute.engine.files(id)?.get('/old/b'), '2');
    assert.deepEqual(await compute.notices(ann.userId), ['Container started: "box" is running.']);
  });

  test('restart it at most every ten seconds, and can be changed 64 times', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    await put(compute, setMounts, id, { mount_paths: ['/root', '/one'] });
    await compute.reaches(ann, id, 'running');
    const refusal = await refused('too_many_changes', put(compute, setMounts, id, { mount_paths: ['/root'] }));
    assert.ok(Number(refusal.retryAfter) >= 1 && Number(refusal.retryAfter) <= 10, refusal.message);
    await compute.on(stopContainer, ann, id);
    for (let n = 2; n <= 64; n++) await put(compute, setMounts, id, { mount_paths: [`/path-${n}`] });
    await refused('limit_reached', put(compute, setMounts, id, { mount_paths: ['/more'] }));
    await put(compute, setMounts, id, { mount_paths: ['/path-64'] });
  });

  test('are refused where the restart would lose files, unless that is meant', async (t) => {
    const compute = await openCompute(t, { engine: { keepsFiles: false } });
    const id = await compute.running(ann);
    const refusal = await refused('discards_files', put(compute, setMounts, id, { mount_paths: ['/root', '/data'] }));
    assert.match(
      refusal.message,
      /loses all files outside \/root, what it has at \/data included: send "discard": true/,
    );
    assert.deepEqual(await put(compute, setMounts, id, { mount_paths: ['/root', '/data'], discard: true }), {
      mount_paths: ['/root', '/data'],
      restarted: true,
    });
    await compute.on(stopContainer, ann, id);
    await put(compute, setMounts, id, { mount_paths: ['/srv'] });
  });

  test('that are the same restart it too: that is what was asked for', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    assert.deepEqual(await put(compute, setMounts, id, { mount_paths: ['/root'] }), {
      mount_paths: ['/root'],
      restarted: true,
    });
    await compute.reaches(ann, id, 'running');
    assert.equal(compute.engine.calls.filter((call) => call === `stop ${id}`).length, 1);
    assert.equal(compute.engine.calls.filter((call) => call === `start ${id}`).length, 2);
  });

  test('set on a stopped one count from its next start', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    await compute.on(stopContainer, ann, id);
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    const body = { mount_paths: ['/data'] };
    assert.deepEqual(await put(compute, setMounts, id, body), { ...body, restarted: false });
    await turns();
    assert.equal((await compute.view(ann, id)).status, 'stopped');
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.deepEqual(compute.engine.specOf(id)?.mountPaths, ['/data']);
  });

  test('set while it starts are the ones it runs with', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('start');
    const id = await compute.create(ann);
    await compute.reaches(ann, id, 'initializing');
    assert.equal(
      (await compute.call(setMounts, ann, { params: { id }, body: { mount_paths: ['/x'] } })).restarted,
      false,
    );
    release();
    await until(() => compute.engine.specOf(id)?.mountPaths.includes('/x'));
    await compute.reaches(ann, id, 'running');
  });

  test('a restart that was asked for before the platform died is done by the next', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const release = compute.engine.hold('stop');
    await put(compute, setMounts, id, { mount_paths: ['/root'] });
    await until(() => compute.engine.calls.includes(`stop ${id}`));
    compute.engine.fail('stop', new EngineError('unavailable', 'gone'));
    await compute.stop();
    release();
    await compute.start();
    await compute.reaches(ann, id, 'running');
    assert.equal(compute.engine.calls.filter((call) => call === `start ${id}`).length, 2);
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
    test(`${what} are refused`, () => {
      assert.throws(() => callFrom(setMounts, ann, { params: { id: 'aaaaaaaaaaaa' }, body: { mount_paths: paths } }), {
        code: 'invalid_request',
      });
    });
  }
});

test('the pull policy counts from the next start', async (t) => {
  const image = `${REGISTRY}/ann/app:1`;
  const pulls: boolean[] = [];
  const compute = await openCompute(t, {
    engine: { images: [image] },
    wrapEngine: (engine) => ({
      ...engine,
      ensureImage: (name, options) => {
        pulls.push(options.always);
        return engine.ensureImage(name, options);
      },
    }),
  });
  const id = await compute.running(ann, { image });
  assert.deepEqual(await put(compute, setPullPolicy, id, { pull_policy: 'Always' }), { pull_policy: 'Always' });
  assert.deepEqual(pulls, [false]);
  await compute.on(stopContainer, ann, id);
  await compute.on(startContainer, ann, id);
  await compute.reaches(ann, id, 'running');
  assert.deepEqual(pulls, [false, true]);
  assert.equal((await compute.view(ann, id)).pull_policy, 'Always');
});

describe('images', () => {
  test('are the default one and what the registry has, and can be given at creation as they are listed', async (t) => {
    const image = `${REGISTRY}/ann/app:1`;
    const compute = await openCompute(t, {
      engine: { images: [image] },
      catalog: { list: async ({ username }) => (username === 'ann' ? [image] : []) },
    });
    const images = await compute.call(listImages, ann);
    assert.deepEqual(images[1], { name: 'ann/app:1', image, source: 'registry' });
    assert.deepEqual([images[0]?.image, images[0]?.source, images.length], [compute.engine.baseImage, 'builtin', 2]);
    assert.equal((await compute.call(listImages, bob)).length, 1);
    for (const entry of images) await compute.running(ann, { image: entry.image });
  });

  test('are the default one alone while the registry is away', async (t) => {
    const compute = await openCompute(t, { catalog: { list: () => Promise.reject(new Error('refused')) } });
    assert.equal((await compute.call(listImages, ann)).length, 1);
    assert.ok(compute.log.lines.some(({ level, message }) => level === 'warn' && message.includes('registry')));
  });
});

test('the administrator sees the containers of all users, with owner, address and whole seconds', async (t) => {
  const compute = await openCompute(t);
  await compute.db.run(`insert into users (id, username, display_name, password_hash) values ($1, 'ann', 'Ann', 'x')`, [
    ann.userId,
  ]);
  const [mine, other] = [await compute.running(ann), await compute.create(bob)];
  const all = await compute.call(listAllContainers, { ...someone('admin'), isAdmin: true });
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
  const { created_at: _, ...view } = await compute.view(ann, mine);
  const { user_id, owner, ...shown } = rest;
  assert.deepEqual(shown, { ...view, memory_used_mb: shown.memory_used_mb, storage_used_gb: shown.storage_used_gb });
});

test('every change leaves one entry in the trail, and what was refused leaves none', async (t) => {
  const compute = await openCompute(t);
  const key = await compute.key(ann);
  const id = await compute.running(ann, { ssh_key_ids: [key] });
  await put(compute, setSsh, id, { ssh_enabled: true });
  await put(compute, setSsh, id, { ssh_enabled: true });
  await compute.call(addIngress, ann, { params: { id }, body: { port: 443 } });
  await refused('conflict', compute.call(addIngress, ann, { params: { id }, body: { port: 443 } }));
  await compute.call(deleteIngress, ann, { params: { id, port: '443' } });
  await refused('not_found', compute.call(deleteIngress, ann, { params: { id, port: '443' } }));
  await put(compute, setMounts, id, { mount_paths: ['/data'] });
  await put(compute, setPullPolicy, id, { pull_policy: 'Always' });
  await compute.reaches(ann, id, 'running');
  await refused('conflict', compute.on(startContainer, ann, id));
  await compute.on(stopContainer, ann, id);
  await compute.on(startContainer, ann, id);
  await compute.on(deleteContainer, ann, id);
  await compute.call(deleteSshKey, ann, { params: { id: String(key) } });
  const entries = await readAudit(compute.db, { limit: 100 });
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
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  await compute.call(addIngress, ann, { params: { id }, body: { port: 80 } });
  for (const [endpoint, body] of [
    [getSsh, undefined],
    [setSsh, { ssh_enabled: true }],
    [listIngress, undefined],
    [addIngress, { port: 8000 }],
    [forgetAnswers, undefined],
    [getMounts, undefined],
    [setMounts, { mount_paths: ['/x'] }],
    [setPullPolicy, { pull_policy: 'Always' }],
  ] as const) {
    await refused('not_found', compute.service.call(endpoint, callFrom(endpoint, bob, { params: { id }, body })));
  }
  await refused('not_found', compute.call(deleteIngress, bob, { params: { id, port: '80' } }));
  assert.equal((await compute.on(listIngress, ann, id)).rules.length, 1);
});

describe('notifications', () => {
  test('a start that was asked for is told once it runs, a stop when it is asked for, each once', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    await compute.on(stopContainer, ann, id);
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.deepEqual(await compute.notices(ann.userId), [
      'Container started: "box" is running.',
      'Container stopped: "box": it was stopped.',
      'Container started: "box" is running.',
    ]);
  });

  test('neither a restart of the platform nor a change of address tells anything', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    await compute.stop();
    await compute.start();
    compute.engine.reconnect();
    await turns();
    await compute.reaches(ann, id, 'running');
    assert.equal((await compute.notices(ann.userId)).length, 1);
  });

  test('an end by itself is told, its new start is not: nobody asked for it', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.crash(id, { exitCode: 2 });
    await until(async () => (await compute.notices(ann.userId)).length === 2);
    await compute.reaches(ann, id, 'running');
    await turns();
    assert.match((await compute.notices(ann.userId)).at(-1) ?? '', /stopped.*exit code 2/);
    assert.equal((await compute.notices(ann.userId)).length, 2);
  });

  test('a status that reached the database although its answer was lost is told once', async (t) => {
    const compute = await openCompute(t);
    const socket = await compute.updates(ann);
    const { tx } = compute.db;
    let lost = 0;
    compute.db.tx = async (work, options) => {
      const result = await tx(work, options);
      const [row] = await compute.db.many(statusRow, 'select status from containers');
      if (row?.status !== 'running' || lost > 0) return result;
      lost++;
      throw gone();
    };
    const id = await compute.create(ann);
    await until(() => lost === 1);
    await compute.reaches(ann, id, 'running');
    await until(() => socket.texts.at(-1)?.includes('"running"'));
    compute.engine.reconnect();
    await turns();
    assert.deepEqual(await compute.notices(ann.userId), ['Container started: "box" is running.']);
    assert.equal(socket.texts.filter((text) => text.includes('"running"')).length, 1);
  });

  test('a stop whose answer was lost is done all the same', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const { tx } = compute.db;
    compute.db.tx = async (work, options) => {
      await tx(work, options);
      throw gone();
    };
    await refused('unavailable', compute.on(stopContainer, ann, id));
    compute.db.tx = tx;
    compute.engine.reconnect();
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    assert.equal((await compute.view(ann, id)).status, 'stopped');
    assert.equal((await compute.notices(ann.userId)).length, 2);
  });
});

test('the administrator stops and deletes containers of others; the trail names the administrator', async (t) => {
  const compute = await openCompute(t);
  const admin = { ...someone('admin'), isAdmin: true };
  const id = await compute.running(ann);
  // As a request has it: the address is asked for when it is read.
  const { address, ...rest } = callFrom(adminStopContainer, admin, { params: { id }, address: '192.0.2.7' });
  const asked: Call = Object.assign(Object.create({ address }), rest);
  await compute.service.call(adminStopContainer, asked);
  await until(async () => (await compute.view(ann, id)).status === 'stopped');
  await compute.call(adminDeleteContainer, admin, { params: { id } });
  await refused('not_found', compute.view(ann, id));
  await refused('not_found', compute.call(adminStopContainer, admin, { params: { id } }));
  const trail = await readAudit(compute.db, { username: admin.username, limit: 10 });
  assert.deepEqual(
    trail.map(({ action, userId, target, address: from }) => [action, userId, target, from]),
    [
      ['container.stop', admin.userId, id, '192.0.2.7'],
      ['container.delete', admin.userId, id, '192.0.2.1'],
    ],
  );
});
