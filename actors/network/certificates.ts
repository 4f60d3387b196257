/**
 * The actor that sees what is due: at once when a mapping changes, and every few seconds, since news and nodes can be
 * lost.
 */
import type { Ending } from '../../proto/ports/ending.ts';
import { dueHostnames } from '../../storage/network/certificate-orders.ts';
import { purgeCertificates, tellUncertified } from '../../storage/network/certificates.ts';
import {
  type AnyRef,
  dispatch,
  type Entities,
  entities,
  type Ref,
  type SystemRef,
  spawn,
} from '../../supervision/index.ts';
import { startServiceSupervisor } from '../service/supervisor.ts';
import { type CertificateMessage, certificateKind } from './certificate.ts';
import type { CertificateDeps } from './certificate-deps.ts';
import { NO_AUTHORITY } from './certificate-rules.ts';

const LOOK_MS = 5000;
const PURGE_EVERY_MS = 3600_000;
/** Orders of one node under way at once. */
const AT_ONCE = 20;

/** Starts what orders certificates under `system`; it ends with it. Rejects when it cannot start. */
export async function startCertificates(system: SystemRef, deps: CertificateDeps): Promise<void> {
  await startServiceSupervisor(system, 'network-certificates', {
    certificates: (parent) => startLooking(parent, deps),
  });
}

function startLooking(parent: AnyRef, deps: CertificateDeps): Ref<'look' | 'purge'> {
  const { db, log, authority } = deps;
  let all: Entities<CertificateMessage> | undefined;
  return spawn<{ readonly watching: Ending }, 'look' | 'purge'>(
    parent,
    async (state, message) => {
      if (message === 'purge') await purgeCertificates(db);
      else if (authority === undefined) await tellUncertified(db, NO_AUTHORITY);
      else {
        const room = AT_ONCE - (all?.awake() ?? 0);
        for (const hostname of room > 0 ? await dueHostnames(db, room) : []) all?.tell(hostname, 'look');
      }
      return state;
    },
    {
      name: 'certificates',
      kind: 'network/certificates',
      // Looks that wait would all find the same.
      mailbox: { capacity: 3, policy: 'drop-newest' },
      initialStateFunc: (ctx) => {
        all = entities(ctx.self, certificateKind(deps));
        ctx.every(deps.lookMs ?? LOOK_MS, 'look');
        ctx.every(PURGE_EVERY_MS, 'purge');
        return { watching: deps.news.onNews(() => dispatch(ctx.self, 'look')) };
      },
      onCrash: (_message, error, ctx) => {
        log.warn({ err: error }, 'what certificates are due could not be read: tried again');
        return ctx.resume;
      },
      afterStop: (state: { readonly watching: Ending } | undefined) => state?.watching.close(),
    },
  );
}
