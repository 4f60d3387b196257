/** The health of containers, and the way back from a change that does not lead to a healthy one. */
import assert from 'node:assert/strict';
import type { Duplex } from 'node:stream';
import { describe, test } from 'node:test';
import { createContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { getSettings } from '../../proto/compute/workload.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import type { MemoryEngine, MemoryEngineOptions } from '../support/engine/memory-engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import type { Cleanup } from '../support/temp.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const [ONE, TWO, BROKEN, CRASHING] = ['1', '2', 'broken', 'crashing'].map((tag) => `${REGISTRY}/ann/app:${tag}`) as [
  string,
  string,
  string,
  string,
];
const health = { http: { port: 8080, path: '/healthz' }, grace: 600 };
const brief = { ...health, grace: 1 };
const SS = 'LISTEN 0 511 127.0.0.1:3000 0.0.0.0:* users:(("node",pid=7,fd=18))\n';

/** Answers HTTP with a status; `asked` gets what came. */
function answer(engine: MemoryEngine, id: string, status: () => number, asked: string[] = []): void {
  engine.listen(id, 8080, (stream: Duplex) => {
    stream.on('error', () => undefined);
    stream.once('data', (data: Buffer) => {
      asked.push(String(data));
      stream.write(`HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 ${status()} Whatever\r\n\r\nbody`);
    });
  });
}

function sshd(engine: MemoryEngine, id: string): void {
  engine.listen(id, 22, (stream) => {
    stream.on('error', () => undefined);
    stream.resume();
    stream.write('SSH-2.0-memory\r\n');
  });
}

/** Images: `broken` listens on the wrong port, `crashing` ends at once; the others are well. */
const images = (more: MemoryEngineOptions = {}): { engine: MemoryEngineOptions } => ({
  engine: {
    images: [ONE, TWO, BROKEN, CRASHING],
    onStart: (id, engine) => {
      sshd(engine, id);
      const image = engine.specOf(id)?.image.split('@')[0];
      if (image === CRASHING) setImmediate(() => engine.crash(id, { exitCode: 3 }));
      else if (image !== BROKEN && engine.workloadOf(id)?.env.BREAK === undefined) answer(engine, id, () => 204);
    },
    onRun: (command) => {
      command.stdout.write(SS);
      command.exit(0);
    },
    ...more,
  },
});

/** Whose first look at a container that has the shortest grace is after it. */
async function openImpatient(t: Cleanup): Promise<ComputeUnderTest> {
  const compute = await openCompute(t, images());
  compute.clock.advance(1000);
  return compute;
}

const change = (compute: ComputeUnderTest, id: string, body: object) =>
  compute.call(updateContainer, ann, { params: { id }, body });
const becomes = (compute: ComputeUnderTest, id: string, wanted: string) => compute.healthBecomes(ann, id, wanted);
const auditOf = async (compute: ComputeUnderTest, action: string) =>
  (await readAudit(compute.db, { action, limit: 10 })).map(({ username, target, detail }) => ({
    username,
    target,
    detail,
  }));

