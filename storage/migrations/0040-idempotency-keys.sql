-- Answers that are kept for a day under keys of clients, so that a request that is sent again makes nothing twice.
create table idempotency_keys (
  id bigint generated always as identity primary key,
  user_id text not null references users (id) on delete cascade,
  endpoint text not null,
  key_hash bytea not null,
  -- What the answer is sealed with and the request's fingerprint is keyed with, itself sealed; and under which secret.
  key_id text not null,
  sealed_key bytea not null,
  fingerprint bytea not null,
  -- Whose turn it is. Whoever takes a request over from a process that died writes another one.
  claim text not null,
  -- Null when the request is over.
  running_until timestamptz,
  -- Written in the transaction of what the request makes.
  answer bytea,
  created_at timestamptz not null default now(),
  unique (user_id, endpoint, key_hash)
);
create index idempotency_keys_by_user on idempotency_keys (user_id, created_at);
create index idempotency_keys_by_age on idempotency_keys (created_at);
