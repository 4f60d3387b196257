-- Where each process serves the platform's own services: gateways that run alone follow those that live. A row whose node is gone means nothing.
create table node_routes (
  node_id text not null,
  host text not null,
  path_prefix text not null,
  target text not null,
  strip_prefix boolean not null default false,
  priority integer not null default 0,
  primary key (node_id, host, path_prefix, priority)
);