describe('health', () => {
  test('is starting until the first good answer, and healthy then', async (t) => {
    let status = 503;
    const asked: string[] = [];
    const compute = await openCompute(t, {
      engine: {
        onStart: (id, engine) => {
          sshd(engine, id);
          answer(engine, id, () => status, asked);
        },
      },
    });
    const id = await compute.running(ann, { health });
    const view = await until(async () => {
      const now = await compute.view(ann, id);
      return now.health_reason === undefined ? undefined : now;
    });
    assert.deepEqual(
      [view.status, view.health, view.health_reason],
      ['running', 'starting', 'Not healthy yet: it answers 503 at /healthz.'],
    );
    status = 399;
    const well = await becomes(compute, id, 'healthy');
    assert.equal(well.health_reason, undefined);
    assert.match(asked[0] ?? '', new RegExp(`^GET /healthz HTTP/1.1\\r\\nHost: ${id}\\.`));
    // Nothing is asked any more.
    const count = asked.length;
    compute.engine.tell(id);
    await turns();
    assert.equal(asked.length, count);
    // A crash begins it anew.
    compute.engine.crash(id);
    await until(async () => (await compute.view(ann, id)).restarts === 1);
    await becomes(compute, id, 'healthy');
  });

  test('of a reply that waits is known', async (t) => {
    let isWell = false;
    const compute = await openCompute(t, {
      engine: {
        onStart: (id, engine) => {
          sshd(engine, id);
          answer(engine, id, () => (isWell ? 200 : 500));
        },
      },
    });
    const body = { name: 'box', ssh_key_ids: [await compute.key(ann)], health };
    const waiting = compute.call(createContainer, ann, { body, query: { wait: 'running', timeout: '50' } });
    const view = await until(async () => (await compute.list(ann)).find((each) => each.status === 'running'));
    let isAnswered = false;
    void waiting.then(() => {
      isAnswered = true;
    });
    await until(async () => (await compute.view(ann, view.id)).health_reason !== undefined);
    assert.equal(isAnswered, false);
    isWell = true;
    const reply = await waiting;
    assert.deepEqual([reply.status, reply.health], ['running', 'healthy']);
  });

  test('is unhealthy when nothing answers within the grace, and says what listens inside', async (t) => {
    const compute = await openCompute(t, images());
    const id = await compute.running(ann, { image: BROKEN, health: brief });
    const view = await becomes(compute, id, 'unhealthy');
    assert.equal(
      view.health_reason,
      'It was not healthy within 1 s: nothing answers on port 8080. Inside, node listens on 127.0.0.1:3000.',
    );
    assert.equal(view.image, BROKEN);
    assert.ok(
      (await compute.notices(ann.userId)).some((text) => text.startsWith('Container unhealthy: "box": It was')),
    );
    // It is not looked at without end, and a stopped one is not at all.
    await compute.on(stopContainer, ann, id);
    assert.equal((await compute.view(ann, id)).health, null);
    await compute.on(startContainer, ann, id);
    assert.equal((await compute.view(ann, id)).health, 'starting');
  });

  test('is a connection, or a command that ends with 0', async (t) => {
    let code = 1;
    const compute = await openCompute(t, {
      ...images({
        onRun: (command) => {
          command.stderr.write('no response\n');
          command.exit(code);
        },
      }),
    });
    const tcp = await compute.running(ann, { image: ONE, health: { tcp: { port: 8080 } } });
    await becomes(compute, tcp, 'healthy');
    const id = await compute.running(ann, { image: BROKEN, health: { command: ['pg_isready', '-q'] } });
    const view = await until(async () => {
      const now = await compute.view(ann, id);
      return now.health_reason === undefined ? undefined : now;
    });
    assert.equal(view.health_reason, 'Not healthy yet: `pg_isready -q` ended with exit code 1, and said: no response.');
    code = 0;
    await becomes(compute, id, 'healthy');
  });

  test('does not tell the secrets of a container that a command prints', async (t) => {
    const secret = 'psql://app:hunter2-hunter2@db';
    const compute = await openCompute(t, {
      ...images({
        onRun: (command) => {
          command.stderr.write(`cannot reach ${secret}!\n${'.'.repeat(4040)}${secret}`);
          command.exit(1);
        },
      }),
    });
    const body = { image: BROKEN, secrets: { URL: secret }, health: { command: ['check'], grace: 1 } };
    const id = await compute.running(ann, body);
    const { health_reason } = await becomes(compute, id, 'unhealthy');
    assert.match(health_reason ?? '', /and said: \u2026\.+\*\*\*\.$/);
    assert.ok(!JSON.stringify([await compute.notices(ann.userId), compute.log.lines]).includes('hunter2'));
  });

  test('says of an image without a shell that a command cannot look', async (t) => {
    const compute = await openCompute(t, {
      engine: { images: [BROKEN], onStart: (id, engine) => sshd(engine, id) },
    });
    const id = await compute.running(ann, { image: BROKEN, health: { command: ['true'], grace: 1 } });
    const { health_reason } = await becomes(compute, id, 'unhealthy');
    assert.equal(
      health_reason,
      'It was not healthy within 1 s: `true` cannot be run: The image of this container has no shell.',
    );
  });

  test('does not wait for an answer that comes in crumbs', async (t) => {
    let crumbs = 0;
    const compute = await openCompute(t, {
      engine: {
        onStart: (id, engine) => {
          sshd(engine, id);
          engine.listen(id, 8080, (stream) => {
            stream.on('error', () => undefined);
            stream.write('HTTP/1.1 100 Continue\r\n');
            const crumb = () => {
              if (stream.destroyed) return;
              crumbs += 1;
              stream.write('x\r\n', () => setImmediate(crumb));
            };
            crumb();
          });
        },
      },
    });
    const id = await compute.running(ann, { health });
    const { health_reason } = await until(async () => {
      const now = await compute.view(ann, id);
      return now.health_reason === undefined ? undefined : now;
    });
    assert.match(health_reason ?? '', /no HTTP answer came on port 8080/);
    assert.ok(crumbs < 500, `${crumbs} crumbs`);
  });

  test('is set and taken away without a restart', async (t) => {
    const compute = await openCompute(t, images());
    const id = await compute.running(ann, { image: ONE });
    assert.equal((await compute.view(ann, id)).health, null);
    assert.equal((await change(compute, id, { health })).status, 'running');
    await becomes(compute, id, 'healthy');
    assert.deepEqual((await compute.on(getSettings, ann, id)).health, health);
    assert.equal((await change(compute, id, { health: null })).health, null);
    assert.equal((await compute.on(getSettings, ann, id)).health, null);
    assert.equal(compute.engine.calls.filter((call) => call === `start ${id}`).length, 1);
    assert.deepEqual(
      (await auditOf(compute, 'container.settings')).map(({ detail }) => detail),
      [
        { replaced: ['health'], restarted: false },
        { replaced: ['health'], restarted: false },
      ],
    );
  });

  test('of no known kind, or of two, is refused with a sentence', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const bad: [unknown, RegExp][] = [
      [{}, /"health" must have one of "http", "tcp" and "command"/],
      [{ tcp: { port: 1 }, http: { port: 1 } }, /"health" must have one of/],
      [{ tcp: { port: 65_536 } }, /"health.tcp.port" must be 1 to 65535/],
      [{ http: { port: 80, path: 'x' } }, /"health.http.path" must begin with "\/"/],
      [{ http: { port: 80, path: '/ x\r\nA: b' } }, /"health.http.path" must begin with "\/"/],
      [{ http: { port: 80, host: 'a b' } }, /"health.http.host" must be a host name/],
      [{ tcp: { port: 80 }, grace: 601 }, /"health.grace" must be 1 to 600/],
      [{ command: [] }, /"health.command" must have a word/],
    ];
    for (const [wanted, message] of bad)
      assert.throws(() => callFrom(updateContainer, ann, { params: { id }, body: { health: wanted } }), { message });
    await refused('not_found', compute.call(updateContainer, someone('bob'), { params: { id }, body: { health } }));
  });
});

