-- When the time of a container is over: it is stopped then, and deleted a day later. Null: never.
alter table containers add column expires_at timestamptz;
