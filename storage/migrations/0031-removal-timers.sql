-- Users are forgotten by a timer of their own (actors/auth/users/user.ts) instead of a look for all of them each second.
insert into entity_timers (kind, id, name, service, key, at, due, message)
select 'auth/user', id, 'forget', 'auth', gen_random_uuid(), now(), now(), '0' from users where leaving = 'remove';
