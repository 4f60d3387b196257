-- Who gets through at an external port where the gateway ends TLS: everybody, whoever has the password, or the owner.
alter table ingress_rules
  add column access text not null default 'public' check (access in ('public', 'password', 'mine')),
  add column access_hash text,
  add constraint ingress_rules_access_at_platform check (access = 'public' or tls = 'platform'),
  add constraint ingress_rules_access_hash check ((access = 'password') = (access_hash is not null));

-- Gateways of earlier versions, which let everybody through, know nothing of the others.
create or replace view open_ports as
  select container_id, port, target_port, tls from ingress_rules where access = 'public';

create view guarded_ports as
  select id as rule, container_id, port, target_port, access, access_hash from ingress_rules where access <> 'public';

-- The hostnames that lead to containers, for whoever makes an entry to one.
create view verified_hostnames as
  select domain as hostname, container_id, target_port from domain_mappings where status = 'verified';
