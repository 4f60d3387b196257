-- The DNS zone that holds the hostname, for the names that its user enters at the DNS provider; '' while it is not known.
alter table domain_mappings add column zone text not null default '';
