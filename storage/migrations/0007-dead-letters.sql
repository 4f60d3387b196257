-- Dead letters of any bus: their streams may live in a broker, whose message numbers begin anew when it lost its store.
alter table bus_dead_letters
  drop constraint bus_dead_letters_stream_fkey,
  add column msg_id text,
  -- When the stream took the message.
  add column stored_at timestamptz,
  add column replays integer not null default 0,
  add column replayed_at timestamptz;
update bus_dead_letters set stored_at = at;
alter table bus_dead_letters alter column stored_at set not null;
create unique index bus_dead_letters_message on bus_dead_letters (stream, durable, seq, stored_at);

-- The publisher's id, for as long as the message lives.
alter table bus_messages add column msg_id text;
