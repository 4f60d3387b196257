-- The sum of storage/migrations. Made by test/storage/schema.test.ts with TROUPE_UPDATE_SCHEMA=1.

create sequence bus_kv_revisions;

create table acme_accounts (
  directory_url text not null,
  key_sealed bytea not null,
  url text,
  budget double precision not null,
  budget_at timestamp with time zone not null default now(),
  hold_until timestamp with time zone,
  hold_reason text,
  created_at timestamp with time zone not null default now(),
  constraint acme_accounts_pkey PRIMARY KEY (directory_url)
);

create table acme_challenges (
  hostname text not null,
  cert text not null,
  key_sealed bytea not null,
  created_at timestamp with time zone not null default now(),
  constraint acme_challenges_pkey PRIMARY KEY (hostname)
);

create table acme_shares (
  user_id text not null,
  registrable text not null,
  day date not null,
  orders integer not null default 0,
  constraint acme_shares_pkey PRIMARY KEY (user_id, day, registrable)
);

create table address_names (
  name text not null,
  user_id text not null,
  container_id text,
  reserved_until timestamp with time zone,
  constraint address_names_pkey PRIMARY KEY (name),
  constraint address_names_container_id_fkey FOREIGN KEY (container_id) REFERENCES containers(id) ON DELETE SET NULL,
  constraint address_names_container_key UNIQUE (container_id) DEFERRABLE INITIALLY DEFERRED
);

