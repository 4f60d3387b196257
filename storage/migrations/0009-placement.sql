-- Nodes of the cluster. A lease is the row while expires_at is ahead; it is renewed by every beat, hence the room for HOT updates.
create table placement_nodes (
  id text primary key,
  roles text[] not null,
  version text not null,
  address text not null,
  draining boolean not null,
  started_at timestamptz not null default now(),
  expires_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Who holds a shard of a service's entities; made on first use. An owner without a living lease holds nothing.
create table placement_shards (
  service text not null,
  shard integer not null,
  -- Into how many shards the service is cut: the same in all rows of it.
  count integer not null,
  owner text,
  -- Rises with every change of the row, and never falls.
  epoch bigint not null,
  -- The transaction of the last change: a snapshot's xmin tells what a reader may have missed.
  changed xid8 not null default pg_current_xact_id(),
  primary key (service, shard),
  check (shard >= 0 and shard < count)
);
create index placement_shards_by_change on placement_shards (changed);
