-- What a container's user was told of and still goes on (the monitor's alerts). One row an episode.
create table container_alerts (
  container_id text not null references containers on delete cascade,
  kind text not null check (kind in ('crash_loop', 'out_of_memory', 'disk_nearly_full')),
  opened_at timestamptz not null default now(),
  primary key (container_id, kind)
);
