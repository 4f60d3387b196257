/** The real monitor on a real database and the embedded bus, behind a real listener; what it measures is the test's own. */
import { z } from 'zod';
import { challengeTokens } from '../../../actors/auth/tokens/issue-tokens.ts';
import type { MonitorService } from '../../../actors/monitor/service.ts';
import { newId } from '../../../proto/ids.ts';
import { decodeNotification, type Notification } from '../../../proto/notify/notification.ts';
import type { HttpServer } from '../../../proto/ports/http.ts';
import type { ClusterSample, MetricsSource, NodeSample, PodSample } from '../../../proto/ports/metrics-source.ts';
import type { Scopes } from '../../../proto/scopes.ts';
import { deleteApiToken } from '../../../storage/auth/api-tokens.ts';
import { insertServiceAccount, setServiceAccountScopes } from '../../../storage/auth/service-accounts.ts';
import type { AdapterChoice } from '../../../transports/http/index.ts';
import type { Cleanup } from '../temp.ts';
import { SECRET } from './node.ts';
import { type OpenService, openService, serve } from './open-service.ts';
import { addApiToken, addPerson, type Person } from './people.ts';

export const ADMIN = 'boss';

/** What the only source says; the test changes it. */
export interface Measured {
  nodes: NodeSample[];
  pods: PodSample[];
  /** Set: the source fails with it. */
  problem: string | undefined;
}

export interface MonitorUnderTest extends OpenService<MonitorService> {
  readonly measured: Measured;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  readonly ws: string;
  /** Which adapter serves. */
  readonly adapter: HttpServer['adapter'];
  person(username: string): Promise<Person>;
  /** An API token of the person, with its id. */
  apiToken(
    person: Person,
    of: { readonly scopes: Scopes } | { readonly account: string },
  ): Promise<{ token: string; tokenId: string }>;
  /** A service account of the person, and what changes its scopes. */
  account(person: Person, scopes: Scopes): Promise<string>;
  setScopes(person: Person, account: string, scopes: Scopes): Promise<void>;
  /** A token that awaits a security key. */
  challenge(person: Person): Promise<string>;
  revoke(person: Person, tokenId: string): Promise<void>;
  forgetUser(person: Person): Promise<void>;
  /** A container of the person, as the database has it. */
  container(person: Person, name: string): Promise<string>;
  /** Notifications on their way to the stream, which nobody takes here. */
  outbox(): Promise<Notification[]>;
  drain(): void;
}

/** Opens it. Nothing is measured before `measured` has something. */
export async function openMonitor(
  t: Cleanup,
  options: { readonly adapter?: AdapterChoice; readonly refreshMs?: number } = {},
): Promise<MonitorUnderTest> {
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
    () => ({
      sources: [source],
      own: () => [],
      refreshMs: options.refreshMs ?? 100,
      pingMs: 1000,
    }),
    { environment: { ADMIN_USERNAME: ADMIN } },
  );
  const { db, clock, service } = opened;
  const { port, adapter } = await serve(opened, { adapter: options.adapter ?? 'auto' });
  opened.before('streams', async () => service.drain());
  return Object.assign(opened, {
    measured,
    adapter,
    url: `http://127.0.0.1:${port}`,
    ws: `ws://127.0.0.1:${port}`,
    person: (username: string) => addPerson(opened, username),
    apiToken: (person: Person, of: Parameters<typeof addApiToken>[2]) => addApiToken(opened, person, of),
    async account({ id: userId }: Person, scopes: Scopes) {
      const id = newId();
      await insertServiceAccount(db, { id, userId, name: id, scopes, max: 100 });
      return id;
    },
    setScopes: async ({ id }: Person, account: string, scopes: Scopes) =>
      void (await db.tx((tx) => setServiceAccountScopes(tx, id, account, scopes))),
    challenge: ({ id }: Person) => challengeTokens(SECRET, clock)({ id, username: 'somebody' }),
    revoke: async ({ id }: Person, tokenId: string) => void (await db.tx((tx) => deleteApiToken(tx, id, tokenId))),
    async forgetUser({ id }: Person) {
      await db.run('delete from users where id = $1', [id]);
      await db.notify('tokens', `user:${id}`);
    },
    async container({ id: userId }: Person, name: string) {
      const id = newId();
      await db.run(
        `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths,
           ssh_enabled, desired, status) values ($1, $2, 1, $3, 'mini', 512, 1, 'IfNotPresent', '{}', true, 'running', 'running')`,
        [id, userId, name],
      );
      return id;
    },
    outbox: async () => {
      const rows = await db.many(z.object({ data: z.instanceof(Buffer) }), 'select data from outbox order by id');
      return rows.map(({ data }) => decodeNotification(data));
    },
    drain: () => service.drain(),
  });
}
