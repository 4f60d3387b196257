-- Logins that a program began and a person approves in a browser. Codes are kept as keyed hashes.
create table device_logins (
  device_hash text primary key,
  -- Of the first half of the code that a person types: finds the login. Of the whole code: proves it.
  lookup_hash text not null unique,
  code_hash text not null,
  name text not null,
  address text not null,
  network text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- Wrong second halves.
  wrong int not null default 0,
  -- Least seconds between two questions of the program.
  pause int not null,
  asked_at timestamptz,
  -- Who decided, and how: null while nobody has.
  user_id text references users (id) on delete cascade,
  approved boolean,
  -- The user's epoch at the approval: a new password ends what was approved before it.
  epoch int
);
create index device_logins_by_expiry on device_logins (expires_at);
create index device_logins_by_network on device_logins (network);
create index device_logins_by_user on device_logins (user_id);
