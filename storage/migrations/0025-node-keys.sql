-- Names of the secrets by which a node reads and seals messages, first the one it seals with; none: a node of a version before.
alter table placement_nodes add column key_ids text[] not null default '{}';
