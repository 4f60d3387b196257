-- Installation-wide values: the installation's id, sealed secrets.
create table settings (
  key text primary key,
  value text not null,
  updated_at timestamptz not null default now()
);

-- Events written in the transaction of the row they speak of; the relay publishes and deletes them, oldest first.
create table outbox (
  id bigint generated always as identity primary key,
  msg_id text not null unique,
  subject text not null,
  data bytea not null,
  created_at timestamptz not null default now()
);

-- The embedded bus: streams. Whoever appends holds the row's lock until commit, so numbers become visible in order.
create table bus_streams (
  name text primary key,
  subjects text[] not null,
  max_messages bigint not null,
  max_bytes bigint not null,
  max_age_ms bigint not null,
  duplicate_window_ms bigint not null,
  last_seq bigint not null default 0,
  messages bigint not null default 0,
  bytes bigint not null default 0
);

create table bus_messages (
  stream text not null references bus_streams (name) on delete cascade,
  seq bigint not null,
  subject text not null,
  data bytea not null,
  size integer not null,
  at timestamptz not null default now(),
  primary key (stream, seq)
);

-- Message ids seen within the duplicate window; they outlive a message that the limits removed.
create table bus_message_ids (
  stream text not null references bus_streams (name) on delete cascade,
  msg_id text not null,
  seq bigint not null,
  at timestamptz not null default now(),
  primary key (stream, msg_id)
);
create index bus_message_ids_at on bus_message_ids (at);

create table bus_consumers (
  stream text not null references bus_streams (name) on delete cascade,
  durable text not null,
  filter text,
  ack_wait_ms bigint not null,
  max_deliver integer not null,
  max_ack_pending integer not null,
  -- The first message that was never handed out.
  next_seq bigint not null default 1,
  primary key (stream, durable)
);

-- Handed out and not acknowledged; handed out again once due.
create table bus_deliveries (
  stream text not null,
  durable text not null,
  seq bigint not null,
  attempts integer not null,
  due timestamptz not null,
  primary key (stream, durable, seq),
  foreign key (stream, durable) references bus_consumers (stream, durable) on delete cascade
);
create index bus_deliveries_due on bus_deliveries (stream, durable, due);

-- Messages a consumer gave up, kept for people.
create table bus_dead_letters (
  id bigint generated always as identity primary key,
  stream text not null references bus_streams (name) on delete cascade,
  durable text not null,
  seq bigint not null,
  subject text not null,
  data bytea not null,
  deliveries integer not null,
  reason text not null,
  at timestamptz not null default now()
);
create index bus_dead_letters_stream on bus_dead_letters (stream, id);

create sequence bus_kv_revisions;
create table bus_kv (
  bucket text not null,
  key text not null,
  value bytea not null,
  revision bigint not null,
  expires_at timestamptz not null,
  primary key (bucket, key)
);
create index bus_kv_expires_at on bus_kv (expires_at);