create table api_tokens (
  id text not null,
  user_id text not null,
  service_account_id text,
  name text not null,
  scopes jsonb,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone,
  last_used_at timestamp with time zone,
  constraint api_tokens_pkey PRIMARY KEY (id),
  constraint api_tokens_check CHECK (((service_account_id IS NULL) = (scopes IS NOT NULL))),
  constraint api_tokens_id_check CHECK ((id ~ '^[a-z][a-z0-9]{11}$'::text)),
  constraint api_tokens_name_check CHECK (((length(name) >= 1) AND (length(name) <= 64))),
  constraint api_tokens_service_account_id_user_id_fkey FOREIGN KEY (service_account_id, user_id) REFERENCES service_accounts(id, user_id) ON DELETE CASCADE,
  constraint api_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table audit_log (
  id bigint not null generated always as identity,
  at timestamp with time zone not null default now(),
  user_id text,
  username text not null,
  action text not null,
  target text not null default ''::text,
  address text not null default ''::text,
  request_id text not null default ''::text,
  detail jsonb not null default '{}'::jsonb,
  constraint audit_log_pkey PRIMARY KEY (id)
);

create table bus_consumers (
  stream text not null,
  durable text not null,
  filter text,
  ack_wait_ms bigint not null,
  max_deliver integer not null,
  max_ack_pending integer not null,
  next_seq bigint not null default 1,
  constraint bus_consumers_pkey PRIMARY KEY (stream, durable),
  constraint bus_consumers_stream_fkey FOREIGN KEY (stream) REFERENCES bus_streams(name) ON DELETE CASCADE
);

create table bus_dead_letters (
  id bigint not null generated always as identity,
  stream text not null,
  durable text not null,
  seq bigint not null,
  subject text not null,
  data bytea not null,
  deliveries integer not null,
  reason text not null,
  at timestamp with time zone not null default now(),
  msg_id text,
  stored_at timestamp with time zone not null,
  replays integer not null default 0,
  replayed_at timestamp with time zone,
  constraint bus_dead_letters_pkey PRIMARY KEY (id)
);

create table bus_deliveries (
  stream text not null,
  durable text not null,
  seq bigint not null,
  attempts integer not null,
  due timestamp with time zone not null,
  constraint bus_deliveries_pkey PRIMARY KEY (stream, durable, seq),
  constraint bus_deliveries_stream_durable_fkey FOREIGN KEY (stream, durable) REFERENCES bus_consumers(stream, durable) ON DELETE CASCADE
);

create table bus_kv (
  bucket text not null,
  key text not null,
  value bytea not null,
  revision bigint not null,
  expires_at timestamp with time zone not null,
  constraint bus_kv_pkey PRIMARY KEY (bucket, key)
);

create table bus_message_ids (
  stream text not null,
  msg_id text not null,
  seq bigint not null,
  at timestamp with time zone not null default now(),
  constraint bus_message_ids_pkey PRIMARY KEY (stream, msg_id),
  constraint bus_message_ids_stream_fkey FOREIGN KEY (stream) REFERENCES bus_streams(name) ON DELETE CASCADE
);

create table bus_messages (
  stream text not null,
  seq bigint not null,
  subject text not null,
  data bytea not null,
  size integer not null,
  at timestamp with time zone not null default now(),
  msg_id text,
  constraint bus_messages_pkey PRIMARY KEY (stream, seq),
  constraint bus_messages_stream_fkey FOREIGN KEY (stream) REFERENCES bus_streams(name) ON DELETE CASCADE
);

create table bus_streams (
  name text not null,
  subjects text[] not null,
  max_messages bigint not null,
  max_bytes bigint not null,
  max_age_ms bigint not null,
  duplicate_window_ms bigint not null,
  last_seq bigint not null default 0,
  messages bigint not null default 0,
  bytes bigint not null default 0,
  constraint bus_streams_pkey PRIMARY KEY (name)
);

create table certificates (
  hostname text not null,
  chain text,
  key_sealed bytea,
  serial bigint not null default 0,
  not_before timestamp with time zone,
  not_after timestamp with time zone,
  renew_at timestamp with time zone,
  epoch bigint not null default 0,
  lease_until timestamp with time zone,
  order_url text,
  order_key_sealed bytea,
  attempts integer not null default 0,
  next_try timestamp with time zone,
  last_code text,
  last_problem text,
  last_error text,
  tried_at timestamp with time zone,
  constraint certificates_pkey PRIMARY KEY (hostname),
  constraint certificates_whole CHECK ((((chain IS NULL) = (key_sealed IS NULL)) AND ((chain IS NULL) = (not_after IS NULL))))
);

create table container_alerts (
  container_id text not null,
  kind text not null,
  opened_at timestamp with time zone not null default now(),
  constraint container_alerts_pkey PRIMARY KEY (container_id, kind),
  constraint container_alerts_container_id_fkey FOREIGN KEY (container_id) REFERENCES containers(id) ON DELETE CASCADE,
  constraint container_alerts_kind_check CHECK ((kind = ANY (ARRAY['crash_loop'::text, 'out_of_memory'::text, 'disk_nearly_full'::text, 'disk_full'::text])))
);

create table container_keys (
  container_id text not null,
  key_id integer not null,
  constraint container_keys_pkey PRIMARY KEY (container_id, key_id),
  constraint container_keys_container_id_fkey FOREIGN KEY (container_id) REFERENCES containers(id) ON DELETE CASCADE,
  constraint container_keys_key_id_fkey FOREIGN KEY (key_id) REFERENCES ssh_keys(id) ON DELETE CASCADE
);

create table container_revisions (
  container_id text not null,
  images text[] not null default '{}'::text[],
  sealed bytea not null,
  failed_change bytea,
  constraint container_revisions_pkey PRIMARY KEY (container_id),
  constraint container_revisions_container_id_fkey FOREIGN KEY (container_id) REFERENCES containers(id) ON DELETE CASCADE
);

create table container_settings (
  container_id text not null,
  sealed bytea not null,
  changed_at timestamp with time zone not null default now(),
  constraint container_settings_pkey PRIMARY KEY (container_id),
  constraint container_settings_container_id_fkey FOREIGN KEY (container_id) REFERENCES containers(id) ON DELETE CASCADE
);

create table containers (
  id text not null,
  user_id text not null,
  slot smallint,
  name text not null,
  instance_type text not null,
  memory_mb integer not null,
  storage_gb integer not null,
  image text,
  pull_policy text not null,
  mount_paths text[] not null,
  ssh_enabled boolean not null,
  https_enabled boolean not null default false,
  desired text not null,
  status text not null,
  status_reason text,
  status_since timestamp with time zone not null default now(),
  address text,
  epoch bigint not null default 0,
  created_at timestamp with time zone not null default now(),
  restart boolean not null default false,
  announce boolean not null default false,
  keys_revision integer not null default 1,
  keys_applied integer not null default 0,
  external_address text,
  data_paths text[] not null default '{}'::text[],
  mount_changes integer not null default 0,
  mounts_set_at timestamp with time zone,
  shard_hash bigint not null generated always as (entity_hash('compute/container'::text, id)) stored,
  changed xid8 not null default pg_current_xact_id(),
  started_at timestamp with time zone,
  ended_at timestamp with time zone,
  exit_code integer,
  restarts integer not null default 0,
  stop_grace integer not null default 10,
  restart_policy text not null default 'always'::text,
  next_image text,
  next_settings bytea,
  network text,
  network_alias text,
  network_place integer,
  health_state text,
  health_since timestamp with time zone,
  health_reason text,
  former_image text,
  former_settings bytea,
  given_up text,
  expires_at timestamp with time zone,
  predecessor_since timestamp with time zone,
  egress text[],
  is_promoting boolean not null default false,
  network_former_place integer,
  overlap boolean not null default false,
  release_due boolean not null default true,
  next_released boolean not null default false,
  constraint containers_pkey PRIMARY KEY (id),
  constraint containers_desired_check CHECK ((desired = ANY (ARRAY['running'::text, 'stopped'::text, 'deleted'::text]))),
  constraint containers_health_state_check CHECK ((health_state = ANY (ARRAY['starting'::text, 'healthy'::text, 'unhealthy'::text]))),
  constraint containers_id_check CHECK ((id ~ '^[a-z][a-z0-9]{11}$'::text)),
  constraint containers_memory_mb_check CHECK (((memory_mb >= 128) AND (memory_mb <= 65536))),
  constraint containers_pull_policy_check CHECK ((pull_policy = ANY (ARRAY['Always'::text, 'IfNotPresent'::text]))),
  constraint containers_slot_check CHECK ((slot >= 1)),
  constraint containers_slot_held CHECK (((slot IS NOT NULL) OR (desired = 'deleted'::text))),
  constraint containers_slot_key UNIQUE (user_id, slot),
  constraint containers_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'initializing'::text, 'running'::text, 'stopped'::text, 'failed'::text]))),
  constraint containers_storage_gb_check CHECK (((storage_gb >= 1) AND (storage_gb <= 1024)))
);

