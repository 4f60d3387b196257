/** Writes to the platform's own registry that go on for long: they end with their right, and keep no collection away. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, utimes, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Registry } from 'prom-client';
import { newRegistryKey, parseRegistryKey } from '../../actors/auth/registry/registry-key.ts';
import { registryTokens } from '../../actors/auth/registry/registry-tokens.ts';
import { pastBarrier } from '../../actors/gateway/barrier.ts';
import { RegistryBarrier } from '../../cmd/node/registry/barrier.ts';
import { registryFiles } from '../../cmd/node/registry/files.ts';
import { type FrontOptions, openFront } from '../../cmd/node/registry/front/front.ts';
import { heldFirst } from '../../cmd/node/registry/holders.ts';
import { tokenHolders } from '../../cmd/node/registry/may-push.ts';
import { folderStore } from '../../cmd/node/registry/store.ts';
import { ownKeys } from '../../cmd/node/registry/token-keys.ts';
import { watchStore } from '../../cmd/node/registry/watch.ts';
import type { RegistryHolder } from '../../proto/auth/tokens.ts';
import type { ProxyRequest } from '../../proto/gateway/traffic.ts';
import type { LeaveBarrier } from '../../proto/gateway/write-barrier.ts';
import { keptLog, silentLog } from '../support/log.ts';
import { pause } from '../support/pause.ts';
import { portBefore } from '../support/registry/listening-front.ts';
import { inReverse } from '../support/suite.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const HOST = 'registry.cloud.test';
const ISSUER = 'troupe';
const AT = { host: '127.0.0.1', port: 7006 };
const HOLDER: RegistryHolder = { token: 'one' };
const options = { timeout: 60_000 };

/** Gives tokens, as the platform does. */
async function tokens() {
  const key = await parseRegistryKey(await newRegistryKey());
  const issue = registryTokens({ clock: { now: Date.now }, issuer: ISSUER, signer: key, jwtSecret: 'x'.repeat(32) });
  const give = async (subject: string, name: string, actions: ('pull' | 'push')[], holder?: RegistryHolder) => {
    const access = [{ type: 'repository', name, actions }] as const;
    return `Bearer ${(await issue({ subject, service: HOST, access, holder })).token}`;
  };
  return { keys: ownKeys(key), give };
}

