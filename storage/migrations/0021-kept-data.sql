-- The mount paths that hold data by now; what runs has filled its own. How often they were changed, and when last.
alter table containers
  add column data_paths text[] not null default '{}',
  add column mount_changes integer not null default 0,
  add column mounts_set_at timestamptz;
update containers set data_paths = mount_paths where status = 'running';
