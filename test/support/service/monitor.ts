/** The real monitor on a real database and the embedded bus, behind a real listener; what it measures is the test's own. */
import { z } from 'zod';
import { challengeTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import { newId } from '../../../proto/ids.ts';
import { decodeNotification } from '../../../proto/notify/notification.ts';
import type { ClusterSample, MetricsSource, NodeSample, PodSample } from '../../../proto/ports/metrics-source.ts';
import type { Scopes } from '../../../proto/scopes.ts';
import { deleteApiToken } from '../../../storage/auth/api-tokens.ts';
import { insertServiceAccount, setServiceAccountScopes } from '../../../storage/auth/service-accounts.ts';
import type { AdapterChoice } from '../../../transports/http/index.ts';
import { addContainer } from '../gateway/containers.ts';
import type { Cleanup } from '../temp.ts';
import { SECRET } from './node.ts';
import { openService, serve } from './open-service.ts';
import { type Person, people } from './people.ts';

export const ADMIN = 'boss';

/** What the only source says; the test changes it. */
export interface Measured {
  nodes: NodeSample[];
  pods: PodSample[];
  /** Set: the source fails with it. */
  problem: string | undefined;
}

export type MonitorUnderTest = Awaited<ReturnType<typeof openMonitor>>;

/** Opens it. Nothing is measured before `measured` has something. */
export async function openMonitor(
  t: Cleanup,
  options: { readonly adapter?: AdapterChoice; readonly refreshMs?: number } = {},
) {
  const measured: Measured = { nodes: [], pods: [], problem: 'not yet' };
  let calls = 0;
  const source: MetricsSource = {
    name: 'test',
    get calls() {
      return calls;
    },
    read: async (): Promise<ClusterSample> => {
      calls += 1;
      if (measured.problem !== undefined) throw new Error(measured.problem);
      return { nodes: measured.nodes, pods: measured.pods };
    },
    close: async () => {},
  };
  const opened = await openService(
    t,
    'monitor',
    () => ({ sources: [source], own: () => [], refreshMs: options.refreshMs ?? 100, pingMs: 1000 }),
    { environment: { ADMIN_USERNAME: ADMIN } },
  );
  const { db, clock, service } = opened;
  const { port, adapter } = await serve(opened, { adapter: options.adapter ?? 'auto' });
  opened.before('streams', async () => service.drain());
  return Object.assign(opened, people(opened), {
    measured,
    adapter,
    url: `http://127.0.0.1:${port}`,
    ws: `ws://127.0.0.1:${port}`,
    /** A service account of the person. */
    async account({ id: userId }: Person, scopes: Scopes) {
      const id = newId();
      await insertServiceAccount(db, { id, userId, name: id, scopes, max: 100 });
      return id;
    },
    setScopes: async ({ id }: Person, account: string, scopes: Scopes) =>
      void (await db.tx((tx) => setServiceAccountScopes(tx, id, account, scopes))),
    /** A token that awaits a security key. */
    challenge: ({ id }: Person) => challengeTokens(SECRET, clock)({ id, username: 'somebody' }),
    revoke: async ({ id }: Person, tokenId: string) => void (await db.tx((tx) => deleteApiToken(tx, id, tokenId))),
    /** A container of the person, as the database has it. */
    async container({ id: userId }: Person, name: string) {
      const id = newId();
      await addContainer(db, id, { userId, name, storageGb: 1 });
      return id;
    },
    /** Notifications on their way to the stream, which nobody takes here. */
    outbox: async () => {
      const rows = await db.many(z.object({ data: z.instanceof(Buffer) }), 'select data from outbox order by id');
      return rows.map(({ data }) => decodeNotification(data));
    },
    drain: () => service.drain(),
  });
}
