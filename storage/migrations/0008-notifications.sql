-- What users are told (interface sections 2.15, 2.16 and 6.1).
create table notifications (
  id bigint generated always as identity,
  user_id text not null,
  -- Names the event for ever: an event that is delivered again finds its row.
  event_id text not null,
  title text not null,
  message text not null,
  link text not null,
  category text not null,
  scope text not null,
  read boolean not null default false,
  created_at timestamptz not null,
  primary key (user_id, id),
  constraint notifications_event_key unique (user_id, event_id)
);
create index notifications_unread on notifications (user_id) where not read;
-- For the removal of what is old; rows are added in the order of time.
create index notifications_created_at on notifications using brin (created_at);

-- Whoever adds notifications holds this row until commit: ids become visible in their order, and times never go back. So a reader who has
-- seen an id has missed none below it.
create table notification_turn (
  only_row boolean primary key default true check (only_row),
  last_at timestamptz not null default '-infinity'
);
insert into notification_turn default values;

-- An empty scope stands for the whole category.
create table notification_mutes (
  id bigint generated always as identity primary key,
  user_id text not null,
  category text not null,
  scope text not null,
  created_at timestamptz not null default now(),
  constraint notification_mutes_key unique (user_id, category, scope)
);
