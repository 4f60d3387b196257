/** Tells users when something is wrong with their containers, once an episode: the row and the notification are one transaction. */
import { notificationEvent } from '../../proto/notification.ts';
import type { PodSample } from '../../proto/ports.ts';
import { closeAlert, openAlert, openAlerts } from '../../storage/monitor/alerts.ts';
import type { ContainerFacts } from '../../storage/monitor/containers.ts';
import { append } from '../../storage/outbox.ts';
import { type AnyRef, type Ref, spawn } from '../../supervision/index.ts';
import { ALERT_KINDS, alertText, QUIET_MS, stateOfAlert } from './alert-rules.ts';
import type { MonitorDeps } from './deps.ts';

/** A snapshot to look through. */
export interface AlertsMessage {
  readonly pods: readonly PodSample[];
  readonly facts: ReadonlyMap<string, ContainerFacts>;
}

/** The actor that does it. Only the newest snapshot waits; one that could not be looked through is left for the next. */
export function startAlerts(parent: AnyRef, deps: MonitorDeps): Ref<AlertsMessage> {
  const { log } = deps;
  return spawn<null, AlertsMessage>(
    parent,
    async (_state, message) => {
      await look(deps, message);
      return null;
    },
    {
      name: 'alerts',
      kind: 'monitor/alerts',
      initialState: null,
      mailbox: { capacity: 1, policy: 'drop-oldest' },
      onCrash: (_message, error, ctx) => {
        log.warn({ err: error }, 'containers could not be looked through for alerts');
        return ctx.resume;
      },
    },
  );
}

async function look({ db, clock, numbers }: MonitorDeps, { pods, facts }: AlertsMessage): Promise<void> {
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
    // A monitor that has just started does not know what was before.
    const isQuiet = kind === 'disk_nearly_full' || (openedAt !== undefined && now - openedAt >= QUIET_MS);
    if (state === 'no' && openedAt !== undefined && isQuiet) await closeAlert(db, containerId, kind);
  }
}
