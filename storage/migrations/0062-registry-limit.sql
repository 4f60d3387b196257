-- How many MiB the images of a user may hold in the platform's own registry; null: as many as REGISTRY_USER_MB says.
alter table users add column registry_limit_mb integer;
alter table users add constraint users_registry_limit_mb_check check (registry_limit_mb >= 0);
