-- Mail to users: one address each, which gets nothing but a code until its user has proven to read it.
create table notification_mail (
  user_id text primary key,
  -- Null: off.
  address text,
  -- Empty: all.
  categories text[] not null default '{}',
  verified_at timestamptz,
  -- What the stream took before is not sent.
  enabled_at timestamptz,
  -- The code that was sent last, as a keyed hash, and how often it may still be guessed.
  code_hash text,
  code_until timestamptz,
  code_tries int not null default 0,
  -- When codes were sent lately.
  codes_at timestamptz[] not null default '{}',
  -- When mails were sent within the last hour.
  sent_at timestamptz[] not null default '{}',
  -- The mail that is being tried: its first notification names it. Null: none.
  batch text,
  attempts int not null default 0,
  batch_at timestamptz,
  -- When something is to be done next; while a try is under way, when it counts as lost. Null: nothing waits.
  due_at timestamptz,
  error text not null default ''
);
create index notification_mail_due on notification_mail (due_at) where due_at is not null;

-- Notifications that are mailed. Those that are over stay for a while, so that a repeated event is known.
create table mailed_notifications (
  id bigint generated always as identity primary key,
  user_id text not null references notification_mail on delete cascade,
  event_id text not null,
  -- Empty once it is over.
  title text not null,
  message text not null,
  link text not null,
  category text not null,
  created_at timestamptz not null,
  -- The mail that it is part of.
  batch text,
  is_over boolean not null default false,
  constraint mailed_notifications_key unique (user_id, event_id)
);
create index mailed_notifications_waiting on mailed_notifications (user_id, id) where not is_over;
create index mailed_notifications_over on mailed_notifications (created_at) where is_over;
