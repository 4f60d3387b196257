-- A container of another image may have taken this one's place on the engine, and its row does not say so yet: whoever
-- looks after it next must set it right.
alter table containers add column is_promoting boolean not null default false;

-- In its private network, the place of the container whose place it took: for its next one, and for no other member.
alter table containers add column network_former_place int;
