-- What an operator asks of a node, and the format of its messages to other nodes. Defaults are those of nodes of the version before.
alter table placement_nodes
  add column drain_asked boolean not null default false,
  add column format integer not null default 1;
