-- A key opens its owner's account until their sessions are ended: a mark counts in the epoch in which it was made. Marks
-- of the version before, made while both run, have none and do not count.
alter table ssh_keys add column login_epoch int;

update ssh_keys k set login_epoch = u.sessions_epoch from users u where u.id = k.user_id and k.login;

create or replace view account_keys as
  select k.user_id, k.fingerprint, k.name, coalesce(k.login and k.login_epoch = u.sessions_epoch, false) as login,
    u.username, u.sessions_epoch
  from ssh_keys k join users u on u.id = k.user_id
  where u.disabled_at is null;

-- Whether the login of whoever approved was a recent one: else the session of the program proves no more than theirs.
alter table device_logins add column is_proven boolean;
