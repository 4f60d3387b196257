-- The rest of the compute service (interface sections 2.10 and 4.2): ingress rules, and what a container's actor must not forget.

create table ingress_rules (
  id int generated always as identity primary key,
  container_id text not null references containers on delete cascade,
  port int not null check (port in (80, 443) or port between 8000 and 8999),
  target_port int not null check (target_port between 1 and 65535),
  created_at timestamptz not null default now(),
  constraint ingress_rules_port_key unique (container_id, port)
);

alter table containers
  -- It must be stopped once before it is running again: its mounts were set anew.
  add column restart boolean not null default false,
  -- Its user waits for the news that it runs.
  add column announce boolean not null default false,
  -- Rises with every change of who may log in; the other is what the container itself was told last.
  add column keys_revision int not null default 1,
  add column keys_applied int not null default 0;

-- Containers that are certainly gone: one that an engine still shows (its creation outlasted its deletion) may be removed.
create table deleted_containers (
  id text primary key,
  user_id text not null,
  deleted_at timestamptz not null default now()
);
create index deleted_containers_by_time on deleted_containers (deleted_at);
