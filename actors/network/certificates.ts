/** Finds due certificates: at once when a mapping changes, and every few seconds, since news can be lost. */
import { dueHostnames } from '../../storage/network/certificate-orders.ts';
import { purgeCertificates, tellUncertified } from '../../storage/network/certificates.ts';
import type { SystemRef } from '../../supervision/index.ts';
import { localEntities } from '../service/parts.ts';
import { periodic } from '../service/periodic.ts';
import { startParts } from '../service/supervisor.ts';
import { certificateKind } from './certificate.ts';
import type { CertificateDeps } from './certificate-deps.ts';
import { NO_AUTHORITY } from './certificate-rules.ts';

const LOOK_MS = 5000;
const PURGE_EVERY_MS = 3600_000;
/** Orders of one node under way at once. */
const AT_ONCE = 20;

/** Starts what orders certificates under `system`; it ends with it. Rejects when it cannot start. */
export async function startCertificates(system: SystemRef, deps: CertificateDeps): Promise<void> {
  const { db, log, authority, news, lookMs = LOOK_MS } = deps;
  const certificates = localEntities(certificateKind(deps));
  const order = async () => {
    const room = AT_ONCE - certificates.awake();
    for (const hostname of room > 0 ? await dueHostnames(db, room) : []) certificates.tell(hostname, 'look');
  };
  const common = { service: 'network', log } as const;
  await startParts(system, 'network-certificates', {
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
  });
}