/** The front before an origin that takes all it is sent, and what writes slowly there. */
async function open(context: TestContext, change: Partial<FrontOptions> = {}) {
  const t = inReverse(context);
  const origin = createServer((asked, answer) => {
    asked.on('error', () => {});
    asked.on('end', () => answer.writeHead(202).end());
    asked.resume();
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  t.after(() => origin.close());
  const bound = origin.address();
  assert.ok(bound !== null && typeof bound === 'object');
  const { keys, give } = await tokens();
  const log = keptLog();
  const parts = {
    environment: { REGISTRY_USER_MB: 0, ADMIN_USERNAME: 'admin', REGISTRY_ISSUER: ISSUER, METRICS_TOKEN: undefined },
    host: HOST,
    address: { host: '127.0.0.1', port: bound.port },
    keys,
    store: undefined,
    pinned: async () => new Set<string>(),
    holds: async () => true,
    limitMb: async () => null,
    metrics: new Registry(),
    room: async () => 'enough',
    log,
    ...change,
  } satisfies FrontOptions;
  const { store } = parts;
  const front = store === undefined ? openFront(parts) : watched({ ...parts, store });
  const outside = await portBefore(t, front);
  const authorization = await give('ann', 'ann/app', ['pull', 'push'], HOLDER);
  /** Sends a byte now and then until it is answered. */
  const drip = (): { done: Promise<IncomingMessage>; end: () => void } => {
    const upload = request({
      ...{ host: '127.0.0.1', port: outside, method: 'PATCH', path: '/v2/ann/app/blobs/uploads/one' },
      headers: { authorization },
    });
    upload.on('error', () => {});
    upload.write(Buffer.alloc(20_000));
    const sending = setInterval(() => upload.write('x'), 10);
    const done = (async () => {
      const [response] = await once(upload, 'response').finally(() => clearInterval(sending));
      return response;
    })();
    t.after(() => {
      clearInterval(sending);
      upload.destroy();
    });
    const end = () => {
      clearInterval(sending);
      upload.end();
    };
    return { done, end };
  };
  return { front, log, drip };
}

/** As at `troupe up`, which knows of no writes before. */
function watched({ store, ...parts }: FrontOptions & { readonly store: string }) {
  const { barrier, close } = watchStore({ ...parts, store: folderStore({ store }), last: undefined });
  const decide = (asked: ProxyRequest) =>
    pastBarrier(barrier, asked, { forward: parts.address, target: asked.target, isService: true });
  return { barrier, decide, close };
}

const textOf = async (response: IncomingMessage) => Buffer.concat(await response.toArray()).toString();

test('a write that goes on ends when the right is gone', options, async (t) => {
  let [asked, isHeld] = [0, true];
  const holds = async () => {
    asked += 1;
    if (asked === 2) throw new Error('the database is away');
    return isHeld;
  };
  const { front, log, drip } = await open(t, { holds, heldAgainMs: 20 });
  const { done } = drip();
  await until(() => asked > 10);
  assert.equal(front.barrier.quietMs, 0, 'it goes on while it is held, and while the database is away');
  assert.equal(
    log.lines.filter(({ message }) => message === 'whether who pushes still may could not be seen').length,
    1,
  );
  isHeld = false;
  const response = await done;
  assert.equal(response.statusCode, 403);
  assert.match(await textOf(response), /DENIED.*no longer valid: it was revoked/);
  await until(() => front.barrier.quietMs > 0, { what: 'it is over' });
  const last = asked;
  await pause(100, 'watch');
  assert.equal(asked, last, 'nobody asks for it any more');
});

test('a slow write that is held goes on to its end, and is not asked for after it', options, async (t) => {
  let asked = 0;
  const holds = async () => {
    asked += 1;
    return true;
  };
  const { drip } = await open(t, { holds, heldAgainMs: 5 });
  const { done, end } = drip();
  await until(() => asked > 100);
  end();
  assert.equal((await done).statusCode, 202);
  const last = asked;
  await pause(50, 'watch');
  assert.equal(asked, last);
});

/** A store with a blob that nothing needs, at a front whose quiet hour is now. Its first collection begins once somebody writes. */
async function quietHour(t: TestContext) {
  const files = registryFiles(await tempDir(t));
  const folder = join(files.store, 'docker/registry/v2/blobs/sha256/aa', 'a'.repeat(64));
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'data'), 'nobody');
  const old = new Date(Date.now() - 2 * 24 * 3_600_000);
  await utimes(join(folder, 'data'), old, old);
  const times = {
    ...{ everyMs: 3_600_000, quietMs: 3_600_000, patienceMs: 30, lookMs: 5, againMs: 50 },
    get quietHour() {
      return new Date().getHours();
    },
  };
  let isWritten = () => false;
  let begun: Promise<unknown> | undefined;
  const pinned = async () => {
    begun ??= until(() => isWritten(), { what: 'somebody writes' });
    await begun;
    return new Set<string>();
  };
  const opened = await open(t, { store: files.store, times, pinned });
  const drip = () => {
    isWritten = () => opened.front.barrier.quietMs === 0;
    return opened.drip();
  };
  return { ...opened, drip, isThere: () => existsSync(join(folder, 'data')) };
}

const ENDED = 'a write that kept a collection away was ended';

