-- The image that a running container gets once it is pulled ('': the platform's own), and the settings that come with
-- it, sealed as those of container_settings.
alter table containers
  add column next_image text,
  add column next_settings bytea;
