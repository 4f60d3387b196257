-- Claims of a hostname stand side by side until one is proven: it is unique among verified mappings, and once for each user.
alter table domain_mappings
  drop constraint domain_mappings_domain_key,
  drop constraint domain_mappings_due,
  add constraint domain_mappings_one_claim unique (domain, user_id),
  -- Verified ones are looked at again, to see whether the name still is their user's.
  add constraint domain_mappings_due check (case status when 'pending' then next_check_at is not null when 'failed' then next_check_at is null else true end),
  -- Since when a verified one has lacked its proof.
  add column unproven_since timestamptz;
create unique index domain_mappings_verified on domain_mappings (domain) where status = 'verified';
update domain_mappings set next_check_at = now() + random() * interval '7 days' where status = 'verified' and record is null;
