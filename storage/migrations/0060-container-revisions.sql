-- What each container ran: its newest revisions, sealed as one value, and the images of them that the registry is to
-- keep, as `name@sha256:...`.
create table container_revisions (
  container_id text primary key references containers on delete cascade,
  images text[] not null default '{}',
  sealed bytea not null
);