test('in the quiet hour, a write that three attempts met is ended, and may be repeated', options, async (t) => {
  const { front, log, drip, isThere } = await quietHour(t);
  const from = performance.now();
  const response = await drip().done;
  assert.ok(performance.now() - from >= 3 * 30 + 2 * 50, 'two attempts gave up');
  assert.equal(response.statusCode, 503);
  assert.ok(response.headers['retry-after']);
  assert.match(await textOf(response), /UNAVAILABLE.*ended this push.*Push again in a moment/);
  await until(() => !isThere(), { what: 'it is collected' });
  assert.deepEqual(
    log.lines.filter(({ message }) => message === ENDED).map(({ fields }) => fields),
    [{ owner: 'ann', repository: 'ann/app' }],
  );
  await until(() => !front.barrier.isClosed);
  const again = drip();
  await pause(50, 'watch');
  again.end();
  assert.equal((await again.done).statusCode, 202);
});

test('writes that take turns keep no collection away', options, async () => {
  const barrier = new RegistryBarrier(AT);
  const ended: string[] = [];
  const attempt = (met: number) =>
    barrier.closedFor(10, async () => 'done', { met, why: 'later', onEnd: ({ owner = '' }) => ended.push(owner) });
  const enter = (owner: string): LeaveBarrier => {
    let leave: (() => void) | undefined;
    const entered = barrier.enter({ owner, repository: `${owner}/app`, end: () => leave?.() });
    assert.ok(typeof entered === 'function');
    leave = entered;
    return entered;
  };
  const first = enter('ann');
  assert.equal(await attempt(3), undefined);
  assert.equal(await attempt(3), undefined);
  enter('bob');
  assert.equal(await attempt(3), undefined, 'bob writes on');
  assert.deepEqual(ended, ['ann']);
  first();
  assert.equal(await attempt(1), 'done');
  assert.deepEqual(ended, ['ann', 'bob']);
});

test('one user does not take all places at the closed barrier', options, async () => {
  const barrier = new RegistryBarrier(AT);
  const end = new AbortController();
  const work = barrier.closedFor(30_000, () => until(() => end.signal.aborted));
  const enter = (owner?: string) => Promise.resolve(barrier.enter({ owner, repository: 'bob/app' }));
  const waiting = Array.from({ length: 100 }, () => enter('ann'));
  assert.equal(barrier.held, 100);
  assert.equal(await enter('ann'), undefined, 'one more is told to come again');
  const others = [...Array.from({ length: 100 }, () => enter()), enter('bob'), enter('')];
  assert.equal(await enter(), undefined, 'who may write nothing has the places of one user');
  assert.equal(barrier.held, 202);
  end.abort();
  await work;
  for (const entered of await Promise.all([...waiting, ...others])) assert.ok(entered !== undefined);
  const last = barrier.closedFor(1, async () => 'done');
  assert.ok(enter('ann') instanceof Promise);
  assert.equal(barrier.held, 1, 'the places were given back');
  await last;
});

test('whose write it is says the token, not the path', options, async () => {
  const { keys, give } = await tokens();
  const holderOf = tokenHolders(keys, HOST, ISSUER);
  const admit = heldFirst({ holderOf, holds: async () => true, log: silentLog }, async () => ({}));
  const ownerFor = async (authorization: string | undefined) => {
    const field = (name: string) => (name === 'authorization' ? authorization : undefined);
    const admitted = await admit({ method: 'POST', target: '/v2/bob/app/blobs/uploads/', field });
    assert.ok(typeof admitted !== 'string' && !('later' in admitted));
    return admitted.owner;
  };
  assert.equal(await ownerFor(await give('ann', 'ann/app', ['push'], HOLDER)), 'ann');
  assert.equal(await ownerFor(await give('', 'ann/app', ['push'])), '', 'the platform itself');
  assert.equal(await ownerFor(await give('', 'ann/app', ['pull'])), undefined, 'anybody');
  const strange = await tokens();
  assert.equal(await ownerFor(await strange.give('bob', 'bob/app', ['push'], HOLDER)), undefined, 'a key of nobody');
  assert.equal(await ownerFor(undefined), undefined);
});
