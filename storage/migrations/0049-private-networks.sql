-- The private network of its user that a container is in, the name by which the others find it there, and its place,
-- from which its address follows. A container that is being deleted keeps all three until it is gone.
alter table containers
  add column network text,
  add column network_alias text,
  add column network_place int;
create unique index containers_network_alias on containers (user_id, network, network_alias);
create unique index containers_network_place on containers (user_id, network, network_place);
