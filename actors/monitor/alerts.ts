/**
 * Tells users when something is wrong with their containers, and the administrator when a machine's disk is nearly
 * full, once an episode: the row and the notification are one transaction.
 */
import { notificationEvent } from '../../proto/notify/notification.ts';
import type { NodeSample, PodSample } from '../../proto/ports/metrics-source.ts';
import {
  administratorId,
  type ContainerFacts,
  closeAlert,
  closeDiskAlert,
  openAlert,
  openAlerts,
  openDiskAlert,
  openDiskAlerts,
} from '../../storage/monitor/alerts.ts';
import { append } from '../../storage/outbox.ts';
import { type AnyRef, type Ref, spawn } from '../../supervision/index.ts';
import { ALERT_KINDS, alertText, diskText, QUIET_MS, stateOfAlert, stateOfDisk } from './alert-rules.ts';
import type { MonitorDeps } from './deps.ts';

/** The last snapshots, to be looked through. */
export interface AlertsMessage {
  readonly pods: readonly PodSample[];
  readonly facts: ReadonlyMap<string, ContainerFacts>;
  readonly nodes: readonly NodeSample[];
}

/**
 * The actor that does it. Only the newest snapshot waits; one that could not be looked through is left for the next.
 */
export function startAlerts(parent: AnyRef, deps: MonitorDeps): Ref<AlertsMessage> {
  const { log } = deps;
  return spawn<null, AlertsMessage>(
    parent,
    async (_state, message) => {
      await lookAtPods(deps, message);
      await lookAtDisks(deps, message);
      return null;
    },
    {
      name: 'alerts',
      kind: 'monitor/alerts',
      initialState: null,
      mailbox: { capacity: 1, policy: 'drop-oldest' },
      onCrash: (_message, error, ctx) => {
        log.warn({ err: error }, 'snapshots could not be looked through for alerts');
        return ctx.resume;
      },
    },
  );
}

async function lookAtPods({ db, clock, numbers }: MonitorDeps, { pods, facts }: AlertsMessage): Promise<void> {
  const now = clock.now();
  const wanted: { pod: PodSample; kind: (typeof ALERT_KINDS)[number]; state: 'yes' | 'no' }[] = [];
  for (const pod of pods) {
    if (pod.containerId === undefined) continue;
    for (const kind of ALERT_KINDS) {
      const state = stateOfAlert(kind, pod, now);
      if (state !== 'maybe') wanted.push({ pod, kind, state });
    }
  }
  const open = new Map((await openAlerts(db)).map((row) => [`${row.containerId} ${row.kind}`, row.openedAt.getTime()]));
  for (const { pod, kind, state } of wanted) {
    const { containerId = '' } = pod;
    const openedAt = open.get(`${containerId} ${kind}`);
    if (state === 'yes' && openedAt === undefined) {
      const known = facts.get(containerId);
      if (known === undefined) continue;
      const told = await db.tx(async (tx) => {
        if (!(await openAlert(tx, containerId, kind))) return false;
        const notice = {
          userId: known.userId,
          link: `/containers/${containerId}`,
          ...alertText(kind, known.name, pod),
        };
        await append(tx, notificationEvent('monitor', now, notice));
        return true;
      });
      if (told) numbers.alerts += 1;
    }
    // A monitor that has just started does not know what was before, and of two monitors one looks later than the
    // other.
    if (state === 'no' && openedAt !== undefined && now - openedAt >= QUIET_MS) await closeAlert(db, containerId, kind);
  }
}

async function lookAtDisks(deps: MonitorDeps, { nodes }: AlertsMessage): Promise<void> {
  const { db, clock, numbers, adminUsername } = deps;
  const disks = nodes.flatMap(({ name, disks = [] }) =>
    disks.map((disk) => ({ node: name, disk, state: stateOfDisk(disk.usedBytes, disk.capacityBytes) })),
  );
  const now = clock.now();
  const open = new Map((await openDiskAlerts(db)).map((row) => [`${row.node} ${row.path}`, row.openedAt.getTime()]));
  for (const { node, disk, state } of disks) {
    const openedAt = open.get(`${node} ${disk.path}`);
    if (state === 'no' && openedAt !== undefined && now - openedAt >= QUIET_MS)
      await closeDiskAlert(db, node, disk.path);
    if (state !== 'yes' || openedAt !== undefined) continue;
    const told = await db.tx(async (tx) => {
      const userId = await administratorId(tx, adminUsername);
      if (userId === undefined || !(await openDiskAlert(tx, node, disk.path))) return false;
      const notice = { userId, link: '', ...diskText(node, disk) };
      await append(tx, notificationEvent('monitor', now, notice));
      return true;
    });
    if (told) numbers.alerts += 1;
  }
}
