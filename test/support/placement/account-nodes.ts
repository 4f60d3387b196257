/** Nodes of a bank in one process: each with a system, a lease store and a place on the bus of its own. */

import type { TestContext } from 'node:test';
import { refusalCauses } from '../../../actors/service/codecs.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { LeaseStore } from '../../../proto/ports/placement.ts';
import { streamStore } from '../../../storage/bus/store.ts';
import { type Db, openDb } from '../../../storage/db.ts';
import { leaseStore } from '../../../storage/placement/leases.ts';
import {
  type Entities,
  entities,
  type StopReason,
  type SystemRef,
  start,
  stop,
  stopped,
} from '../../../supervision/index.ts';
import { Cluster, shardOf, type Timings } from '../../../supervision/placement/index.ts';
import { embeddedBus } from '../../../transports/bus/embedded.ts';
import { testDatabase } from '../database/database.ts';
import { silentLog } from '../log.ts';
import { until } from '../until.ts';
import { ACCOUNT, type AccountMessage, accountKind, BANK_SQL } from './account-service.ts';

export const SHARDS = 16;
/** Short, so that tests in which nodes die need not wait. A process that stands still for three quarters of it loses what it holds. */
export const TTL_MS = 1000;
/** For tests in which none does. */
export const CALM_MS = 10_000;

/** Lets everything through, until the test says otherwise. */
export class Faults {
  /** Store calls of this node hang while set: it is frozen, or cut off. */
  frozen = false;
  /** Nothing this node sends or answers leaves, and nothing reaches it. */
  offBus = false;
  /** Called for each publish; true loses it. */
  loses: (subject: string) => boolean = () => false;
  thaw: () => void = () => {};
}

export interface Member {
  readonly id: string;
  readonly cluster: Cluster;
  readonly accounts: Entities<AccountMessage>;
  readonly system: SystemRef;
  readonly faults: Faults;
  /** Lines of the log, as `level message`. */
  readonly lines: string[];
  /** Followers that accounts here lost. */
  readonly gone: { readonly id: string; readonly reason: StopReason }[];
  /** `wait` is answered when this is called. */
  waits: () => Promise<void>;
  leave(): Promise<void>;
}

export interface AccountNodes {
  readonly db: Db;
  readonly bus: Bus;
  add(id: string, options?: { readonly resendMs?: number; readonly roles?: readonly string[] }): Promise<Member>;
  /** Until the members agree on who holds what, and hold it. */
  settled(...members: Member[]): Promise<void>;
}

/** A database and a bus, without nodes. Ends with the test. `ttlMs`: of the leases; `beatMs`: between two beats. */
export async function openAccountNodes(
  t: TestContext,
  { ttlMs = TTL_MS, beatMs = 100 }: { readonly ttlMs?: number; readonly beatMs?: number } = {},
): Promise<AccountNodes> {
  const timings = { beatMs, ttlMs, marginMs: ttlMs / 4, answerMs: 400, lookMs: 10 };
  const database = await testDatabase();
  const db = openDb(database.connection, { log: silentLog, name: 'nodes', max: 8 });
  const bus = embeddedBus({ store: streamStore(db), log: silentLog });
  const members: Member[] = [];
  t.after(async () => {
    for (const { faults } of members) faults.thaw();
    await Promise.all(members.map((member) => member.leave()));
    await bus.close();
    await db.close();
    await database.close();
  });
  await db.script(BANK_SQL);
  return {
    db,
    bus,
    async add(id, options = {}) {
      const member = await join(id, db, bus, { ...options, timings });
      members.push(member);
      return member;
    },
    async settled(...present) {
      const ids = present.map(({ id }) => id).sort();
      await until(
        () =>
          present.every(({ cluster: { node } }) => {
            const known = [node.self.id, ...node.view.nodes.keys()].sort();
            const should = node.view.assignment('bank').filter((owner) => owner === node.self.id).length;
            return known.join() === ids.join() && node.holding === should;
          }) && present.reduce((sum, { cluster }) => sum + cluster.node.holding, 0) === SHARDS,
        { what: 'the members hold what they should' },
      );
    },
  };
}

async function join(
  id: string,
  db: Db,
  bus: Bus,
  {
    resendMs = 300,
    roles = ['bank'],
    timings,
  }: { readonly resendMs?: number; readonly roles?: readonly string[]; readonly timings: Timings },
): Promise<Member> {
  const lines: string[] = [];
  const log: Log = { ...silentLog, warn: (_fields, line) => lines.push(`warn ${line}`), child: () => log };
  const system = start({ name: id, log, freezeMessages: true });
  const faults = new Faults();
  const gone: Member['gone'] = [];
  const cluster = new Cluster({
    ...{ parent: system, store: faultyStore(leaseStore(db), faults), bus: faultyBus(bus, faults), log },
    ...{ self: { id, roles, version: 'test', address: id }, shards: SHARDS, timings, resendMs, causes: refusalCauses },
  });
  const member = {
    waits: () => Promise.resolve(),
  };
  const accounts: Entities<AccountMessage> = cluster.place(
    ACCOUNT,
    entities(
      system,
      accountKind({
        db,
        lease: (account) => cluster.lease(ACCOUNT, account),
        waits: () => member.waits(),
        onGone: (account, reason) => gone.push({ id: account, reason }),
        tell: (account, message) => accounts.tell(account, message),
      }),
    ),
  );
  let left: Promise<void> | undefined;
  await cluster.join();
  return Object.assign(member, {
    ...{ id, cluster, accounts, system, faults, lines, gone },
    leave() {
      left ??= (async () => {
        await cluster.leave();
        stop(system);
        await stopped(system);
      })();
      return left;
    },
  });
}

/** Accounts whose shard this node holds. */
export function accountsOf({ cluster: { node } }: Member): string[] {
  return Array.from({ length: 40 }, (_, n) => `acc${n + 1}`).filter((id) =>
    node.serves('bank', shardOf(ACCOUNT.kind, id, SHARDS)),
  );
}

function faultyStore(store: LeaseStore, faults: Faults): LeaseStore {
  const held =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      while (faults.frozen) {
        await new Promise<void>((resolve) => {
          const before = faults.thaw;
          faults.thaw = () => {
            faults.frozen = false;
            before();
            resolve();
          };
        });
      }
      return call(...args);
    };
  return { beat: held(store.beat), take: held(store.take), release: held(store.release), leave: held(store.leave) };
}

function faultyBus(bus: Bus, faults: Faults): Bus {
  const lost = (subject: string) => faults.offBus || faults.loses(subject);
  return {
    ...bus,
    publish: (subject, data) => {
      if (!lost(subject)) bus.publish(subject, data);
    },
    subscribe: (subject, handler, options) =>
      bus.subscribe(
        subject,
        (message) => {
          if (!faults.offBus) handler(message);
        },
        options,
      ),
    request: (subject, data, timeoutMs) => bus.request(lost(subject) ? 'void.nobody' : subject, data, timeoutMs),
    close: () => bus.close(),
  };
}
