/** The servers: the service's actors and sockets without storage and tokens, and bare uWebSockets.js. */

import type { WebSocket } from 'uWebSockets.js';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { notificationConnection, PAGE, type SocketParts } from '../../actors/notify/connection.ts';
import { notifyNumbers } from '../../actors/notify/deps.ts';
import { PeerHints } from '../../actors/notify/peer-hints.ts';
import { userKind } from '../../actors/notify/user.ts';
import { Connections, localEntities } from '../../actors/service/parts.ts';
import type { Caller } from '../../proto/endpoint.ts';
import type { StreamStore } from '../../proto/ports/bus-store.ts';
import { DEFAULT_USER_LIMITS } from '../../proto/user-limits.ts';
import { start } from '../../supervision/index.ts';
import { failingDb } from '../../test/support/database/failing-db.ts';
import { silentLog } from '../../test/support/log.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import { embeddedBus } from '../../transports/bus/embedded.ts';
import { listen } from '../../transports/http/index.ts';

/** One notification's text: what is sent must be as long on both sides. */
const sample = (id: number) => ({
  id,
  userId: 'abcdefghijk1',
  title: 'Container started',
  message: '"web" is running.',
  link: '/containers/abcdefghijk1',
  category: 'compute',
  scope: '',
  read: false,
  createdAt: new Date(1_800_000_000_000),
});
const FIRST_ID = 100_000_000;
/** Tells every user of one notification, again and again, through the actors. */
export async function serveOurs(sockets: number, perUser: number): Promise<void> {
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384';
  const system = start({ log: silentLog });
  const numbers = notifyNumbers();
  const deps = {
    db: noDb(),
    bus: noBus(),
    log: silentLog,
    clock: { now: Date.now },
    numbers,
    userLimits: DEFAULT_USER_LIMITS,
    deliveries: undefined,
  };
  const others = new PeerHints(deps.bus, { stored: () => {}, read: () => {} });
  const users = localEntities(userKind(deps, others));
  const connections = new Connections('notify', deps.clock);
  for (const part of [users, connections]) await part.start(system);
  const userIds = Array.from({ length: sockets / perUser }, (_, index) => String(index));
  let id = FIRST_ID;
  // What a socket could not take at once it asks for later.
  const page = async ({ since }: { since: number }) =>
    Array.from({ length: Math.min(PAGE, id - since) }, (_, index) => sample(since + 1 + index));
  const reader = { head: async () => FIRST_ID, page };
  const parts: SocketParts = { deps, reader, present: new Map<string, number>(), users };
  const limit = { most: perUser, changedAt: 0 };
  const never = async () => undefined;
  const directory = { grant: never, knowsUser: async () => true, onNews: () => ({ close: async () => {} }) };
  const streams = new OpenStreams(directory, silentLog);
  // The authenticator keeps one for all sockets of a token.
  const callers = userIds.map(
    (userId): Caller => ({
      ...{ kind: 'session', userId, username: userId, isAdmin: false, tokenId: userId, expiresAt: 0 },
    }),
  );
  const server = await listen({
    ...{ host: '127.0.0.1', port: 0 },
    onRequest: () => ({ status: 404, headers: [] }),
    onUpgrade: ({ path }) => {
      const caller = callers[Number(path.slice(4))];
      if (caller === undefined) return { refuse: { status: 404, headers: [] } };
      const { userId } = caller;
      const connection = notificationConnection(parts, { userId, limit, since: FIRST_ID, version: '1' });
      const accept = connections.open('notify/socket', caller, connection);
      return { accept, watch: streams.watchOf(caller, undefined, streams.news) };
    },
  });
  await serve(server.port, () => {
    const row = sample(id + 1);
    for (const userId of userIds) users.tell(userId, { type: 'arrived', after: id, rows: [row] });
    id += 1;
  });
  await server.close(0);
  process.exit(0);
}

/** Sends the same text to every socket, again and again. */
export async function serveBare(): Promise<void> {
  const uws: typeof import('uWebSockets.js') = createRequire(import.meta.url)('uWebSockets.js');
  const { createdAt, ...rest } = sample(FIRST_ID);
  const text = JSON.stringify({ ...rest, created_at: createdAt.toISOString() }).replace('userId', 'user_id');
  const all = new Set<WebSocket<unknown>>();
  const app = uws.App().ws('/*', {
    open: (ws) => void all.add(ws),
    close: (ws) => void all.delete(ws),
  });
  const port = await new Promise<number>((resolve) => {
    app.listen('127.0.0.1', 0, (socket) => resolve(socket ? uws.us_socket_local_port(socket) : 0));
  });
  await serve(port, () => {
    for (const ws of all) ws.send(text, false);
  });
  process.exit(0);
}

/** Says where the server is, and sends rounds when told to. */
async function serve(port: number, round: () => void): Promise<void> {
  process.stdout.write(`${JSON.stringify({ port })}\n`);
  const lines = createInterface({ input: process.stdin });
  lines.on('line', async (line) => {
    if (line === 'collect') {
      // What came and went is given back over a few turns, not at the first collection.
      for (let turn = 0; turn < 5; turn++) {
        await new Promise((resolve) => setTimeout(resolve, 200));
        globalThis.gc?.();
      }
      const { heapUsed, external } = process.memoryUsage();
      process.stdout.write(`${JSON.stringify({ live: heapUsed + external })}\n`);
      return;
    }
    for (let rounds = Number(line.split(' ')[1]); rounds > 0; rounds--) {
      round();
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  await once(lines, 'close');
}

/** Storage that is never asked. */
function noDb() {
  const never = () => Promise.reject(new Error('The benchmark has no storage.'));
  return failingDb({
    ...{ many: never, one: never, run: never, script: never, notify: never, hint: never, ping: never, tx: never },
    direct: { many: never, one: never, run: never },
    listen: () => ({ close: async () => {} }),
    tellOver: () => {},
    close: async () => {},
  });
}

function noBus() {
  const store: Partial<StreamStore> = { trim: async () => false, streams: async () => [] };
  return embeddedBus({ store: store as StreamStore, log: silentLog });
}
