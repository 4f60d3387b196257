-- What a session is used with, so that its owner can tell it from others.
alter table login_sessions add column user_agent text not null default '';

-- When sessions were used last, by the id in their token. All services write it, and none but auth reads what a session is.
create table session_uses (
  token_id text primary key,
  last_seen_at timestamptz not null
);

-- Sessions that were ended one by one, by the id in their token, until that token has expired.
create table ended_sessions (
  token_id text primary key,
  expires_at timestamptz not null
);
create index ended_sessions_by_expiry on ended_sessions (expires_at);
