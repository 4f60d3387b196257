-- Owned domains and domain mappings (interface sections 2.6, 2.7 and 3.1).
create table owned_domains (
  id text primary key check (id ~ '^[a-z][a-z0-9]{11}$'),
  user_id text not null,
  -- The DNS provider's API token, sealed under ENCRYPTION_KEY for this row.
  token bytea not null,
  -- When its zones were read last; null: never, as in what an older version left.
  zones_at timestamptz,
  created_at timestamptz not null default now()
);
create index owned_domains_by_user on owned_domains (user_id, created_at);

-- The zones that a token saw at the last snapshot. Names are as DNS has them: lower case, without the last dot.
create table owned_zones (
  owned_domain_id text not null references owned_domains on delete cascade,
  -- The provider's id of the zone.
  zone_id text not null,
  name text not null,
  primary key (owned_domain_id, zone_id)
);
create index owned_zones_by_name on owned_zones (name);

create table domain_mappings (
  id text primary key check (id ~ '^[a-z][a-z0-9]{11}$'),
  user_id text not null,
  domain text not null check (domain = lower(domain) and length(domain) between 3 and 253),
  container_id text not null,
  target_port int not null check (target_port in (80, 443) or target_port between 8000 and 8999),
  status text not null check (status in ('pending', 'verified', 'failed')),
  -- What the TXT record must hold.
  verify_token text not null,
  -- For the user: what was looked up, where, and what was found; empty when there is nothing to say.
  detail text not null default '',
  -- The same of its certificate.
  certificate_detail text not null default '',
  -- When it last turned pending: it expires from there.
  pending_since timestamptz not null,
  verified_at timestamptz,
  -- Checks since it turned pending, and when the next is due; null when nothing is to be checked.
  checks int not null default 0,
  next_check_at timestamptz,
  -- The record at the DNS provider: `wanted` until it is made, `made` when we made it, `found` when the user had made it.
  record text check (record in ('wanted', 'made', 'found')),
  owned_domain_id text references owned_domains on delete set null,
  zone_id text,
  record_id text,
  created_at timestamptz not null default now(),
  constraint domain_mappings_domain_key unique (domain),
  constraint domain_mappings_due check ((status = 'pending') = (next_check_at is not null)),
  constraint domain_mappings_verified check ((status = 'verified') = (verified_at is not null))
);
create index domain_mappings_by_user on domain_mappings (user_id, created_at);
create index domain_mappings_by_container on domain_mappings (container_id);
create index domain_mappings_by_check on domain_mappings (next_check_at) where next_check_at is not null;
