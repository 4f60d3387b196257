/**
 * This process as a member of the cluster: its lease, what it does about the one before it, and how it comes and goes.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { refusalCauses } from '../../actors/service/codecs.ts';
import type { Placement } from '../../actors/service/placement.ts';
import { isCode } from '../../lib/errors.ts';
import { keyIds, type SharedSecret } from '../../proto/auth/shared-secret.ts';
import { newId } from '../../proto/ids.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Log } from '../../proto/ports/log.ts';
import { NODE_FORMAT } from '../../proto/ports/placement.ts';
import type { Db } from '../../storage/db.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { listNodes, listServiceShards, oddNode } from '../../storage/placement/nodes.ts';
import { timerStore } from '../../storage/placement/timers.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { Cluster, TIMINGS, type Timings } from '../../supervision/placement/index.ts';
import { CliError } from '../config/cli-error.ts';
import { version } from '../config/program.ts';
import { unreadable } from './database.ts';

/** What processes hold unless told otherwise: the services whose entities are placed, and publishing the outbox. */
export const ROLES = ['auth', 'compute', 'network', 'notify', 'outbox'];

const LOOK_MS = 200;

/**
 * Into how many shards the services of a new database are cut: enough for 250 processes, while a process alone takes
 * all of them in a tenth of a second.
 */
const NEW_SHARDS = 1024;

export interface MembershipOptions {
  /** Of the process. */
  readonly db: Db;
  readonly system: SystemRef;
  readonly bus: Bus;
  /** Whether the bus reaches other processes. */
  readonly isShared: boolean;
  /**
   * Keeps the node's id for the next start, which ends the lease of a process that was killed. Only for a folder that
   * one process holds at a time. Without it such a lease runs out by itself.
   */
  readonly nodeFile?: string | undefined;
  /** JWT_SECRET, by which nodes read each other. */
  readonly secret?: SharedSecret | undefined;
  readonly log: Log;
  /** Services whose entities it may hold, of which all kinds are placed before it joins. Default: all. */
  readonly roles?: readonly string[];
  /** Into how many shards each service is cut. Default: what the database says, and of a new one 1,024. */
  readonly shards?: number | undefined;
  /** The process's part of the shards beside that of others. Default: 1. */
  readonly weight?: number;
  readonly timings?: Partial<Timings>;
  /** Whether the start was told to stop. */
  readonly isLeaving?: (() => boolean) | undefined;
  /** Lines for the person who waits. */
  readonly onProgress?: (line: string) => void;
}

/** The membership of a process that has not joined yet. */
interface Membership {
  /** The node's. */
  readonly id: string;
  /** Where services place their entities. */
  readonly placement: Placement;
  /** Begins to hold entities, after all kinds were placed; resolves once it holds what was free. Throws CliError. */
  join(): Promise<void>;
  /** Hands over all entities, then leaves. After the listeners, before the actors: calls that run still need theirs. */
  leave(): Promise<void>;
}

/**
 * Prepares it, holding nothing yet. Throws CliError when the bus ends at this process and another one lives on the
 * database: that one's lease, which may be of a process that died, is waited for. And when a node that lives speaks a
 * format that this version does not read, or the entities are cut into another number of shards.
 */
export async function openMembership(options: MembershipOptions): Promise<Membership> {
  const { db, system, bus, log, nodeFile, isShared, weight = 1 } = options;
  const timings = { ...TIMINGS, ...options.timings };
  const keys = options.secret === undefined ? [] : keyIds(options.secret);
  const store = leaseStore(db.direct, keys);
  const id = newId();
  if (nodeFile !== undefined) {
    const former = formerNode(nodeFile);
    if (former !== undefined) await store.leave(former);
    writeFileSync(nodeFile, `${id}\n`, { mode: 0o600 });
  }
  await refuseUnreadable();
  const shards = options.shards ?? (await listServiceShards(db))[0]?.count ?? NEW_SHARDS;
  await refuseOtherShards(shards);
  if (isShared) await refuseStrangers(keys);
  if (!isShared) await untilAlone();

  const self = { id, roles: options.roles ?? ROLES, version, address: `${hostname()}:${process.pid}`, weight };
  const timers = timerStore(db);
  const causes = refusalCauses;
  const cluster = new Cluster({ parent: system, self, store, timers, bus, log, shards, timings, causes });
  return {
    id,
    placement: cluster,
    async join() {
      await cluster.join();
      // Others may have cut them since.
      await refuseOtherShards(shards);
      if (isShared) return;
      // Two that started at once did not see each other before; whoever joined later does now.
      const other = (await listNodes(db)).find((node) => node.id !== id && node.leaseMs > 0);
      if (other !== undefined) throw needsBroker(other.address);
    },
    async leave() {
      await cluster.drain();
      await cluster.leave();
    },
  };

  async function refuseUnreadable(): Promise<void> {
    const odd = await oddNode(db, NODE_FORMAT);
    if (odd !== undefined) throw unreadable(odd, log);
  }

  async function refuseOtherShards(shards: number): Promise<void> {
    const odd = (await listServiceShards(db)).find(({ count }) => count !== shards);
    if (odd === undefined) return;
    log.error({ service: odd.service, shards: odd.count }, 'refused to join: another number of shards');
    throw new CliError(
      `The entities of this database are cut into ${odd.count} shards, not ${shards}. ` +
        `All processes need the same number: set CLUSTER_SHARDS=${odd.count}, or leave it out. ` +
        'To change it, see docs/engineering/placement.md.',
    );
  }

  /** Each has to read what the other seals: the first key of one is among the keys of the other. */
  async function refuseStrangers([own, ...others]: readonly string[]): Promise<void> {
    if (own === undefined) return;
    const odd = (await listNodes(db)).find(({ leaseMs, keyIds: [theirs, ...accepted] }) => {
      if (leaseMs <= 0 || theirs === undefined || theirs === own) return false;
      return !others.includes(theirs) || !accepted.includes(own);
    });
    if (odd === undefined) return;
    log.error({ node: odd.id, address: odd.address }, 'refused to join: another JWT_SECRET');
    throw new CliError(
      `The node at ${odd.address} has another JWT_SECRET: all processes need the same one. While it is rotated ` +
        `each needs the other's as ` +
        'JWT_SECRET_NEXT or JWT_SECRET_PREVIOUS (docs/reference/operations.md, "Rotating JWT_SECRET").',
    );
  }

  async function untilAlone(): Promise<void> {
    const deadline = performance.now() + timings.ttlMs + timings.beatMs;
    for (let told = false; ; told = true) {
      const other = (await listNodes(db)).find(({ leaseMs }) => leaseMs > 0);
      if (other === undefined) return;
      if (performance.now() > deadline) throw needsBroker(other.address);
      if (options.isLeaving?.() === true) throw new CliError('Stopped while waiting for the lease of another process.');
      if (!told) options.onProgress?.(`waiting: ${other.address} ran on this database a moment ago, or still does`);
      await pause(LOOK_MS);
    }
  }
}

function needsBroker(address: string): CliError {
  return new CliError(
    `Another Troupe (${address}) runs on this database. Several need a message broker between them: set NATS_URL, ` +
      'the same for all; or stop that one.',
  );
}

/**
 * The node of the process that held the folder before. Undefined also for a file that was cut off: its node's lease
 * runs out then. Throws CliError.
 */
export function formerNode(file: string): string | undefined {
  try {
    return /^([a-z0-9]{12})\n$/.exec(readFileSync(file, 'utf8'))?.[1];
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw new CliError(`${file} cannot be read: run the command as the user who owns it.`, { cause: error });
  }
}
