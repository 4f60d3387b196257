-- Who ends TLS at an external port: the container, which gets it as it came, or the gateway.
alter table ingress_rules add column tls text not null default 'container' check (tls in ('container', 'platform'));

create or replace view open_ports as
  select container_id, port, target_port, tls from ingress_rules;