describe('the way back', () => {
  test('from an image that does not become healthy leads to the former one, with its settings', async (t) => {
    const compute = await openImpatient(t);
    const id = await compute.running(ann, { image: ONE, env: { A: '1' }, secrets: { S: 'old' }, health: brief });
    await becomes(compute, id, 'healthy');
    compute.engine.files(id)?.set('/root/kept', 'x');
    await change(compute, id, { image: BROKEN, env: { A: '2', B: '2' }, secrets: { S: 'new' } });
    await until(() => compute.engine.specOf(id)?.image === BROKEN, { what: 'it has the broken image' });
    const view = await becomes(compute, id, 'healthy');
    assert.equal(view.image, ONE);
    const reason =
      `The change to ${BROKEN} was given up, and the container has ${ONE} and the settings of before. It was not ` +
      'healthy within 1 s: nothing answers on port 8080. Inside, node listens on 127.0.0.1:3000. Mend that, and send ' +
      'the change again.';
    assert.equal(view.status_reason, reason);
    assert.deepEqual(compute.engine.workloadOf(id)?.env, { A: '1', S: 'new' });
    assert.match(compute.engine.specOf(id)?.image ?? '', /^\S+app:1@sha256:/);
    assert.equal(compute.engine.files(id)?.get('/root/kept'), 'x');
    assert.ok((await compute.notices(ann.userId)).includes(`Change given up: "box": ${reason}`));
    const [entry] = await auditOf(compute, 'container.change_given_up');
    assert.deepEqual([entry?.username, entry?.target], ['platform', id]);
    assert.deepEqual(entry?.detail.image, { before: BROKEN, after: `${ONE}@${view.image_digest}` });
    // Another change is not touched by it.
    await change(compute, id, { image: TWO });
    await until(() => compute.engine.specOf(id)?.image === TWO);
    assert.equal((await becomes(compute, id, 'healthy')).status_reason, undefined);
  });

  test('is taken after five crashes, and when the image cannot be started', async (t) => {
    const compute = await openImpatient(t);
    const id = await compute.running(ann, { image: ONE, health: brief });
    await becomes(compute, id, 'healthy');
    await change(compute, id, { image: CRASHING });
    const crashed = await until(
      async () => {
        const view = await compute.view(ann, id);
        return view.image === ONE && view.health === 'healthy' && view.next_image === undefined ? view : undefined;
      },
      { timeoutMs: 60_000 },
    );
    assert.match(crashed.status_reason ?? '', /given up.* It keeps crashing: it ended with exit code 3.* Mend that/);
    compute.engine.fail('start', new EngineError('refused', 'There is no such program.'));
    await change(compute, id, { image: TWO });
    await until(async () => /no such program/.test((await compute.view(ann, id)).status_reason ?? ''));
    assert.equal((await becomes(compute, id, 'healthy')).image, ONE);
  });

  test('from settings keeps the image and the files, and is not taken for secrets alone', async (t) => {
    const compute = await openImpatient(t);
    const id = await compute.running(ann, { image: ONE, health: brief });
    await becomes(compute, id, 'healthy');
    compute.engine.files(id)?.set('/opt/file', 'x');
    await change(compute, id, { env: { BREAK: '1' } });
    await until(() => compute.engine.workloadOf(id)?.env.BREAK === '1');
    const view = await becomes(compute, id, 'healthy');
    assert.match(
      view.status_reason ?? '',
      /^The change of settings was given up, and the container has those of before/,
    );
    assert.deepEqual((await compute.on(getSettings, ann, id)).env, {});
    assert.equal(compute.engine.files(id)?.get('/opt/file'), 'x');
    await change(compute, id, { secrets: { BREAK: '1' } });
    await until(() => compute.engine.workloadOf(id)?.env.BREAK === '1');
    await becomes(compute, id, 'unhealthy');
    assert.deepEqual((await compute.on(getSettings, ann, id)).secrets, ['BREAK']);
  });

  test('leads to what was healthy last, over several changes in a row', async (t) => {
    const compute = await openCompute(t, images());
    const id = await compute.running(ann, { image: ONE, health });
    await becomes(compute, id, 'healthy');
    await change(compute, id, { image: BROKEN });
    await until(() => compute.engine.specOf(id)?.image === BROKEN);
    await becomes(compute, id, 'starting');
    await change(compute, id, { env: { A: '1' } });
    await until(() => compute.engine.workloadOf(id)?.env.A === '1');
    await becomes(compute, id, 'starting');
    compute.clock.advance(601_000);
    const view = await becomes(compute, id, 'healthy');
    assert.deepEqual([view.image, (await compute.on(getSettings, ann, id)).env], [ONE, {}]);
  });

  test('is not there without a check: the container stays as it was changed', async (t) => {
    const compute = await openImpatient(t);
    const id = await compute.running(ann, { image: ONE, health: brief });
    await becomes(compute, id, 'healthy');
    compute.engine.fail('start', new EngineError('refused', 'There is no such program.'));
    await change(compute, id, { image: TWO, health: null });
    const view = await compute.reaches(ann, id, 'failed');
    assert.deepEqual([view.image, view.health], [TWO, null]);
  });

  for (const call of ['stop', 'create', 'start'] as const) {
    test(`is found by the next node when one is lost at ${call} of the change, and of the way back`, async (t) => {
      const compute = await openCompute(t, images());
      const id = await compute.running(ann, { image: ONE, health });
      await becomes(compute, id, 'healthy');
      const count = () => compute.engine.calls.filter((each) => each === `${call} ${id}`).length;
      const lose = async (begin: () => Promise<unknown>) => {
        const before = count();
        const release = compute.engine.hold(call);
        await begin();
        await until(() => count() > before, { what: `it is at ${call}` });
        await compute.stop();
        release();
        await compute.start();
      };
      await lose(() => change(compute, id, { image: BROKEN }));
      await until(async () => (await compute.view(ann, id)).health_reason?.startsWith('Not healthy yet'), {
        what: 'the new one was looked at',
        timeoutMs: 30_000,
      });
      await lose(async () => compute.clock.advance(601_000));
      const view = await becomes(compute, id, 'healthy');
      assert.deepEqual([view.image, compute.engine.specOf(id)?.image], [ONE, `${ONE}@${view.image_digest}`]);
      assert.equal((await auditOf(compute, 'container.change_given_up')).length, 1);
    });
  }
});
