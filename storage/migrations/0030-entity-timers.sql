-- Timers of entities that outlive their process (supervision/placement/durable-timers.ts). The node that holds an entity reads those of its
-- shard that are due; `hash` has the shard for any number of shards.
create table entity_timers (
  kind text not null,
  id text not null,
  name text not null,
  service text not null,
  -- Another each time the timer is set.
  key uuid not null,
  at timestamptz not null,
  -- When it is told of next: later than `at` after a failure.
  due timestamptz not null,
  message jsonb not null,
  tries integer not null default 0,
  hash bigint not null generated always as (entity_hash(kind, id)) stored,
  primary key (kind, id, name)
);
create index entity_timers_by_due on entity_timers (service, (hash % 256), due);
