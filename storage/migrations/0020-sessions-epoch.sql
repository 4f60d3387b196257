-- A session says under which epoch of its user it began; a new password begins the next one. One session outlives that: the one that asked for it.
alter table users
  add column sessions_epoch int not null default 0,
  add column kept_session text;
