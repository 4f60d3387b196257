-- Users and their logins (interface sections 2.1 and 2.3).
create table users (
  id text primary key check (id ~ '^[a-z][a-z0-9]{11}$'),
  username text not null constraint users_username_key unique check (username ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  display_name text not null check (length(display_name) between 1 and 128),
  password_hash text not null,
  created_at timestamptz not null default now(),
  password_changed_at timestamptz not null default now()
);

create table login_sessions (
  id bigint generated always as identity primary key,
  token_id text not null unique,
  user_id text not null references users on delete cascade,
  ip_address text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index login_sessions_by_user on login_sessions (user_id, expires_at);
create index login_sessions_by_expiry on login_sessions (expires_at);

-- One row for each (name tried, address): held in SQL so that the throttle counts over all nodes. Unknown names are
-- counted too, else the throttle would tell which names exist.
create table login_attempts (
  username text not null,
  address text not null,
  attempts int not null,
  blocked_until timestamptz not null,
  last_at timestamptz not null default now(),
  primary key (username, address)
);
create index login_attempts_by_age on login_attempts (last_at);
