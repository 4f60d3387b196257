/**
 * What each service that runs alone may do with the database, and nothing besides (docs/reference/database-roles.md):
 * all that its statements need, of its own tables and of others'. A right goes a version after its last use, for the
 * version before runs on beside the new one.
 */
import { FUNCTIONS, OWNED, RELATIONS, type Relation, SEQUENCES } from './ownership.ts';

/** Services that have a role. */
export const SERVICES = ['auth', 'compute', 'gateway', 'monitor', 'notify', 'registry'] as const;

/** One of them. */
export type ServiceWithRole = (typeof SERVICES)[number];

/** Columns by name, separated by commas; true: all, also those that come later. */
type Columns = true | string;

/** What may be done with a table or view. `update` is also what it takes to lock a row, whichever column it names. */
interface Rights {
  readonly select?: Columns;
  readonly insert?: Columns;
  readonly update?: Columns;
  readonly delete?: true;
}

type RightsByRelation = { readonly [R in Relation]?: Rights };

const READ: Rights = { select: true };
const ALL: Rights = { select: true, insert: true, update: true, delete: true };

const allOf = <R extends Relation>(relations: readonly R[]) =>
  Object.fromEntries(relations.map((relation) => [relation, ALL]));

/** Of every service: whether the schema is this version's, whose a token is, and where messages wait. */
const COMMON: readonly RightsByRelation[] = [
  { migrations: READ, placement_nodes: READ, news: { select: true, insert: true, delete: true } },
  {
    users: { select: 'id, username, disabled_at, sessions_from, sessions_epoch, kept_session' },
    api_tokens: { select: 'id, user_id, service_account_id, scopes, expires_at, last_used_at', update: 'last_used_at' },
    service_accounts: { select: 'id, name, scopes' },
    ended_sessions: { select: 'token_id' },
  },
  allOf(OWNED.bus),
];

/** Of those that are members of the cluster, and publish the outbox when it is their turn. */
const MEMBER: readonly RightsByRelation[] = [
  allOf(OWNED.placement),
  { outbox: { select: true, insert: true, delete: true } },
];

const AUDIT: RightsByRelation = { audit_log: { insert: true } };

/** Of those that make something for a user, and keep the answer. */
const KEPT_ANSWERS: RightsByRelation = { idempotency_keys: ALL };

/** The rights of each, which add up. */
const RIGHTS: Readonly<Record<ServiceWithRole, readonly RightsByRelation[]>> = {
  auth: [
    ...COMMON,
    ...MEMBER,
    KEPT_ANSWERS,
    allOf(OWNED.auth),
    {
      audit_log: { insert: true, select: true, delete: true },
      open_settings: { select: true, insert: true },
      // Of the administrator, over HTTP.
      static_routes: ALL,
    },
    // To forget a user who was removed, once nothing is left that another service has to end.
    {
      containers: { select: 'user_id' },
      domain_mappings: { select: 'user_id' },
      notification_mail: { select: 'user_id', delete: true },
      notification_mutes: { select: 'user_id', delete: true },
      notifications: { select: 'user_id', delete: true },
      owned_domains: { select: 'user_id', delete: true },
      ssh_keys: { select: 'user_id', delete: true },
      webhooks: { select: 'user_id', delete: true },
    },
  ],
  compute: [
    ...COMMON,
    ...MEMBER,
    AUDIT,
    KEPT_ANSWERS,
    allOf(OWNED.compute),
    {
      known_containers: READ,
      known_users: READ,
      user_limits: READ,
      verified_hostnames: READ,
      users: { select: 'leaving', update: 'leaving' },
      removed_users: { select: 'id' },
      public_repositories: { select: 'name' },
      open_settings: { select: true, insert: true },
      // The key that opens containers, sealed.
      settings: { select: true, insert: true },
    },
  ],
  gateway: [
    ...COMMON,
    AUDIT,
    KEPT_ANSWERS,
    allOf(OWNED.network),
    {
      account_keys: READ,
      known_containers: READ,
      living_nodes: READ,
      node_routes: READ,
      guarded_ports: READ,
      open_ports: READ,
      ssh_entries: READ,
      static_routes: READ,
      outbox: { select: 'msg_id', insert: true },
      open_settings: { select: true, insert: true, update: true },
      // The keys of the SSH server and the one that opens containers, sealed.
      settings: { select: true, insert: true },
    },
  ],
  monitor: [
    ...COMMON,
    ...MEMBER,
    {
      container_alerts: { select: true, insert: true, delete: true },
      disk_alerts: { select: true, insert: true, delete: true },
      known_containers: READ,
      known_users: READ,
      domain_mappings: {
        select: 'id, user_id, domain, container_id, target_port, status, detail, certificate_detail, created_at',
      },
      certificates: { select: 'hostname, chain, not_after' },
      static_routes: READ,
      open_settings: READ,
    },
  ],
  notify: [...COMMON, ...MEMBER, AUDIT, KEPT_ANSWERS, allOf(OWNED.notify), { known_users: READ, user_limits: READ }],
  // Which images may not go, whether who pushes still may, and how much room they have.
  registry: [
    {
      containers: { select: 'image, next_image, former_image' },
      container_revisions: { select: 'images' },
      users: { select: 'id, username, disabled_at, sessions_from, sessions_epoch, kept_session, registry_limit_mb' },
      api_tokens: { select: 'id, user_id, service_account_id, scopes, expires_at' },
      service_accounts: { select: 'id, name, scopes' },
      ended_sessions: { select: 'token_id' },
    },
  ],
};

/** What some have besides, by service. */
const USAGE: Readonly<Record<(typeof SEQUENCES)[number] | (typeof FUNCTIONS)[number], readonly ServiceWithRole[]>> = {
  bus_kv_revisions: ['auth', 'compute', 'gateway', 'monitor', 'notify'],
  notifications_id_seq: ['notify'],
  static_routes_id_seq: ['auth'],
  entity_hash: ['auth', 'compute', 'monitor', 'notify'],
  store_notifications: ['notify'],
};

/** One right: `column` is empty for the whole table, and for what is no table. */
interface Right {
  readonly on: string;
  readonly right: 'select' | 'insert' | 'update' | 'delete' | 'usage' | 'execute';
  readonly column: string;
}

const COMMANDS = ['select', 'insert', 'update', 'delete'] as const;

/** All rights of a service, each once. */
export function rightsOf(service: ServiceWithRole): Right[] {
  const rights = RELATIONS.flatMap((on) =>
    COMMANDS.flatMap((right): Right[] => {
      const given = RIGHTS[service].flatMap((group) => group[on]?.[right] ?? []);
      const columns = given.includes(true) ? [''] : given.flatMap((names) => String(names).split(', '));
      return [...new Set(columns)].map((column) => ({ on, right, column }));
    }),
  );
  const used = (names: typeof SEQUENCES | typeof FUNCTIONS, right: 'usage' | 'execute'): Right[] =>
    names.filter((on) => USAGE[on].includes(service)).map((on) => ({ on, right, column: '' }));
  return [...rights, ...used(SEQUENCES, 'usage'), ...used(FUNCTIONS, 'execute')];
}
