-- The last change of each container that ended on what ran before: why, and what the one that failed said last. Sealed.
alter table container_revisions add column failed_change bytea;
