-- Static routes of the gateway (interface section 2.12).
create table static_routes (
  id serial primary key,
  host text not null,
  path_prefix text not null,
  target text not null,
  strip_prefix boolean not null default false,
  priority integer not null default 0,
  -- Installed and kept up to date by the platform itself.
  managed boolean not null default false,
  unique (host, path_prefix, priority)
);
