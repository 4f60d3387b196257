-- SSH keys and containers (interface sections 2.8 and 2.9). The limits of section 8 are slots: a row needs a free one,
-- so no race can exceed them.
create table ssh_keys (
  id int generated always as identity primary key,
  user_id text not null,
  slot smallint not null check (slot between 1 and 10),
  name text not null,
  public_key text not null,
  fingerprint text not null,
  created_at timestamptz not null default now(),
  constraint ssh_keys_slot_key unique (user_id, slot),
  constraint ssh_keys_fingerprint_key unique (user_id, fingerprint)
);

create table containers (
  id text primary key check (id ~ '^[a-z][a-z0-9]{11}$'),
  user_id text not null,
  -- Given up when deletion is asked for, so that the user need not wait for the engine.
  slot smallint check (slot between 1 and 3),
  name text not null,
  instance_type text not null,
  memory_mb int not null check (memory_mb between 128 and 65536),
  storage_gb int not null check (storage_gb between 1 and 1024),
  -- Null stands for the platform's base image, whichever that is at the time.
  image text,
  pull_policy text not null check (pull_policy in ('Always', 'IfNotPresent')),
  mount_paths text[] not null,
  ssh_enabled boolean not null,
  https_enabled boolean not null default false,
  -- What the user wants; the container's actor makes it so.
  desired text not null check (desired in ('running', 'stopped', 'deleted')),
  status text not null check (status in ('pending', 'initializing', 'running', 'stopped', 'failed')),
  status_reason text,
  status_since timestamptz not null default now(),
  address text,
  -- Fencing epoch of the last owner that wrote the row.
  epoch bigint not null default 0,
  created_at timestamptz not null default now(),
  constraint containers_slot_key unique (user_id, slot),
  constraint containers_slot_held check (slot is not null or desired = 'deleted')
);
create index containers_by_user on containers (user_id);

create table container_keys (
  container_id text not null references containers on delete cascade,
  key_id int not null references ssh_keys on delete cascade,
  primary key (container_id, key_id)
);
create index container_keys_by_key on container_keys (key_id);
