-- Sessions that ended before their tokens expire, each by itself; all of a user's end with the user's epoch.
create table ended_sessions (
  token_id text primary key,
  user_id text not null references users (id) on delete cascade,
  expires_at timestamptz not null
);
create index ended_sessions_user on ended_sessions (user_id);
create index ended_sessions_expiry on ended_sessions (expires_at);

-- What a session's user knows it by.
alter table login_sessions add column user_agent text not null default '';
alter table login_sessions add column last_seen_at timestamptz;
