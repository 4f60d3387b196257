-- What the gateway's response cache may keep of what a way in leads to. `default`: by section 4.5 of the interface, as
-- before; `explicit`: only what an answer itself declares fresh; `off`: nothing.
alter table ingress_rules
  add column cache text not null default 'default' check (cache in ('default', 'explicit', 'off'));
alter table domain_mappings
  add column cache text not null default 'default' check (cache in ('default', 'explicit', 'off'));
alter table static_routes
  add column cache text not null default 'default' check (cache in ('default', 'explicit', 'off'));

-- Gateways of earlier versions do not ask for it, and keep as they did.
create or replace view open_ports as
  select container_id, port, target_port, tls, cache from ingress_rules where access = 'public';