create table deleted_containers (
  id text not null,
  user_id text not null,
  deleted_at timestamp with time zone not null default now(),
  constraint deleted_containers_pkey PRIMARY KEY (id)
);

create table device_logins (
  device_hash text not null,
  lookup_hash text not null,
  code_hash text not null,
  name text not null,
  address text not null,
  network text not null,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  wrong integer not null default 0,
  pause integer not null,
  asked_at timestamp with time zone,
  user_id text,
  approved boolean,
  epoch integer,
  is_proven boolean,
  constraint device_logins_pkey PRIMARY KEY (device_hash),
  constraint device_logins_lookup_hash_key UNIQUE (lookup_hash),
  constraint device_logins_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table disk_alerts (
  node text not null,
  path text not null,
  opened_at timestamp with time zone not null default now(),
  constraint disk_alerts_pkey PRIMARY KEY (node, path)
);

create table domain_mappings (
  id text not null,
  user_id text not null,
  domain text not null,
  container_id text not null,
  target_port integer not null,
  status text not null,
  verify_token text not null,
  detail text not null default ''::text,
  certificate_detail text not null default ''::text,
  pending_since timestamp with time zone not null,
  verified_at timestamp with time zone,
  checks integer not null default 0,
  next_check_at timestamp with time zone,
  record text,
  owned_domain_id text,
  zone_id text,
  record_id text,
  created_at timestamp with time zone not null default now(),
  unproven_since timestamp with time zone,
  checked_at timestamp with time zone,
  zone text not null default ''::text,
  cache text not null default 'default'::text,
  constraint domain_mappings_pkey PRIMARY KEY (id),
  constraint domain_mappings_cache_check CHECK ((cache = ANY (ARRAY['default'::text, 'explicit'::text, 'off'::text]))),
  constraint domain_mappings_domain_check CHECK (((domain = lower(domain)) AND ((length(domain) >= 3) AND (length(domain) <= 253)))),
  constraint domain_mappings_due CHECK (
CASE status
    WHEN 'pending'::text THEN (next_check_at IS NOT NULL)
    WHEN 'failed'::text THEN (next_check_at IS NULL)
    ELSE true
END),
  constraint domain_mappings_id_check CHECK ((id ~ '^[a-z][a-z0-9]{11}$'::text)),
  constraint domain_mappings_one_claim UNIQUE (domain, user_id),
  constraint domain_mappings_owned_domain_id_fkey FOREIGN KEY (owned_domain_id) REFERENCES owned_domains(id) ON DELETE SET NULL,
  constraint domain_mappings_record_check CHECK ((record = ANY (ARRAY['wanted'::text, 'made'::text, 'found'::text]))),
  constraint domain_mappings_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'verified'::text, 'failed'::text]))),
  constraint domain_mappings_target_port_check CHECK (((target_port = ANY (ARRAY[80, 443])) OR ((target_port >= 8000) AND (target_port <= 8999)))),
  constraint domain_mappings_verified CHECK (((status = 'verified'::text) = (verified_at IS NOT NULL)))
);

