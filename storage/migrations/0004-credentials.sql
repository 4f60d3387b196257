-- Security keys, API tokens, service accounts, the registry's visibility, and the audit trail (interface sections 2.2 to 2.5, 4.1).

create table security_keys (
  -- The credential id, base64url.
  id text primary key check (id ~ '^[A-Za-z0-9_-]+$' and length(id) <= 1364),
  user_id text not null references users on delete cascade,
  public_key bytea not null,
  -- Only rises: written with compare-and-set.
  counter bigint not null,
  transports text[] not null,
  name text not null default '' check (length(name) <= 64),
  authenticator_type text not null,
  -- Made with a check of the user (PIN, fingerprint): then every login needs one.
  user_verified boolean not null,
  created_at timestamptz not null default now()
);
create index security_keys_by_user on security_keys (user_id);

-- Ids of tokens that count once (challenges, WebAuthn states), kept until they have expired anyway.
create table spent_tokens (
  id text primary key,
  expires_at timestamptz not null
);
create index spent_tokens_by_expiry on spent_tokens (expires_at);

create table service_accounts (
  id text primary key check (id ~ '^[a-z][a-z0-9]{11}$'),
  user_id text not null references users on delete cascade,
  name text not null check (length(name) between 1 and 64),
  scopes jsonb not null,
  created_at timestamptz not null default now(),
  unique (id, user_id)
);
create index service_accounts_by_user on service_accounts (user_id);

create table api_tokens (
  id text primary key check (id ~ '^[a-z][a-z0-9]{11}$'),
  user_id text not null references users on delete cascade,
  service_account_id text,
  name text not null check (length(name) between 1 and 64),
  -- A token of a service account has none of its own.
  scopes jsonb,
  created_at timestamptz not null default now(),
  -- Null: never.
  expires_at timestamptz,
  last_used_at timestamptz,
  check ((service_account_id is null) = (scopes is not null)),
  foreign key (service_account_id, user_id) references service_accounts (id, user_id) on delete cascade
);
create index api_tokens_by_user on api_tokens (user_id);
create index api_tokens_by_account on api_tokens (service_account_id);
create index api_tokens_by_expiry on api_tokens (expires_at);

-- Repositories that anybody may pull; all others are private (design.md, section 9).
create table public_repositories (
  name text primary key,
  made_public_at timestamptz not null default now()
);

-- Failed logins, counted in SQL so that the throttle is one for all nodes. The key says what is counted: a name tried from a
-- network, a network, or a name (hashed). Unknown names are counted too, else the throttle would tell which names exist.
drop table login_attempts;
create table login_attempts (
  key text primary key check (length(key) <= 80),
  failures float8 not null default 0,
  last_at timestamptz not null default now(),
  blocked_until timestamptz not null default 'epoch'
);
create index login_attempts_by_age on login_attempts (last_at);

-- Where users have logged in from: there the guesses of strangers do not keep them out.
create table login_networks (
  user_id text not null references users on delete cascade,
  network text not null,
  last_at timestamptz not null default now(),
  primary key (user_id, network)
);
create index login_networks_by_age on login_networks (last_at);

-- Who did what from where. Rows are never changed, and go only when they are old.
create table audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  -- Null: an operator at the command line, or somebody who is nobody (a refused login).
  user_id text,
  username text not null,
  action text not null,
  target text not null default '',
  address text not null default '',
  request_id text not null default '',
  detail jsonb not null default '{}'
);
create index audit_log_by_time on audit_log (at);
create index audit_log_by_user on audit_log (username, id);

create function audit_log_is_append_only() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    if old.at < now() - interval '90 days' then return old; end if;
  end if;
  raise exception 'the audit log is append-only' using errcode = 'insufficient_privilege';
end $$;
create trigger audit_log_append_only before update or delete on audit_log
  for each row execute function audit_log_is_append_only();
create trigger audit_log_no_truncate before truncate on audit_log
  for each statement execute function audit_log_is_append_only();
