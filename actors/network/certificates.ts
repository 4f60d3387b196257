/** Finds due certificates: at once when a mapping changes, and every few seconds, since news can be lost. */
import { dueHostnames } from '../../storage/network/certificate-orders.ts';
import { purgeCertificates, tellUncertified } from '../../storage/network/certificates.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { type EntitiesPart, localEntities, placedEntities } from '../service/parts.ts';
import { periodic } from '../service/periodic.ts';
import { startParts } from '../service/supervisor.ts';
import { certificateKind } from './certificate.ts';
import type { CertificateDeps } from './certificate-deps.ts';
import { NO_AUTHORITY } from './certificate-rules.ts';
import { CERTIFICATE, ORDERS } from './placed.ts';

const LOOK_MS = 5000;
const PURGE_EVERY_MS = 3600_000;
/** Orders of one node under way at once. */
const AT_ONCE = 20;

/** Starts what orders certificates under `system`; it ends with it. Rejects when it cannot start. */
export async function startCertificates(system: SystemRef, deps: CertificateDeps): Promise<void> {
  const { db, log, authority, news, placement, lookMs = LOOK_MS } = deps;
  const kind = certificateKind(deps);
  const certificates: EntitiesPart<'look'> =
    placement === undefined ? localEntities(kind) : placedEntities(placement, CERTIFICATE, kind);
  const order = async () => {
    const room = AT_ONCE - certificates.awake();
    const due = room > 0 ? await dueHostnames(db, room, placement?.held(ORDERS)) : [];
    for (const hostname of due) certificates.tell(hostname, 'look');
  };
  const common = { service: 'network', log } as const;
  const parts = {
    certificates,
    due: periodic({
      ...common,
      name: 'due-certificates',
      everyMs: lookMs,
      failure: 'what certificates are due could not be read: tried again',
      work: authority === undefined ? () => tellUncertified(db, NO_AUTHORITY) : order,
      wake: (now) => news.onNews(now),
    }),
    purge: periodic({
      ...common,
      name: 'old-certificates',
      everyMs: PURGE_EVERY_MS,
      failure: 'old certificates could not be purged',
      work: () => purgeCertificates(db),
    }),
  };
  await startParts(system, 'network-certificates', parts, (isUp) => placement?.setUp(ORDERS, isUp));
}
