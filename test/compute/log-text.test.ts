/** The log of a container as text, whatever its state. */
import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { getContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { MAX_TRANSFERS } from '../../proto/compute/files.ts';
import { readLogs } from '../../proto/compute/logs.ts';
import type { Caller, TransferReply, Upload } from '../../proto/endpoint.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const upload: Upload = {
  header: () => undefined,
  stream: () => assert.fail('it has no body'),
  signal: new AbortController().signal,
};

async function ask(
  { service }: ComputeUnderTest,
  id: string,
  query: Record<string, string> = {},
  who: Caller = ann,
): Promise<Extract<TransferReply, { bytes: unknown }>> {
  assert.ok(service.transfer !== undefined);
  const reply = await service.transfer(readLogs, callFrom(readLogs, who, { params: { id }, query }), upload);
  assert.ok('bytes' in reply);
  return reply;
}

/** The lines of the reply. */
async function read(compute: ComputeUnderTest, id: string, query: Record<string, string> = {}): Promise<string[]> {
  const { bytes, status } = await ask(compute, id, query);
  assert.equal(status, 200);
  const all = await text(bytes);
  if (all === '') return [];
  assert.ok(all.endsWith('\n'));
  return all.slice(0, -1).split('\n');
}

const bare = { timestamps: 'false' };
const stampOf = (line: string | undefined) => line?.split(' ')[0] ?? '';

test('it is the newest lines, each with its stamp, of a container that runs, has stopped, or has failed', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  compute.engine.print(id, ['one', 'two', 'three']);
  const two = await read(compute, id, { tail: '2' });
  for (const line of two) assert.match(line, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (two|three)$/);
  const socket = await compute.logs(ann, id, '2');
  await until(() => socket.texts.length === 2);
  assert.deepEqual(socket.texts, two, 'the socket has the same');
  socket.leave();
  await compute.on(stopContainer, ann, id);
  await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
  assert.deepEqual(await read(compute, id, { ...bare, tail: '2' }), ['two', 'three']);
  const refusal = await refused('not_running', compute.logs(ann, id));
  assert.match(refusal.message, /is stopped: start it first\. .* GET the same path without an upgrade\.$/);

  compute.engine.fail('ensureImage', new EngineError('image_not_found', 'no such image'), 100);
  await compute.on(startContainer, ann, id);
  await compute.reaches(ann, id, 'failed');
  assert.deepEqual(await read(compute, id, { ...bare, tail: '1' }), ['three']);
});

test('it is empty while the engine has no such container, and of nobody else', async (t) => {
  const compute = await openCompute(t);
  const release = compute.engine.hold('ensureImage');
  t.after(release);
  const id = await compute.create(ann);
  assert.equal((await compute.on(getContainer, ann, id)).status, 'pending');
  assert.deepEqual(await read(compute, id), []);
  await refused('not_found', ask(compute, id, {}, someone('bob')));
});

test('a time on either side bounds it, and tail counts what is left', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  compute.engine.print(
    id,
    Array.from({ length: 200 }, (_, n) => `line ${n}`),
  );
  const all = await read(compute, id, { tail: 'all' });
  assert.equal(all.length, 201);
  assert.equal((await read(compute, id)).length, 100);
  assert.deepEqual(await read(compute, id, { since: stampOf(all[50]) }), all.slice(51));
  assert.deepEqual(await read(compute, id, { since: stampOf(all[50]), tail: '3' }), all.slice(-3));
  assert.deepEqual(await read(compute, id, { until: stampOf(all[150]) }), all.slice(50, 150));
  assert.deepEqual(await read(compute, id, { until: stampOf(all[150]), tail: '2' }), all.slice(148, 150));
  assert.deepEqual(await read(compute, id, { until: stampOf(all[1]), tail: '2' }), all.slice(0, 1));
  assert.deepEqual(
    await read(compute, id, { since: stampOf(all[10]), until: stampOf(all[20]), tail: '100' }),
    all.slice(11, 20),
  );
  const [now, long] = [Math.floor(Date.now() / 1000), { tail: 'all' }];
  assert.equal((await read(compute, id, { ...long, since: `${now - 3600}`, until: `${now + 3600}.5` })).length, 201);
  assert.deepEqual(await read(compute, id, { ...long, until: '0' }), []);
  assert.deepEqual(await read(compute, id, { ...long, until: `${now - 3600}` }), []);
  assert.deepEqual(await read(compute, id, { ...long, since: `${now + 3600}` }), []);
  assert.deepEqual(await read(compute, id, { tail: '0' }), []);
});

