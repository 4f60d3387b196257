-- A node's part of the shards beside that of others. Nodes of the version before have 1.
alter table placement_nodes add column weight double precision not null default 1;
