-- A turn for each of 256 parts of the users instead of one for all: whoever adds notifications holds the rows of its users' parts until commit.
-- So the ids of one user still become visible in their order, and their times never go back, while others need not wait. A call of the
-- function before, which began earlier, holds all rows.
alter table notification_turn drop column only_row, add column part int not null default 0;
alter table notification_turn alter column part drop default, add primary key (part), set (fillfactor = 20);
insert into notification_turn (part, last_at) select number, last_at from notification_turn, generate_series(1, 255) as number;

-- As in 0017, but for the turns.
create or replace function store_notifications(
  user_ids text[], event_ids text[], titles text[], messages text[], links text[], categories text[], scopes text[],
  head_users text[], may_be_known boolean,
  out stored_at timestamptz, out stored_places int[], out stored_ids bigint[], out heads bigint[]
) language plpgsql
set enable_seqscan = off
as $$
declare
  -- The lowest bit is that by which the intake divides users among its two batches: they have no part in common.
  parts constant int[] := array(select distinct ((hashtextextended(user_id, 0) & 127) * 2 + (ascii(right(user_id, 1)) & 1))::int
    from unnest(user_ids) as batch (user_id));
begin
  -- In one order for all, so that no two wait for each other.
  perform from notification_turn where part = any(parts) order by part for no key update;
  select greatest(max(last_at), clock_timestamp()) into stored_at from notification_turn where part = any(parts);
  update notification_turn set last_at = stored_at where part = any(parts);
  -- Subqueries in brackets are looked up row by row, whatever the planner thinks of the tables.
  with new as materialized (
    select nextval('notifications_id_seq') as id, batch.*
    from unnest(user_ids, event_ids, titles, messages, links, categories, scopes)
      with ordinality as batch (user_id, event_id, title, message, link, category, scope, place)
    where (select true from users where users.id = batch.user_id)
      and (select true from notification_mutes as mute where mute.user_id = batch.user_id
        and mute.category = batch.category and mute.scope in ('', batch.scope) limit 1) is null
      and case when may_be_known then
        (select true from notifications as old where old.user_id = batch.user_id and old.event_id = batch.event_id) end is null
    order by place
  ), stored as (
    insert into notifications (id, user_id, event_id, title, message, link, category, scope, created_at)
    overriding system value
    select id, user_id, event_id, title, message, link, category, scope, stored_at from new
  )
  select coalesce(array_agg(place), '{}'), coalesce(array_agg(id), '{}'),
    array(select coalesce((select max(old.id) from notifications as old where old.user_id = wanted.user_id), 0)
      from unnest(head_users) with ordinality as wanted (user_id, place) order by wanted.place)
  into stored_places, stored_ids, heads from new;
end $$;
