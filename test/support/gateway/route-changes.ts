/** Changes of routes and containers under open sessions and load: through the real control, a real database and real sockets. */

import { connect, type Socket } from 'node:net';
import type { ContainerState } from '../../../proto/ports/engine.ts';
import { deleteRoute, insertRoute } from '../../../storage/gateway/routes.ts';
import { generateKeyPair } from '../../../transports/ssh/keys.ts';
import { testDatabase } from '../database/database.ts';
import { addSshOwner, type SshOwner, sshSession } from '../ssh/echo-sessions.ts';
import { startSshd } from '../ssh/sshd.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { addContainer, runningState } from './containers.ts';
import { startGateway } from './gateway.ts';
import { probe, type Waits } from './probes.ts';
import { httpOrigin, rawOrigin } from './proxy.ts';

export interface RouteChangesReport {
  readonly changes: number;
  readonly sessions: number;
  readonly sshSessions: number;
  /** Sessions that ended or did not answer any more. */
  readonly dropped: number;
  /** Looks that brought another picture: changes that come together are seen together. */
  readonly pictures: number;
  readonly load: Waits;
  readonly seconds: number;
}

const DOMAIN = 'cloud.test';
const SESSIONS = 'abcdefghijk1';
const LOADED = 'abcdefghijk2';
const RESTLESS = 'abcdefghijk3';

/** Logins of one owner: less than a user may have. */
const PER_OWNER = 80;
/** Logins that come at once. */
const AT_ONCE = 10;

/**
 * Opens `sessions` upgraded connections to one container and `sshSessions` logins by SSH to others, loads another, and makes
 * `changes` meanwhile. Needs an sshd, which stands in for that of the containers.
 */
export async function routeChanges(
  t: Cleanup,
  { sessions, sshSessions, changes }: { sessions: number; sshSessions: number; changes: number },
): Promise<RouteChangesReport> {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  const echo = await rawOrigin(t, (socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      socket.pipe(socket);
    });
  });
  const page = await httpOrigin(t, (_incoming, response) => response.end('probed'));
  for (const [index, [id, port]] of (
    [
      [SESSIONS, echo],
      [LOADED, page],
      [RESTLESS, page],
    ] as const
  ).entries())
    await addContainer(db, id, { slot: index + 1, ports: [[80, port]] });
  const sshd = await startSshd(t, ['MaxStartups 500', 'MaxSessions 500']);
  const owners: SshOwner[] = [];
  for (let n = 0; n * PER_OWNER < sshSessions; n++) owners.push(await addSshOwner(db, n));
  let lists = 0;
  // The restless one is there at every second look.
  const engine = {
    dial: sshd.dial,
    inspect: async (id: string) => runningState(id),
    list: async (): Promise<ContainerState[]> => {
      lists++;
      return [SESSIONS, LOADED, ...(lists % 2 === 0 ? [RESTLESS] : [])].map((id) => runningState(id));
    },
  };
  const { privateKey } = generateKeyPair('test');
  const gateway = await startGateway(t, {
    db,
    engine,
    sshKeys: { host: [privateKey], platform: sshd.user.privateKey },
  });
  const { http, ssh } = gateway.ports;

  const open = await Promise.all(
    Array.from({ length: sessions }, (_, i) => session(t, http, `127.0.0.${2 + (i % 5)}`)),
  );
  let logins = 0;
  const logIn = async () => {
    for (let i = logins++; i < sshSessions; i = logins++) {
      const owner = owners[Math.floor(i / PER_OWNER)];
      if (owner !== undefined) open.push(await sshSession(t, ssh, owner, `127.0.0.${2 + (i % 5)}`));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, logIn));
  let isOver = false;
  let load: Promise<Waits> = Promise.resolve({ requests: 0, failed: 0, p50: 0, p99: 0, most: 0 });
  const loads: Waits[] = [];
  const began = performance.now();
  const loading = (async () => {
    while (!isOver) {
      load = probe(t, http, 1000, '127.0.0.9', `${LOADED}.compute.${DOMAIN}`);
      loads.push(await load);
    }
  })();
  const ids: number[] = [];
  for (let i = 0; i < changes; i++) {
    if (i % 4 === 3) {
      const rule = [RESTLESS, 81 + 8000 - 80 + (i % 5)];
      await db.run(
        (i >> 2) % 2 === 0
          ? 'insert into ingress_rules (container_id, port, target_port) values ($1, $2, 80) on conflict do nothing'
          : 'delete from ingress_rules where container_id = $1 and port = $2',
        rule,
      );
      await db.notify('static_routes');
    } else if (ids.length > 20 || (i % 3 === 2 && ids.length > 0)) await deleteRoute(db, ids.shift() ?? 0);
    else {
      const route = {
        host: `r${i}.${DOMAIN}`,
        path_prefix: '/',
        target: `127.0.0.1:${page}`,
        strip_prefix: false,
        priority: 0,
      };
      const id = await insertRoute(db, route);
      if (id !== undefined) ids.push(id);
    }
  }
  // The last change has arrived.
  const last = `last.${DOMAIN}`;
  await insertRoute(db, {
    host: last,
    path_prefix: '/',
    target: `127.0.0.1:${page}`,
    strip_prefix: false,
    priority: 0,
  });
  await until(() => gateway.control.decideName(last, gateway.ports.https, false) === 'platform', {
    what: 'the last route is there',
  });
  isOver = true;
  await loading;
  const alive = await Promise.all(open.map((one) => one.answers()));
  return {
    changes,
    sessions,
    sshSessions,
    dropped: alive.filter((good) => !good).length,
    pictures: lists,
    load: {
      requests: loads.reduce((sum, { requests }) => sum + requests, 0),
      failed: loads.reduce((sum, { failed }) => sum + failed, 0),
      p50: loads[0]?.p50 ?? Number.NaN,
      p99: Math.max(...loads.map(({ p99 }) => p99)),
      most: Math.max(...loads.map(({ most }) => most)),
    },
    seconds: Math.round((performance.now() - began) / 1000),
  };
}

/** An upgraded connection that echoes. */
async function session(t: Cleanup, port: number, localAddress: string) {
  const socket: Socket = connect({ port, host: '127.0.0.1', localAddress });
  socket.on('error', () => {});
  t.after(() => void socket.destroy());
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.write(
    `GET / HTTP/1.1\r\nHost: ${SESSIONS}.compute.${DOMAIN}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  );
  await until(() => text.startsWith('HTTP/1.1 101 '), { what: 'a session' });
  return {
    answers: async (): Promise<boolean> => {
      socket.write('still there?');
      return until(() => text.endsWith('still there?'), { what: 'an echo' }).catch(() => false);
    },
  };
}
