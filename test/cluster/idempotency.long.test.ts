/** A process is killed while it makes something for a request with a key: the next one makes it once. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import { firstLine, type Reply, request, troupeCommand } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { preloaded } from '../support/project.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const JWT_SECRET = 'the shared secret of this test, over 32 bytes';
const KEY = { 'idempotency-key': 'the-key-of-this-test' };

async function setting(t: TestContext) {
  const database = await testDatabase();
  const children: ChildProcess[] = [];
  t.after(async () => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, 'close');
      child.kill('SIGKILL');
      await ended;
    }
    await database.close();
  });
  const { id } = await addUser(database.db, 'ann', 'the password of ann');
  const { token } = await sessionTokens(JWT_SECRET, 3600, { now: Date.now })({ id, username: 'ann', isAdmin: false });
  /** The authentication service alone; `dies` where it keeps the answer with what it makes. */
  const start = async (dies?: 'before' | 'after') => {
    const preload = dies === undefined ? [] : preloaded('dies-at-commit');
    const [program = '', ...command] = troupeCommand(['auth', '--addr', '127.0.0.1:0', '--json'], preload);
    const own = { DATABASE_URL: database.url, JWT_SECRET, NATS_URL: '', LOG_LEVEL: 'error', TROUPE_TEST_DIES: dies };
    const child = spawn(program, command, { env: { ...process.env, ...own }, stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const first = await firstLine(child);
    assert.ok(first !== undefined, 'it comes up');
    const { port } = z.object({ port: z.number() }).parse(JSON.parse(first));
    return { child, url: `http://127.0.0.1:${port}/api/tokens` };
  };
  const body = { name: 'ci', scopes: { [`compute.${id}.containers`]: ['read'] } };
  const create = (url: string): Promise<Reply> => request('POST', url, { token, body, headers: KEY });
  const tokens = async (url: string) => z.array(z.unknown()).parse((await request('GET', url, { token })).json.list);
  return { start, create, tokens };
}

for (const dies of ['before', 'after'] as const) {
  test(`one that is killed ${dies} the commit: the token is made once, and shown`, async (t) => {
    const { start, create, tokens } = await setting(t);
    const first = await start(dies);
    const ended = once(first.child, 'close');
    await assert.rejects(create(first.url));
    assert.deepEqual((await ended)[1], 'SIGKILL');
    const second = await start();
    assert.equal((await tokens(second.url)).length, dies === 'before' ? 0 : 1);
    // Until the first is taken for dead.
    const made = await until(
      async () => {
        const reply = await create(second.url);
        if (reply.status === 200) return reply;
        assert.equal(reply.json.code, 'idempotency_key_in_use');
        return undefined;
      },
      { what: 'the first counts as dead', everyMs: 200 },
    );
    assert.equal(made.headers.get('idempotency-replayed'), dies === 'before' ? null : 'true');
    assert.match(String(made.json.token), /^svc_/);
    assert.equal((await tokens(second.url)).length, 1);
    assert.deepEqual((await create(second.url)).json, made.json);
  });
}
