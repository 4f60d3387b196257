-- Machines' file systems that are nearly full and of which the administrator was told (the monitor's alerts). One row an episode.
create table disk_alerts (
  node text not null,
  path text not null,
  opened_at timestamptz not null default now(),
  primary key (node, path)
);
