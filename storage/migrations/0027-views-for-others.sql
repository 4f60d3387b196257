-- What rooms show others of their tables: these are named in SQL of any room, the tables in their owner's alone.

create view known_users as
  select id, username, disabled_at from users;

create view known_containers as
  select id, user_id, name, status, desired, storage_gb, created_at from containers;

create view open_ports as
  select container_id, port, target_port from ingress_rules;

-- Every key at every container of the key's owner, but for owners who may not log in.
create view ssh_doors as
  select c.id as container_id, c.user_id, c.status, c.desired, c.ssh_enabled, c.created_at, k.fingerprint,
    exists (select from container_keys ck where ck.container_id = c.id and ck.key_id = k.id) as is_chosen
  from containers c join ssh_keys k on k.user_id = c.user_id
  where c.desired <> 'deleted'
    and not exists (select from users u where u.id = c.user_id and u.disabled_at is not null);

create view living_nodes as
  select id, address, started_at, draining or drain_asked as draining from placement_nodes
  where expires_at > clock_timestamp();
