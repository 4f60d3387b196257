-- Links by which a user sets a password without one. A user has one at most: a new one takes the place of the older.
create table password_links (
  user_id text primary key references users (id) on delete cascade,
  -- SHA-256 of the token, which is random and long enough for that.
  token_hash text not null unique,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index password_links_by_expiry on password_links (expires_at);
