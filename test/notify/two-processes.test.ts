import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { z } from 'zod';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { newId } from '../../proto/ids.ts';
import { NOTIFICATIONS_STREAM, notificationEvent } from '../../proto/notify/notification.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { deadLetterSink } from '../../storage/bus/dead-letters.ts';
import { natsBus } from '../../transports/bus/nats.ts';
import { BUS_SECRET, skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { type TestSocket, websocket } from '../support/clients/websocket.ts';
import { request, spawnTroupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { nextOf } from '../support/service/notify.ts';

failOnLeaks();

const SECRET = 'a secret of the tests, 32 bytes or more';
/** Well below the 20 s after which a socket looks into storage by itself. */
const SOON_MS = 8000;
const COUNT = 20;

test('two processes share the stream, and sockets of both hear at once of what either stored', {
  skip: skipWithoutNats(),
  timeout: 900_000,
}, async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const nats = await startNats(t);
  const deadLetters = deadLetterSink(database.db);
  const bus = natsBus({
    secret: BUS_SECRET,
    address: { servers: [nats.server] },
    name: 'test',
    deadLetters,
    log: silentLog,
  });
  t.after(() => bus.close());
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  const person = { id: newId(), username: 'ann', isAdmin: false };
  assert.ok(await insertUser(database.db, { ...person, passwordHash: 'none' }));
  const { token } = await sessionTokens(SECRET, 3600, { now: Date.now })(person);

  const roles = await database.serviceRoles();
  const start = async () => {
    const env = { DATABASE_URL: roles.urlOf('notify'), JWT_SECRET: SECRET, NATS_URL: nats.url, LOG_LEVEL: 'error' };
    const child = spawnTroupe(['notify', '-addr', '127.0.0.1:0', '--json'], env);
    const ended = once(child, 'exit');
    t.after(async () => {
      child.kill('SIGTERM');
      await ended;
    });
    child.stderr.pipe(process.stderr);
    const [line] = await once(createInterface({ input: child.stdout }), 'line');
    const { port } = z.object({ port: z.number() }).parse(JSON.parse(String(line)));
    return port;
  };
  const [one, other] = [await start(), await start()];
  const socketOf = (port: number, query: string) =>
    websocket(t, `ws://127.0.0.1:${port}/ws/notifications?token=${token}&${query}`);
  const sockets = [await socketOf(one, 'since=0'), await socketOf(other, 'since=0')];
  const soon = AbortSignal.timeout(SOON_MS);
  const late = new Promise<never>((_, reject) => {
    soon.addEventListener('abort', () => reject(new Error('a socket was told too late')));
  });
  late.catch(() => undefined);
  const take = async (socket: TestSocket) => {
    const titles: string[] = [];
    while (titles.length < COUNT) titles.push((await Promise.race([nextOf(socket), late])).title);
    return titles.sort();
  };
  const wanted: string[] = [];
  // One after the other: each goes to whichever process asks first.
  const told = Promise.all(sockets.map(take));
  for (let n = 0; n < COUNT; n++) {
    wanted.push(`n${n}`);
    const fields = { userId: person.id, title: `n${n}`, message: 'm', link: '', category: 'compute', scope: '' };
    const { subject, data, msgId } = notificationEvent('test', Date.now(), fields);
    await bus.append(subject, data, { msgId });
  }
  assert.deepEqual(await told, [wanted.sort(), wanted]);

  // What is read in one process is told in both, to the sockets that asked for events.
  const readers = [await socketOf(one, 'v=2&since=0'), await socketOf(other, 'v=2&since=0')];
  for (const reader of readers) for (let n = 0; n < COUNT; n++) await reader.json();
  await request('POST', `http://127.0.0.1:${one}/api/notifications/read-all`, { token });
  for (const reader of readers) assert.deepEqual(await reader.json(), { type: 'read', id: null });
});
