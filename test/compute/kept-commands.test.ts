/** Commands with a session, as the service handles them; their holders run on this machine. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { z } from 'zod';
import { keptName, programOf } from '../../actors/compute/exec/exec-rules.ts';
import { execContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { newId } from '../../proto/ids.ts';
import { readAudit } from '../../storage/audit.ts';
import { keptCommands } from '../../transports/engines/common/kept-commands.ts';
import { localCommands } from '../support/exec/local-commands.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { findProgram, skipUnless } from '../support/require.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { openCompute } from '../support/service/compute.ts';
import type { FakeSocket } from '../support/service/fake-socket.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const SESSION = 'a-random-id-of-the-client';
const LOST = 1006;
const skip = skipUnless(findProgram('perl') !== undefined, 'perl');

const begunSchema = z.looseObject({ type: z.literal('session'), session: z.string(), resumable: z.boolean() });

/** A running container, whose commands are kept in a folder of this machine. */
async function box(t: TestContext, options: { env?: NodeJS.ProcessEnv; commandLingerMs?: number } = {}) {
  const ends: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const folder = join(await tempDir(t), 'holders');
  const local = localCommands(options.env);
  const commands = keptCommands(local, folder);
  const holders = () => (existsSync(folder) ? readdirSync(folder).filter((name) => name !== 'lock') : []);
  const linger = options.commandLingerMs === undefined ? {} : { commandLingerMs: options.commandLingerMs };
  const onRun = (command: { exit: (code: number) => void; stdout: { write: (text: string) => unknown } }) => {
    command.stdout.write('plain');
    command.exit(6);
  };
  const compute = await openCompute(t, { commands, engine: { onRun }, ...linger });
  const id = await compute.running(ann);
  ends.push(async () => {
    for (const name of holders()) {
      const left = await commands.open(id, { name, since: 0, lingerMs: 0, lifeMs: 0 }).catch(() => undefined);
      left?.cancel();
    }
    await until(() => holders().length === 0 && local.bridges.size === 0, { what: 'nothing is left' });
  });
  const run = (command: string[], query: Record<string, string> = {}, caller = ann) =>
    compute.exec(caller, id, { command, session: SESSION, ...query });
  const join_ = (since: number, caller = ann) => compute.exec(caller, id, { session: SESSION, since: String(since) });
  return { compute, id, local, holders, run, join: join_ };
}

const printed = (socket: FakeSocket) => socket.bytes.map((frame) => frame.slice(1)).join('');
const prints = (socket: FakeSocket, text: string) => until(() => printed(socket) === text, { what: text });
const said = (socket: FakeSocket, type: string) =>
  until(() => socket.events.find((event) => z.looseObject({ type: z.literal(type) }).safeParse(event).success), {
    what: type,
  });

