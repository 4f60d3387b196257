-- Whether the release command, if there is one, is to run before the next start; not for containers that were started.
alter table containers add column release_due boolean not null default false;
alter table containers alter column release_due set default true;
-- Whether it was run in the image that waits, and went well.
alter table containers add column next_released boolean not null default false;
