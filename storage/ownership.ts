/**
 * Whose each table is. SQL that names a table stands with its owner: in storage/<owner>, or in the file of that name at
 * the top. Others read views, which any room may name, or call functions of the owner. `npm run check:walls` holds
 * this.
 */

/** Tables by owner. */
export const OWNED = {
  audit: ['audit_log'],
  auth: [
    'api_tokens',
    'device_logins',
    'ended_sessions',
    'login_attempts',
    'login_networks',
    'login_sessions',
    'password_links',
    'public_repositories',
    'removed_users',
    'security_keys',
    'service_accounts',
    'spent_tokens',
    'user_limits',
    'users',
  ],
  bus: [
    'bus_consumers',
    'bus_dead_letters',
    'bus_deliveries',
    'bus_kv',
    'bus_message_ids',
    'bus_messages',
    'bus_streams',
  ],
  compute: [
    'address_names',
    'container_keys',
    'container_revisions',
    'container_settings',
    'containers',
    'deleted_containers',
    'ingress_rules',
    'ssh_keys',
  ],
  gateway: ['node_routes', 'static_routes'],
  idempotency: ['idempotency_keys'],
  migrate: ['migrations'],
  monitor: ['container_alerts', 'disk_alerts'],
  network: [
    'acme_accounts',
    'acme_challenges',
    'acme_shares',
    'certificates',
    'domain_mappings',
    'owned_domains',
    'owned_zones',
  ],
  news: ['news'],
  notify: [
    'mailed_notifications',
    'notification_mail',
    'notification_mutes',
    'notification_turn',
    'notifications',
    'webhook_answers',
    'webhook_deliveries',
    'webhooks',
  ],
  outbox: ['outbox'],
  placement: ['entity_timers', 'placement_nodes', 'placement_shards'],
  settings: ['settings'],
} as const;

/** Files at the top of storage that are part of a room, since other services ask for what they have. */
export const SHARED_FILES: Readonly<Partial<Record<keyof typeof OWNED, readonly string[]>>> = {
  auth: ['storage/offboarding.ts', 'storage/user-limits.ts'],
};

/** Views by the owner of their tables. */
const VIEWS = {
  auth: ['known_users'],
  compute: ['account_keys', 'guarded_ports', 'known_containers', 'open_ports', 'ssh_entries'],
  network: ['verified_hostnames'],
  placement: ['living_nodes'],
  settings: ['open_settings'],
} as const;

/** A table or a view. */
export type Relation = (typeof OWNED)[keyof typeof OWNED][number] | (typeof VIEWS)[keyof typeof VIEWS][number];

/** All of them. */
export const RELATIONS: readonly Relation[] = [...Object.values(OWNED).flat(), ...Object.values(VIEWS).flat()];

/** Sequences that statements name. Those behind identity columns go with their tables. */
export const SEQUENCES = ['bus_kv_revisions', 'notifications_id_seq', 'static_routes_id_seq'] as const;

/** Functions that statements call, or whose tables compute a column with them. */
export const FUNCTIONS = ['entity_hash', 'store_notifications'] as const;
