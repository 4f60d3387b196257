-- What is known of the health of a container whose settings have a check; null: they have none. Since when that is
-- looked for, and what was seen last.
alter table containers
  add column health_state text,
  add column health_since timestamptz,
  add column health_reason text,
  add constraint containers_health_state_check check (health_state in ('starting', 'healthy', 'unhealthy')),
-- The way back while a change is not proven: the image before it ('': the platform's own), and the settings before it,
-- sealed as those of container_settings (null: there were none). And why the last change was given up.
  add column former_image text,
  add column former_settings bytea,
  add column given_up text;
