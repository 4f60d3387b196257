-- Certificates of mapped hostnames (docs/certificates.md). What is served stays until the next stands. An order belongs to whoever holds
-- the lease with the present epoch; its address and key outlive its holder, so that another takes it up.
create table certificates (
  hostname text primary key,
  chain text,
  -- Sealed, bound to hostname and serial.
  key_sealed bytea,
  serial bigint not null default 0,
  not_before timestamptz,
  not_after timestamptz,
  renew_at timestamptz,
  epoch bigint not null default 0,
  lease_until timestamptz,
  order_url text,
  order_key_sealed bytea,
  attempts integer not null default 0,
  next_try timestamptz,
  last_code text,
  last_problem text,
  last_error text,
  constraint certificates_whole check ((chain is null) = (key_sealed is null) and (chain is null) = (not_after is null))
);
create index certificates_not_after on certificates (not_after);

-- What answers a pending challenge, at whatever gateway the authority asks.
create table acme_challenges (
  hostname text primary key,
  cert text not null,
  key_sealed bytea not null,
  created_at timestamptz not null default now()
);

-- The account at an authority, and how many orders it may still place (a bucket that fills with time).
create table acme_accounts (
  directory_url text primary key,
  key_sealed bytea not null,
  url text,
  budget double precision not null,
  budget_at timestamptz not null default now(),
  hold_until timestamptz,
  hold_reason text,
  created_at timestamptz not null default now()
);
