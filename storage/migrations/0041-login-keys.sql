-- Keys that also open their owner's account by SSH.
alter table ssh_keys add column login boolean not null default false;

-- A login asks whose a key is.
create index ssh_keys_by_fingerprint on ssh_keys (fingerprint);

-- What a gateway knows of keys and their owners; of those who may not log in, nothing.
create view account_keys as
  select k.user_id, k.fingerprint, k.name, k.login, u.username, u.sessions_epoch
  from ssh_keys k join users u on u.id = k.user_id
  where u.disabled_at is null;
