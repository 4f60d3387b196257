-- How many things of a kind single users may have; null: as many as all may. A slot can be above a limit that was
-- lowered since, so that the limit is no longer a check of the table.
create table user_limits (
  user_id text not null references users (id) on delete cascade,
  name text not null,
  most integer check (most >= 0),
  changed_at timestamptz not null default now(),
  primary key (user_id, name)
);
alter table ssh_keys drop constraint ssh_keys_slot_check;
alter table ssh_keys add constraint ssh_keys_slot_check check (slot >= 1);
alter table containers drop constraint containers_slot_check;
alter table containers add constraint containers_slot_check check (slot >= 1);
