-- A container that holds more than its share of the disk is an episode of its own.
alter table container_alerts drop constraint container_alerts_kind_check;
alter table container_alerts add constraint container_alerts_kind_check
  check (kind in ('crash_loop', 'out_of_memory', 'disk_nearly_full', 'disk_full'));
