-- What processes tell each other at a commit, where a message broker carries it: a message may be lost, a row is not. Each process reads
-- the rows of transactions that ended since its last look.
create table news (
  -- The transaction that told it, as in containers.
  changed xid8 not null default pg_current_xact_id(),
  at timestamptz not null default now(),
  id text not null,
  channel text not null,
  -- As PostgreSQL bounds what NOTIFY carries.
  payload text not null check (octet_length(payload) < 8000)
);
create index news_by_change on news (channel, changed);