describe('a command with a session', { skip, timeout: 120_000 }, () => {
  test('goes on after a lost connection, from the cursor of its client, and tells its exit code', async (t) => {
    const at = await box(t);
    const first = await at.run(['echo one; echo two >&2; read line; echo "<$line>"; exit 3']);
    const begun = { type: 'session', session: SESSION, resumable: true, cursor: 0, gap: 0 };
    assert.deepEqual(await said(first, 'session'), { ...begun, input: { received: 0, written: 0 } });
    await until(() => printed(first).length === 8);
    assert.deepEqual([...first.bytes].sort(), ['\x01one\n', '\x02two\n']);
    first.type(Buffer.from('half a '));
    await until(() => first.events.length > 1);
    first.leave(LOST);
    const second = await at.join(4);
    assert.deepEqual(await said(second, 'session'), { ...begun, cursor: 4, input: { received: 7, written: 7 } });
    second.type(Buffer.from('line\n'));
    assert.deepEqual(await said(second, 'exit'), { type: 'exit', code: 3 });
    assert.match(printed(second), /^(one|two)\n<half a line>\n$/);
    second.leave(1000);
    await until(() => at.holders().length === 0, { what: 'it is forgotten' });
    assert.equal((await (await at.join(0)).end()).code, 4404);
  });

  test('is the same for whoever asks for it once more, and goes to the latest connection', async (t) => {
    const at = await box(t);
    const first = await at.run(['echo $$; cat']);
    await until(() => printed(first).endsWith('\n'));
    const second = await at.run(['echo $$; cat']);
    assert.deepEqual(await first.end(), { code: 4000, reason: 'session taken over' });
    await prints(second, printed(first));
    second.leave(1000);
  });

  test('belongs to its user and kind of token: for others it is another, or none', async (t) => {
    const at = await box(t);
    const robot: Caller = { ...ann, kind: 'api_token', scopes: { [`compute.${ann.userId}`]: ['update'] } };
    const mine = await at.run(['cat']);
    await said(mine, 'session');
    assert.equal((await (await at.join(0, robot)).end()).code, 4404);
    await refused('not_found', at.join(0, someone('bob')));
    const of = (caller: Caller, containerId = 'c', session = SESSION) => keptName({ caller, containerId, session });
    const names = [of(ann), of(robot), of(someone('bob')), of(ann, 'd'), of(ann, 'c', `${SESSION}2`)];
    assert.equal(new Set(names).size, names.length);
    assert.equal(mine.closed, undefined);
    mine.leave(1000);
  });

  test('ends with a client that leaves for good, and after the time without a client', async (t) => {
    const at = await box(t, { commandLingerMs: 400 });
    const closed = await at.run(['sleep 1000']);
    await said(closed, 'session');
    closed.leave(1000);
    await until(() => at.holders().length === 0, { what: 'the client left' });
    const revoked = await at.run(['sleep 1000']);
    await said(revoked, 'session');
    const lost = await at.run(['sleep 1000'], { session: `${SESSION}-2` });
    await said(lost, 'session');
    lost.leave(LOST);
    await until(() => at.holders().length === 1, { what: 'nobody came back' });
    revoked.leave(LOST);
    await until(() => at.holders().length === 0);
  });

  test('ends when its token is revoked while its client is away, and not after that came back', async (t) => {
    const at = await box(t);
    const socket = await at.run(['sleep 1000']);
    await said(socket, 'session');
    socket.leave(LOST);
    await until(() => at.compute.tokens.watched === 1);
    const again = await at.join(0);
    await said(again, 'session');
    await until(() => at.compute.tokens.watched === 0);
    again.leave(1012);
    await until(() => at.compute.tokens.watched === 1);
    at.compute.tokens.revoke(ann.tokenId);
    await until(() => at.holders().length === 0 && at.compute.tokens.watched === 0);
  });

  test('asks before it runs a command that cannot be kept, and then runs it without a session', async (t) => {
    const at = await box(t, { env: { PATH: '/none' } });
    const socket = await at.run(['true']);
    const begun = begunSchema.parse(await said(socket, 'session'));
    assert.deepEqual([begun.resumable, begun.reason], [false, 'it has no perl']);
    assert.ok(!at.compute.engine.calls.some((call) => call.startsWith('run ')));
    socket.type('{"type":"start"}');
    assert.deepEqual(await said(socket, 'exit'), { type: 'exit', code: 6 });
    assert.deepEqual(await socket.end(), { code: 1000, reason: 'command ended' });
    assert.equal(printed(socket), 'plain');
    assert.equal((await (await at.join(0)).end()).code, 4404);
  });

  test('stops taking input that the command does not, and pauses while its client does not read', async (t) => {
    const at = await box(t);
    const greedy = await at.run(['sleep 1000']);
    await said(greedy, 'session');
    for (let sent = 0; sent <= 1024 * 1024 + 70_000; sent += 32_768) greedy.type(new Uint8Array(32_768));
    assert.deepEqual(await greedy.end(), { code: 1013, reason: 'too much input' });
    const back = await at.join(0);
    await said(back, 'session');
    back.leave(1000);
    const slow = await at.run(['yes'], { session: `${SESSION}-2` });
    slow.full = true;
    await until(() => printed(slow).length > 0);
    let bytes = -1;
    await until(
      () => {
        const before = bytes;
        bytes = printed(slow).length;
        return before === bytes;
      },
      { everyMs: 200 },
    );
    assert.ok(bytes < 400_000, `${bytes} bytes`);
    slow.drain();
    await until(() => printed(slow).length === 1024 * 1024);
    slow.type(JSON.stringify({ type: 'ack', cursor: 500_000 }));
    await until(() => printed(slow).length === 1024 * 1024 + 500_000);
    slow.leave(1000);
  });

  test('ends with its container', async (t) => {
    const at = await box(t);
    const socket = await at.run(['sleep 1000']);
    await said(socket, 'session');
    await at.compute.on(stopContainer, ann, at.id);
    assert.deepEqual(await socket.end(), { code: 1000, reason: 'container stopped' });
    await refused('not_running', at.join(0));
  });

  test('has a query that is whole', () => {
    const call = (query: Record<string, string | string[]>) =>
      callFrom(execContainer, ann, { params: { id: newId() }, query });
    for (const query of [
      {},
      { session: SESSION },
      { command: ['true'], session: 'short' },
      { since: '0' },
      { since: '0', session: 'new' },
      { since: '-1', session: SESSION },
      { since: '1e3', session: SESSION },
    ])
      assert.throws(() => call(query), { code: 'invalid_request' }, JSON.stringify(query));
    assert.equal(z.looseObject({ since: z.number() }).parse(call({ since: '12', session: SESSION }).query).since, 12);
  });
});

describe('commands in the audit trail', { skip }, () => {
  test('have who, where and the name of the program; never arguments, and no entry for who comes back', async (t) => {
    const at = await box(t);
    const socket = await at.run(['/usr/bin/printf', 'a secret']);
    await said(socket, 'exit');
    socket.leave(LOST);
    const again = await at.join(0);
    await said(again, 'exit');
    again.leave(1000);
    const [entry, ...others] = await readAudit(at.compute.db, { action: 'container.exec', limit: 10 });
    assert.deepEqual([entry?.username, entry?.target, entry?.detail], ['ann', at.id, { program: 'printf' }]);
    assert.deepEqual(others, []);
  });

  test('are no more than so many, and say how many are left out', async (t) => {
    const at = await box(t);
    for (let n = 0; n < 33; n++) {
      const socket = await at.compute.exec(ann, at.id, { command: ['true', 'it'] });
      await said(socket, 'exit');
    }
    at.compute.clock.advance(6000);
    await said(await at.compute.exec(ann, at.id, { command: ['false', 'it'] }), 'exit');
    const entries = await readAudit(at.compute.db, { action: 'container.exec', limit: 100 });
    assert.equal(entries.length, 31);
    assert.deepEqual(entries.at(-1)?.detail, { program: 'false', omitted: 3 });
  });

  test('name no program that may be something else', () => {
    const programs = [
      ['/usr/local/bin/node', 'x'],
      ['TOKEN=abc node x'],
      ['curl -H "Bearer x"', 'y'],
      ['', 'x'],
      ['a/', 'x'],
    ];
    assert.deepEqual(programs.map(programOf), ['node', 'sh', 'other', 'other', 'other']);
  });
});
