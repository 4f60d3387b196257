-- Users who may not log in, and those who are being removed.
alter table users
  add column disabled_at timestamptz,
  -- Sessions that began before this are over, also after the user is enabled again.
  add column sessions_from timestamptz,
  -- What is still to be done with what a disabled user has: containers stopped, or everything removed.
  add column leaving text,
  add constraint users_leaving check (leaving in ('stop', 'remove')),
  add constraint users_leaving_disabled check (leaving is null or disabled_at is not null);

create index users_by_leaving on users (leaving) where leaving is not null;

-- Ids are never given twice: nothing may be added any more for one that stands here.
create table removed_users (
  id text primary key,
  username text not null,
  removed_at timestamptz not null default now()
);

create index removed_users_by_name on removed_users (username);
