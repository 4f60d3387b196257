/** Guarded ports at a gateway of the test: rules with a password or for the owner alone, and visitors. */
import type { IncomingHttpHeaders } from 'node:http';
import { request } from 'node:https';
import { hashPassword } from '../../../actors/auth/login/passwords.ts';
import { AccessProofs } from '../../../proto/gateway/port-guard.ts';
import type { VerifiedMapping } from '../../../proto/ports/acme.ts';
import type { SharedClock } from '../../../proto/ports/clock.ts';
import { deleteRule, insertRule } from '../../../storage/compute/ingress.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { MappedCertificates } from '../../../transports/gateway/tls/mapped-certificates.ts';
import { movableClock } from '../clock.ts';
import { type TestDatabase, testDatabase } from '../database/database.ts';
import { silentLog } from '../log.ts';
import type { Cleanup } from '../temp.ts';
import { addContainer, runningState } from './containers.ts';
import { startGateway } from './gateway.ts';
import { certificates } from './listeners.ts';

const SECRET = 'a secret of the gateway of a test';
const realClock: SharedClock = { now: Date.now, isShared: true };

/** What a gateway's control is given for guarded ports, where none is guarded. */
export const withoutGuards = {
  accessProofs: new AccessProofs(SECRET),
  passwords: { verify: async () => false },
  sharedClock: realClock,
};

export const OWN = 'aaaaaaaaaaa1';
export const OTHER = 'bbbbbbbbbbb1';
export const OWN_NAME = 'own.example.org';
export const hostOf = (id: string): string => `${id}.compute.cloud.test`;

export interface VisitorAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface Visit {
  readonly host?: string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** Of the gateway; the one for HTTPS without it. */
  readonly port?: number;
}

/** A rule as a test adds it: with a password, for everybody, or else for the owner. */
interface GuardedRule {
  readonly port?: number;
  readonly password?: string;
  readonly isPublic?: boolean;
  readonly tls?: 'container' | 'platform';
}

/** Removes the container's rule of a port. */
async function remove(database: TestDatabase, id: string, port = 443): Promise<void> {
  await database.db.tx(async (tx) => {
    await deleteRule(tx, id, port);
    await tellCompute(tx, { kind: 'ingress', containerId: id });
  });
}

/** Puts a guarded rule in the place of the container's rule of that port, as the compute service does; its id. */
async function guard(database: TestDatabase, id: string, origin: number, rule: GuardedRule): Promise<number> {
  const { port = 443, password, isPublic = false, tls = 'platform' } = rule;
  const hash = password === undefined ? null : await hashPassword(password);
  const access = isPublic ? 'public' : password === undefined ? 'mine' : 'password';
  const row = await database.db.tx(async (tx) => {
    await deleteRule(tx, id, port);
    const made = await insertRule(tx, id, { port, targetPort: origin, tls, access, hash });
    await tellCompute(tx, { kind: 'ingress', containerId: id });
    return made;
  });
  if (row === undefined || row === 'duplicate') throw new Error('no rule was made');
  return row.id;
}

/** A gateway in front of two containers of two users; `origin` is the program in both. OWN_NAME leads to the first. */
export async function openGuarded(
  t: Cleanup,
  origin: number,
  options: Partial<Parameters<typeof startGateway>[1]> = {},
) {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  await addContainer(db, OWN);
  await db.run(`insert into users (id, username, display_name, password_hash) values ('uuuuuuuuuuu2', 'b', 'B', 'x')`);
  await addContainer(db, OTHER, { userId: 'uuuuuuuuuuu2' });
  let mapped: VerifiedMapping[] = [{ hostname: OWN_NAME, containerId: OWN, targetPort: 443 }];
  const told = new Set<(hostname: string | undefined) => void>();
  const { own } = await certificates();
  const store = { read: async () => own, challenges: async () => new Map(), watch: () => ({ close: async () => {} }) };
  const mappedCertificates = new MappedCertificates(store, silentLog);
  t.after(() => mappedCertificates.close());
  const clock = movableClock();
  const log: string[] = [];
  let isRunning = true;
  const stateOf = (id: string) => (isRunning ? runningState(id) : undefined);
  const gateway = await startGateway(t, {
    db,
    isCaching: true,
    accessLog: (line) => void log.push(line),
    sharedClock: { now: clock.now, isShared: true },
    engine: {
      list: async () => [OWN, OTHER].flatMap((id) => stateOf(id) ?? []),
      inspect: async (id) => stateOf(id),
      dial: () => Promise.reject(new Error('not asked for')),
    },
    mapped: {
      mappings: {
        named: async () => mapped,
        after: async (h) => (h === '' ? mapped : []),
        watch: (onChange) => {
          told.add(onChange);
          return { close: async () => void told.delete(onChange) };
        },
      },
      certificates: mappedCertificates,
    },
    ...options,
  });
  const visit = ({ host = hostOf(OWN), path = '/', method = 'GET', headers = {}, port }: Visit = {}) =>
    new Promise<VisitorAnswer>((resolve, reject) => {
      const name = host.replace(/:\d+$/, '');
      const options = { host: '127.0.0.1', port: port ?? gateway.ports.https, servername: name, path, method };
      const outgoing = request({ ...options, agent: false, rejectUnauthorized: false, headers: { host, ...headers } });
      outgoing.on('error', reject).on('response', (incoming) => {
        let text = '';
        incoming.on('data', (chunk: Buffer) => (text += chunk));
        incoming.on('end', () => resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text }));
      });
      outgoing.on('upgrade', (incoming, socket) => {
        socket.destroy();
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text: '' });
      });
      outgoing.end();
    });
  return {
    db,
    clock,
    log,
    visit,
    ports: gateway.ports,
    proofs: new AccessProofs(SECRET),
    guard: (id: string, rule: GuardedRule = {}) => guard(database, id, origin, rule),
    remove: (id: string, port?: number) => remove(database, id, port),
    /** OWN_NAME leads to this container from now on; undefined: nowhere. */
    map: (containerId: string | undefined, targetPort = 443) => {
      mapped = containerId === undefined ? [] : [{ hostname: OWN_NAME, containerId, targetPort }];
      for (const onChange of told) onChange(OWN_NAME);
    },
    stopAll: async () => {
      isRunning = false;
      await db.tx(async (tx) => {
        await tx.run(`update containers set status = 'stopped', desired = 'stopped'`);
        for (const containerId of [OWN, OTHER])
          await tellCompute(tx, { kind: 'status', containerId, status: 'stopped' });
      });
    },
  };
}

/** HTTP Basic with a password. */
export const basic = (password: string, user = 'anybody'): Record<string, string> => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});

/** The cookie that an answer sets, as a browser sends it back; '' without one. */
export function cookieIn({ headers }: VisitorAnswer): string {
  const found = headers['set-cookie']?.find((line) => line.startsWith('__Host-troupe-access'));
  return found?.split(';')[0] ?? '';
}
