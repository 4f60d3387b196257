-- Storing a batch of notifications is one call: each answer that the service would have to wait for in between is time in which nobody else
-- can have the turn. Statements of such a function see what was committed before each of them began, so what comes after the update sees all
-- that was stored before the turn came. The arrays are columns of the batch, in its order; gives the places, from one, and the ids of what was
-- stored, its time, and the highest ids that the users of `head_users` had before.
create function store_notifications(
  user_ids text[], event_ids text[], titles text[], messages text[], links text[], categories text[], scopes text[],
  head_users text[], may_be_known boolean,
  out stored_at timestamptz, out stored_places int[], out stored_ids bigint[], out heads bigint[]
) language plpgsql
-- The lookups are by user. While statistics say that a table is small, the planner may choose to read all of it for each of them; through
-- the index they cost about the same then, and stay cheap while it grows.
set enable_seqscan = off
as $$
begin
  update notification_turn set last_at = greatest(last_at, clock_timestamp()) returning last_at into stored_at;
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
