-- Where the outside reaches a container. Null: at its address; empty: nowhere (yet).
alter table containers add external_address text;
