-- Readable names at which containers are reached beside their ids. One that was given up (no container) stays its
-- user's until a time; null there: the time is still to be counted.
create table address_names (
  name text primary key,
  user_id text not null,
  container_id text references containers (id) on delete set null,
  reserved_until timestamptz,
  constraint address_names_container_key unique (container_id) deferrable initially deferred
);
create index address_names_by_user on address_names (user_id);
create index address_names_given_up on address_names (reserved_until) where container_id is null;

create or replace view known_containers as
  select id, user_id, name, status, desired, storage_gb, created_at, changed,
    (select a.name from address_names a where a.container_id = containers.id) as address_name
  from containers;
