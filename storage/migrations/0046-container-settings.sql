-- How the workload of a container is run. What may be secret is sealed, all of it in one value.
create table container_settings (
  container_id text primary key references containers on delete cascade,
  sealed bytea not null,
  changed_at timestamptz not null default now()
);

-- Seconds between SIGTERM and SIGKILL, and what happens when the workload ends by itself.
alter table containers
  add column stop_grace int not null default 10,
  add column restart_policy text not null default 'always';
