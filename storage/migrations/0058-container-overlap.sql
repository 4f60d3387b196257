-- Whether its next image begins beside it although it has mount paths: for a time, two write to them.
alter table containers add column overlap boolean not null default false;