create table ended_sessions (
  token_id text not null,
  user_id text not null,
  expires_at timestamp with time zone not null,
  constraint ended_sessions_pkey PRIMARY KEY (token_id),
  constraint ended_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table entity_timers (
  kind text not null,
  id text not null,
  name text not null,
  service text not null,
  key uuid not null,
  at timestamp with time zone not null,
  due timestamp with time zone not null,
  message jsonb not null,
  tries integer not null default 0,
  hash bigint not null generated always as (entity_hash(kind, id)) stored,
  constraint entity_timers_pkey PRIMARY KEY (kind, id, name)
);

create table idempotency_keys (
  id bigint not null generated always as identity,
  user_id text not null,
  endpoint text not null,
  key_hash bytea not null,
  key_id text not null,
  sealed_key bytea not null,
  fingerprint bytea not null,
  claim text not null,
  running_until timestamp with time zone,
  answer bytea,
  created_at timestamp with time zone not null default now(),
  constraint idempotency_keys_pkey PRIMARY KEY (id),
  constraint idempotency_keys_user_id_endpoint_key_hash_key UNIQUE (user_id, endpoint, key_hash),
  constraint idempotency_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table ingress_rules (
  id integer not null generated always as identity,
  container_id text not null,
  port integer not null,
  target_port integer not null,
  created_at timestamp with time zone not null default now(),
  tls text not null default 'container'::text,
  access text not null default 'public'::text,
  access_hash text,
  cache text not null default 'default'::text,
  constraint ingress_rules_pkey PRIMARY KEY (id),
  constraint ingress_rules_access_at_platform CHECK (((access = 'public'::text) OR (tls = 'platform'::text))),
  constraint ingress_rules_access_check CHECK ((access = ANY (ARRAY['public'::text, 'password'::text, 'mine'::text]))),
  constraint ingress_rules_access_hash CHECK (((access = 'password'::text) = (access_hash IS NOT NULL))),
  constraint ingress_rules_cache_check CHECK ((cache = ANY (ARRAY['default'::text, 'explicit'::text, 'off'::text]))),
  constraint ingress_rules_container_id_fkey FOREIGN KEY (container_id) REFERENCES containers(id) ON DELETE CASCADE,
  constraint ingress_rules_port_check CHECK (((port = ANY (ARRAY[80, 443])) OR ((port >= 8000) AND (port <= 8999)))),
  constraint ingress_rules_port_key UNIQUE (container_id, port),
  constraint ingress_rules_target_port_check CHECK (((target_port >= 1) AND (target_port <= 65535))),
  constraint ingress_rules_tls_check CHECK ((tls = ANY (ARRAY['container'::text, 'platform'::text])))
);

create table login_attempts (
  key text not null,
  failures double precision not null default 0,
  last_at timestamp with time zone not null default now(),
  blocked_until timestamp with time zone not null default '1970-01-01 00:00:00+00'::timestamp with time zone,
  constraint login_attempts_pkey PRIMARY KEY (key),
  constraint login_attempts_key_check CHECK ((length(key) <= 80))
);

create table login_networks (
  user_id text not null,
  network text not null,
  last_at timestamp with time zone not null default now(),
  constraint login_networks_pkey PRIMARY KEY (user_id, network),
  constraint login_networks_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table login_sessions (
  id bigint not null generated always as identity,
  token_id text not null,
  user_id text not null,
  ip_address text not null,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  user_agent text not null default ''::text,
  last_seen_at timestamp with time zone,
  constraint login_sessions_pkey PRIMARY KEY (id),
  constraint login_sessions_token_id_key UNIQUE (token_id),
  constraint login_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table mailed_notifications (
  id bigint not null generated always as identity,
  user_id text not null,
  event_id text not null,
  title text not null,
  message text not null,
  link text not null,
  category text not null,
  created_at timestamp with time zone not null,
  batch text,
  is_over boolean not null default false,
  constraint mailed_notifications_pkey PRIMARY KEY (id),
  constraint mailed_notifications_key UNIQUE (user_id, event_id),
  constraint mailed_notifications_user_id_fkey FOREIGN KEY (user_id) REFERENCES notification_mail(user_id) ON DELETE CASCADE
);

create table migrations (
  id integer not null,
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default now(),
  constraint migrations_pkey PRIMARY KEY (id)
);

create table news (
  changed xid8 not null default pg_current_xact_id(),
  at timestamp with time zone not null default now(),
  id text not null,
  channel text not null,
  payload text not null,
  constraint news_payload_check CHECK ((octet_length(payload) < 8000))
);

create table node_routes (
  node_id text not null,
  host text not null,
  path_prefix text not null,
  target text not null,
  strip_prefix boolean not null default false,
  priority integer not null default 0,
  constraint node_routes_pkey PRIMARY KEY (node_id, host, path_prefix, priority)
);

create table notification_mail (
  user_id text not null,
  address text,
  categories text[] not null default '{}'::text[],
  verified_at timestamp with time zone,
  enabled_at timestamp with time zone,
  code_hash text,
  code_until timestamp with time zone,
  code_tries integer not null default 0,
  codes_at timestamp with time zone[] not null default '{}'::timestamp with time zone[],
  sent_at timestamp with time zone[] not null default '{}'::timestamp with time zone[],
  batch text,
  attempts integer not null default 0,
  batch_at timestamp with time zone,
  due_at timestamp with time zone,
  error text not null default ''::text,
  constraint notification_mail_pkey PRIMARY KEY (user_id)
);

create table notification_mutes (
  id bigint not null generated always as identity,
  user_id text not null,
  category text not null,
  scope text not null,
  created_at timestamp with time zone not null default now(),
  constraint notification_mutes_pkey PRIMARY KEY (id),
  constraint notification_mutes_key UNIQUE (user_id, category, scope)
);

create table notification_turn (
  last_at timestamp with time zone not null default '-infinity'::timestamp with time zone,
  part integer not null,
  constraint notification_turn_pkey PRIMARY KEY (part)
);

create table notifications (
  id bigint not null generated always as identity,
  user_id text not null,
  event_id text not null,
  title text not null,
  message text not null,
  link text not null,
  category text not null,
  scope text not null,
  read boolean not null default false,
  created_at timestamp with time zone not null,
  constraint notifications_pkey PRIMARY KEY (user_id, id),
  constraint notifications_event_key UNIQUE (user_id, event_id)
);

create table outbox (
  id bigint not null generated always as identity,
  msg_id text not null,
  subject text not null,
  data bytea not null,
  created_at timestamp with time zone not null default now(),
  constraint outbox_pkey PRIMARY KEY (id),
  constraint outbox_msg_id_key UNIQUE (msg_id)
);

create table owned_domains (
  id text not null,
  user_id text not null,
  token bytea not null,
  zones_at timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  constraint owned_domains_pkey PRIMARY KEY (id),
  constraint owned_domains_id_check CHECK ((id ~ '^[a-z][a-z0-9]{11}$'::text))
);

create table owned_zones (
  owned_domain_id text not null,
  zone_id text not null,
  name text not null,
  constraint owned_zones_pkey PRIMARY KEY (owned_domain_id, zone_id),
  constraint owned_zones_owned_domain_id_fkey FOREIGN KEY (owned_domain_id) REFERENCES owned_domains(id) ON DELETE CASCADE
);

create table password_links (
  user_id text not null,
  token_hash text not null,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  constraint password_links_pkey PRIMARY KEY (user_id),
  constraint password_links_token_hash_key UNIQUE (token_hash),
  constraint password_links_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table placement_nodes (
  id text not null,
  roles text[] not null,
  version text not null,
  address text not null,
  draining boolean not null,
  started_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  drain_asked boolean not null default false,
  format integer not null default 1,
  key_ids text[] not null default '{}'::text[],
  weight double precision not null default 1,
  constraint placement_nodes_pkey PRIMARY KEY (id)
);

create table placement_shards (
  service text not null,
  shard integer not null,
  count integer not null,
  owner text,
  epoch bigint not null,
  changed xid8 not null default pg_current_xact_id(),
  constraint placement_shards_pkey PRIMARY KEY (service, shard),
  constraint placement_shards_check CHECK (((shard >= 0) AND (shard < count)))
);

create table public_repositories (
  name text not null,
  made_public_at timestamp with time zone not null default now(),
  constraint public_repositories_pkey PRIMARY KEY (name)
);

create table removed_users (
  id text not null,
  username text not null,
  removed_at timestamp with time zone not null default now(),
  constraint removed_users_pkey PRIMARY KEY (id)
);

create table security_keys (
  id text not null,
  user_id text not null,
  public_key bytea not null,
  counter bigint not null,
  transports text[] not null,
  name text not null default ''::text,
  authenticator_type text not null,
  user_verified boolean not null,
  created_at timestamp with time zone not null default now(),
  constraint security_keys_pkey PRIMARY KEY (id),
  constraint security_keys_id_check CHECK (((id ~ '^[A-Za-z0-9_-]+$'::text) AND (length(id) <= 1364))),
  constraint security_keys_name_check CHECK ((length(name) <= 64)),
  constraint security_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table service_accounts (
  id text not null,
  user_id text not null,
  name text not null,
  scopes jsonb not null,
  created_at timestamp with time zone not null default now(),
  constraint service_accounts_pkey PRIMARY KEY (id),
  constraint service_accounts_id_check CHECK ((id ~ '^[a-z][a-z0-9]{11}$'::text)),
  constraint service_accounts_id_user_id_key UNIQUE (id, user_id),
  constraint service_accounts_name_check CHECK (((length(name) >= 1) AND (length(name) <= 64))),
  constraint service_accounts_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table settings (
  key text not null,
  value text not null,
  updated_at timestamp with time zone not null default now(),
  constraint settings_pkey PRIMARY KEY (key)
);

create table spent_tokens (
  id text not null,
  expires_at timestamp with time zone not null,
  constraint spent_tokens_pkey PRIMARY KEY (id)
);

create table ssh_keys (
  id integer not null generated always as identity,
  user_id text not null,
  slot smallint not null,
  name text not null,
  public_key text not null,
  fingerprint text not null,
  created_at timestamp with time zone not null default now(),
  login boolean not null default false,
  login_epoch integer,
  constraint ssh_keys_pkey PRIMARY KEY (id),
  constraint ssh_keys_fingerprint_key UNIQUE (user_id, fingerprint),
  constraint ssh_keys_slot_check CHECK ((slot >= 1)),
  constraint ssh_keys_slot_key UNIQUE (user_id, slot)
);

create table static_routes (
  id integer not null default nextval('static_routes_id_seq'::regclass),
  host text not null,
  path_prefix text not null,
  target text not null,
  strip_prefix boolean not null default false,
  priority integer not null default 0,
  managed boolean not null default false,
  cache text not null default 'default'::text,
  constraint static_routes_pkey PRIMARY KEY (id),
  constraint static_routes_cache_check CHECK ((cache = ANY (ARRAY['default'::text, 'explicit'::text, 'off'::text]))),
  constraint static_routes_host_path_prefix_priority_key UNIQUE (host, path_prefix, priority)
);

create table user_limits (
  user_id text not null,
  name text not null,
  most integer,
  changed_at timestamp with time zone not null default now(),
  constraint user_limits_pkey PRIMARY KEY (user_id, name),
  constraint user_limits_most_check CHECK ((most >= 0)),
  constraint user_limits_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table users (
  id text not null,
  username text not null,
  display_name text not null,
  password_hash text not null,
  created_at timestamp with time zone not null default now(),
  password_changed_at timestamp with time zone not null default now(),
  disabled_at timestamp with time zone,
  sessions_from timestamp with time zone,
  leaving text,
  sessions_epoch integer not null default 0,
  kept_session text,
  has_images boolean not null default false,
  registry_limit_mb integer,
  constraint users_pkey PRIMARY KEY (id),
  constraint users_display_name_check CHECK (((length(display_name) >= 1) AND (length(display_name) <= 128))),
  constraint users_id_check CHECK ((id ~ '^[a-z][a-z0-9]{11}$'::text)),
  constraint users_leaving CHECK ((leaving = ANY (ARRAY['stop'::text, 'remove'::text]))),
  constraint users_leaving_disabled CHECK (((leaving IS NULL) OR (disabled_at IS NOT NULL))),
  constraint users_registry_limit_mb_check CHECK ((registry_limit_mb >= 0)),
  constraint users_username_check CHECK ((username ~ '^[a-z0-9][a-z0-9._-]{0,62}$'::text)),
  constraint users_username_key UNIQUE (username)
);

create table webhook_answers (
  id bigint not null generated always as identity,
  webhook_id text not null,
  event_id text not null,
  attempt integer not null,
  at timestamp with time zone not null,
  status integer,
  ms integer not null,
  error text not null,
  constraint webhook_answers_pkey PRIMARY KEY (id),
  constraint webhook_answers_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE
);

create table webhook_deliveries (
  id bigint not null generated always as identity,
  webhook_id text not null,
  event_id text not null,
  body text not null,
  attempts integer not null default 0,
  created_at timestamp with time zone not null,
  due_at timestamp with time zone,
  constraint webhook_deliveries_pkey PRIMARY KEY (id),
  constraint webhook_deliveries_key UNIQUE (webhook_id, event_id),
  constraint webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE
);

create table webhooks (
  id text not null,
  user_id text not null,
  url text not null,
  categories text[] not null,
  enabled boolean not null default true,
  disabled_because text not null default ''::text,
  secret_sealed bytea not null,
  former_sealed bytea,
  former_until timestamp with time zone,
  failing_since timestamp with time zone,
  dead integer not null default 0,
  created_at timestamp with time zone not null default now(),
  enabled_at timestamp with time zone not null default now(),
  constraint webhooks_pkey PRIMARY KEY (id),
  constraint webhooks_disabled_because_check CHECK ((disabled_because = ANY (ARRAY[''::text, 'user'::text, 'gone'::text, 'dead'::text]))),
  constraint webhooks_id_check CHECK ((id ~ '^[a-z][a-z0-9]{11}$'::text))
);

CREATE INDEX address_names_by_user ON public.address_names USING btree (user_id);

CREATE INDEX address_names_given_up ON public.address_names USING btree (reserved_until) WHERE (container_id IS NULL);

CREATE INDEX api_tokens_by_account ON public.api_tokens USING btree (service_account_id);

CREATE INDEX api_tokens_by_expiry ON public.api_tokens USING btree (expires_at);

CREATE INDEX api_tokens_by_user ON public.api_tokens USING btree (user_id);

CREATE INDEX audit_log_by_time ON public.audit_log USING btree (at);

CREATE INDEX audit_log_by_user ON public.audit_log USING btree (username, id);

CREATE UNIQUE INDEX bus_dead_letters_message ON public.bus_dead_letters USING btree (stream, durable, seq, stored_at);

CREATE INDEX bus_dead_letters_stream ON public.bus_dead_letters USING btree (stream, id);

CREATE INDEX bus_deliveries_due ON public.bus_deliveries USING btree (stream, durable, due);

CREATE INDEX bus_kv_expires_at ON public.bus_kv USING btree (expires_at);

CREATE INDEX bus_message_ids_at ON public.bus_message_ids USING btree (at);

CREATE INDEX certificates_not_after ON public.certificates USING btree (not_after);

CREATE INDEX container_keys_by_key ON public.container_keys USING btree (key_id);

CREATE INDEX containers_by_change ON public.containers USING btree (changed);

CREATE INDEX containers_by_part ON public.containers USING btree (((shard_hash % (4096)::bigint)));

CREATE INDEX containers_by_user ON public.containers USING btree (user_id);

CREATE UNIQUE INDEX containers_network_alias ON public.containers USING btree (user_id, network, network_alias);

CREATE UNIQUE INDEX containers_network_place ON public.containers USING btree (user_id, network, network_place);

CREATE INDEX deleted_containers_by_time ON public.deleted_containers USING btree (deleted_at);

CREATE INDEX device_logins_by_expiry ON public.device_logins USING btree (expires_at);

CREATE INDEX device_logins_by_network ON public.device_logins USING btree (network);

CREATE INDEX device_logins_by_user ON public.device_logins USING btree (user_id);

CREATE INDEX domain_mappings_by_check ON public.domain_mappings USING btree (next_check_at) WHERE (next_check_at IS NOT NULL);

CREATE INDEX domain_mappings_by_container ON public.domain_mappings USING btree (container_id);

CREATE INDEX domain_mappings_by_user ON public.domain_mappings USING btree (user_id, created_at);

CREATE UNIQUE INDEX domain_mappings_verified ON public.domain_mappings USING btree (domain) WHERE (status = 'verified'::text);

CREATE INDEX ended_sessions_expiry ON public.ended_sessions USING btree (expires_at);

CREATE INDEX ended_sessions_user ON public.ended_sessions USING btree (user_id);

CREATE INDEX entity_timers_by_due ON public.entity_timers USING btree (service, ((hash % (256)::bigint)), due);

CREATE INDEX idempotency_keys_by_age ON public.idempotency_keys USING btree (created_at);

CREATE INDEX idempotency_keys_by_user ON public.idempotency_keys USING btree (user_id, created_at);

CREATE INDEX login_attempts_by_age ON public.login_attempts USING btree (last_at);

CREATE INDEX login_networks_by_age ON public.login_networks USING btree (last_at);

CREATE INDEX login_sessions_by_expiry ON public.login_sessions USING btree (expires_at);

CREATE INDEX login_sessions_by_user ON public.login_sessions USING btree (user_id, expires_at);

CREATE INDEX mailed_notifications_over ON public.mailed_notifications USING btree (created_at) WHERE is_over;

CREATE INDEX mailed_notifications_waiting ON public.mailed_notifications USING btree (user_id, id) WHERE (NOT is_over);

CREATE INDEX news_by_change ON public.news USING btree (channel, changed);

CREATE INDEX notification_mail_due ON public.notification_mail USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX notifications_created_at ON public.notifications USING brin (created_at);

CREATE INDEX notifications_unread ON public.notifications USING btree (user_id) WHERE (NOT read);

CREATE INDEX owned_domains_by_user ON public.owned_domains USING btree (user_id, created_at);

CREATE INDEX owned_zones_by_name ON public.owned_zones USING btree (name);

CREATE INDEX password_links_by_expiry ON public.password_links USING btree (expires_at);

CREATE INDEX placement_shards_by_change ON public.placement_shards USING btree (changed);

CREATE INDEX removed_users_by_name ON public.removed_users USING btree (username);

CREATE INDEX security_keys_by_user ON public.security_keys USING btree (user_id);

CREATE INDEX service_accounts_by_user ON public.service_accounts USING btree (user_id);

CREATE INDEX spent_tokens_by_expiry ON public.spent_tokens USING btree (expires_at);

CREATE INDEX ssh_keys_by_fingerprint ON public.ssh_keys USING btree (fingerprint);

CREATE INDEX users_by_leaving ON public.users USING btree (leaving) WHERE (leaving IS NOT NULL);

CREATE INDEX webhook_answers_by_webhook ON public.webhook_answers USING btree (webhook_id, id);

CREATE INDEX webhook_deliveries_due ON public.webhook_deliveries USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX webhook_deliveries_over ON public.webhook_deliveries USING btree (created_at) WHERE (due_at IS NULL);

CREATE INDEX webhook_deliveries_waiting ON public.webhook_deliveries USING btree (webhook_id, due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX webhooks_by_user ON public.webhooks USING btree (user_id, created_at);

CREATE OR REPLACE FUNCTION public.audit_log_is_append_only()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' then
    if old.at < now() - interval '90 days' then return old; end if;
  end if;
  raise exception 'the audit log is append-only' using errcode = 'insufficient_privilege';
end $function$
;

CREATE OR REPLACE FUNCTION public.entity_hash(kind text, id text)
 RETURNS bigint
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
declare
  words constant text := kind || '/' || id;
  hash bigint := 2166136261;
begin
  -- FNV-1a, of letters that are one UTF-16 code unit.
  for at in 1 .. length(words) loop
    hash := ((hash # ascii(substr(words, at, 1))) * 16777619) & 4294967295;
  end loop;
  -- The finaliser of MurmurHash3; the halves of the products, since the whole may be beyond 63 bits.
  hash := hash # (hash >> 16);
  hash := ((hash & 65535) * 2246822507 + ((((hash >> 16) * 2246822507) & 65535) << 16)) & 4294967295;
  hash := hash # (hash >> 13);
  hash := ((hash & 65535) * 3266489909 + ((((hash >> 16) * 3266489909) & 65535) << 16)) & 4294967295;
  return hash # (hash >> 16);
end $function$
;

CREATE OR REPLACE FUNCTION public.note_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.changed := pg_current_xact_id();
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.store_notifications(user_ids text[], event_ids text[], titles text[], messages text[], links text[], categories text[], scopes text[], head_users text[], may_be_known boolean, OUT stored_at timestamp with time zone, OUT stored_places integer[], OUT stored_ids bigint[], OUT heads bigint[])
 RETURNS record
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
declare
  -- The lowest bit is that by which the intake divides users among its two batches: they have no part in common.
  parts constant int[] := array(select distinct ((hashtextextended(user_id, 0) & 127) * 2 + (ascii(right(user_id, 1)) & 1))::int
    from unnest(user_ids) as batch (user_id));
begin
  -- In one order for all, so that no two wait for each other.
  perform from notification_turn where part = any(parts) order by part for no key update;
  select greatest(max(last_at), clock_timestamp()) into stored_at from notification_turn where part = any(parts);
  update notification_turn set last_at = stored_at where part = any(parts);
  -- Subqueries in brackets are looked up row by row, whatever the planner thinks of the tables.
  with new as materialized (
    select nextval('notifications_id_seq') as id, batch.*
    from unnest(user_ids, event_ids, titles, messages, links, categories, scopes)
      with ordinality as batch (user_id, event_id, title, message, link, category, scope, place)
    where (select true from users where users.id = batch.user_id)
      and (select true from notification_mutes as mute where mute.user_id = batch.user_id
        and mute.category = batch.category and mute.scope in ('', batch.scope) limit 1) is null
      and case when may_be_known then
        (select true from notifications as old where old.user_id = batch.user_id and old.event_id = batch.event_id) end is null
    order by place
  ), stored as (
    insert into notifications (id, user_id, event_id, title, message, link, category, scope, created_at)
    overriding system value
    select id, user_id, event_id, title, message, link, category, scope, stored_at from new
  )
  select coalesce(array_agg(place), '{}'), coalesce(array_agg(id), '{}'),
    array(select coalesce((select max(old.id) from notifications as old where old.user_id = wanted.user_id), 0)
      from unnest(head_users) with ordinality as wanted (user_id, place) order by wanted.place)
  into stored_places, stored_ids, heads from new;
end $function$
;

create view account_keys as
 SELECT k.user_id,
    k.fingerprint,
    k.name,
    COALESCE((k.login AND (k.login_epoch = u.sessions_epoch)), false) AS login,
    u.username,
    u.sessions_epoch
   FROM (ssh_keys k
     JOIN users u ON ((u.id = k.user_id)))
  WHERE (u.disabled_at IS NULL);

create view guarded_ports as
 SELECT id AS rule,
    container_id,
    port,
    target_port,
    access,
    access_hash
   FROM ingress_rules
  WHERE (access <> 'public'::text);

create view known_containers as
 SELECT id,
    user_id,
    name,
    status,
    desired,
    storage_gb,
    created_at,
    changed,
    ( SELECT a.name
           FROM address_names a
          WHERE (a.container_id = containers.id)) AS address_name
   FROM containers;

create view known_users as
 SELECT id,
    username,
    disabled_at
   FROM users;

create view living_nodes as
 SELECT id,
    address,
    started_at,
    (draining OR drain_asked) AS draining
   FROM placement_nodes
  WHERE (expires_at > clock_timestamp());

create view open_ports as
 SELECT container_id,
    port,
    target_port,
    tls,
    cache
   FROM ingress_rules
  WHERE (access = 'public'::text);

create view open_settings with (check_option=local) as
 SELECT key,
    value,
    updated_at
   FROM settings
  WHERE ((key = ANY (ARRAY['installation'::text, 'ssh_address'::text])) OR starts_with(key, 'registry_certificate:'::text));

create view ssh_entries as
 SELECT c.id AS container_id,
    c.user_id,
    c.status,
    c.desired,
    c.ssh_enabled,
    c.created_at,
    k.fingerprint,
    (EXISTS ( SELECT
           FROM container_keys ck
          WHERE ((ck.container_id = c.id) AND (ck.key_id = k.id)))) AS is_chosen
   FROM (containers c
     JOIN ssh_keys k ON ((k.user_id = c.user_id)))
  WHERE ((c.desired <> 'deleted'::text) AND (NOT (EXISTS ( SELECT
           FROM users u
          WHERE ((u.id = c.user_id) AND (u.disabled_at IS NOT NULL))))));

create view verified_hostnames as
 SELECT domain AS hostname,
    container_id,
    target_port
   FROM domain_mappings
  WHERE (status = 'verified'::text);

CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE ON public.audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_is_append_only();

CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only();

CREATE TRIGGER containers_changed BEFORE UPDATE ON public.containers FOR EACH ROW EXECUTE FUNCTION note_change();
