-- When a container was last started, how its last run ended, and how often the platform started it again since its user
-- did: its user reads them. Null: not known yet.
alter table containers add column started_at timestamptz;
alter table containers add column ended_at timestamptz;
alter table containers add column exit_code int;
alter table containers add column restarts int not null default 0;
