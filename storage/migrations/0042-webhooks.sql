-- Webhooks: addresses of users' own that are sent their notifications.
create table webhooks (
  id text primary key check (id ~ '^[a-z][a-z0-9]{11}$'),
  user_id text not null,
  url text not null,
  -- Empty: all.
  categories text[] not null,
  enabled boolean not null default true,
  -- Why it is not enabled; empty while it is.
  disabled_because text not null default '' check (disabled_because in ('', 'user', 'gone', 'dead')),
  -- The secrets that sign, sealed under ENCRYPTION_KEY for this row: the present one, and for a while the one before.
  secret_sealed bytea not null,
  former_sealed bytea,
  former_until timestamptz,
  -- Since when nothing has succeeded, and how many deliveries were given up since.
  failing_since timestamptz,
  dead int not null default 0,
  created_at timestamptz not null default now(),
  -- What the stream took before is not sent.
  enabled_at timestamptz not null default now()
);
create index webhooks_by_user on webhooks (user_id, created_at);

-- What a webhook is sent. Those that are over stay for a while, so that a repeated event is known.
create table webhook_deliveries (
  id bigint generated always as identity primary key,
  webhook_id text not null references webhooks on delete cascade,
  event_id text not null,
  -- Empty once it is over.
  body text not null,
  attempts int not null default 0,
  created_at timestamptz not null,
  -- When it is tried next; while a try is under way, when it counts as lost. Null: it is over.
  due_at timestamptz,
  constraint webhook_deliveries_key unique (webhook_id, event_id)
);
create index webhook_deliveries_waiting on webhook_deliveries (webhook_id, due_at) where due_at is not null;
create index webhook_deliveries_due on webhook_deliveries (due_at) where due_at is not null;
create index webhook_deliveries_over on webhook_deliveries (created_at) where due_at is null;

-- The last answers of each webhook.
create table webhook_answers (
  id bigint generated always as identity primary key,
  webhook_id text not null references webhooks on delete cascade,
  event_id text not null,
  attempt int not null,
  at timestamptz not null,
  -- Of HTTP; null without an answer.
  status int,
  ms int not null,
  error text not null
);
create index webhook_answers_by_webhook on webhook_answers (webhook_id, id);