test('it goes back by pages: until the first line that one has', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  compute.engine.print(
    id,
    Array.from({ length: 25 }, (_, n) => `line ${n}`),
  );
  const all = await read(compute, id, { tail: 'all' });
  let got = await read(compute, id, { tail: '10' });
  for (let pages = 0; pages < 3; pages++)
    got = [...(await read(compute, id, { tail: '10', until: stampOf(got[0]) })), ...got];
  assert.deepEqual(got, all);
});

test('one output can be asked for', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  for (let n = 0; n < 5; n++) {
    compute.engine.print(id, [`out ${n}`]);
    compute.engine.print(id, [`error ${n}`], 'stderr');
  }
  assert.deepEqual(await read(compute, id, { ...bare, stream: 'stderr', tail: '2' }), ['error 3', 'error 4']);
  assert.deepEqual(await read(compute, id, { ...bare, stream: 'stdout', tail: '2' }), ['out 3', 'out 4']);
  assert.deepEqual(await read(compute, id, { ...bare, tail: '2' }), ['out 4', 'error 4']);
});

test('what is no such choice is refused', () => {
  for (const query of [
    { tail: '-1' },
    { tail: '10001' },
    { tail: 'none' },
    { since: 'yesterday' },
    { since: '999999999999' },
    { until: '2026-13-01T00:00:00Z' },
    { until: '1e5' },
    { stream: 'stdin' },
    { timestamps: 'no' },
  ])
    assert.throws(() => callFrom(readLogs, ann, { params: { id: 'aaaaaaaaaaaa' }, query }), JSON.stringify(query));
  const { query } = callFrom(readLogs, ann, { params: { id: 'aaaaaaaaaaaa' }, query: { since: '1769860800.25' } });
  assert.equal(readLogs.query?.parse(query).since, '2026-01-31T12:00:00.25Z', 'as another node reads it again');
});

test('an engine that cannot answer is told of before the reply begins; one that breaks off breaks it off', async (t) => {
  let script: () => AsyncGenerator<string[]> = async function* () {};
  const compute = await openCompute(t, { wrapEngine: (engine) => ({ ...engine, logs: () => script() }) });
  const id = await compute.running(ann);
  const failing = (code: 'unavailable' | 'refused') =>
    // biome-ignore lint/correctness/useYield: it fails before it has anything to give
    async function* () {
      throw new EngineError(code, 'one output only');
    };
  script = failing('unavailable');
  await refused('unavailable', ask(compute, id));
  script = failing('refused');
  assert.equal((await refused('conflict', ask(compute, id, { stream: 'stderr' }))).message, 'one output only');
  script = async function* () {
    yield ['2026-01-31T12:00:00.000000001Z first'];
    throw new EngineError('unavailable', 'it broke');
  };
  await assert.rejects(text((await ask(compute, id)).bytes), /it broke/);
});

test('it goes at the pace of its reader, who may leave, and a user has only so many under way', async (t) => {
  let given = 0;
  let open = 0;
  const compute = await openCompute(t, {
    wrapEngine: (engine) => ({
      ...engine,
      logs: async function* () {
        open++;
        try {
          for (let n = 0; n < 10_000; n++) {
            given++;
            yield [`2026-01-31T12:00:00.${String(n + 1).padStart(9, '0')}Z ${'x'.repeat(10_000)}`];
          }
        } finally {
          open--;
        }
      },
    }),
  });
  const id = await compute.running(ann);
  given = 0;
  const replies = [];
  for (let n = 0; n < MAX_TRANSFERS; n++) replies.push(await ask(compute, id));
  await refused('limit_reached', ask(compute, id));
  const [reader] = replies;
  assert.ok(reader !== undefined);
  await new Promise((resolve) => reader.bytes.once('data', resolve));
  reader.bytes.pause();
  await until(() => given > MAX_TRANSFERS);
  assert.ok(given < 100, `${given} lines were read for a reader who took one`);
  for (const { bytes } of replies) bytes.destroy();
  await until(() => open === 0, { what: 'the engine’s streams have ended' });
  (await ask(compute, id)).bytes.destroy();
  await until(() => open === 0);
});
