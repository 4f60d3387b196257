-- The settings that hold no secret: whoever needs one of them need not be able to read the others, which hold sealed keys.
create view open_settings as
  select key, value, updated_at from settings
  where key in ('installation', 'ssh_address') or starts_with(key, 'registry_certificate:')
  with local check option;
