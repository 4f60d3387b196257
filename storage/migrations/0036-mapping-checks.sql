-- When a mapping was looked at last, for its user.
alter table domain_mappings add column checked_at timestamptz;
