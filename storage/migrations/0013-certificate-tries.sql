-- When the last try for a certificate ended: whoever says that DNS is right now need not wait for the next, but authorities count tries.
alter table certificates add column tried_at timestamptz;
