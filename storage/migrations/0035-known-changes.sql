-- Gateways read what changed since their last look.
create or replace view known_containers as
  select id, user_id, name, status, desired, storage_gb, created_at, changed from containers;
