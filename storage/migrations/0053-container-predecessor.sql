-- Since when the container whose place this one took runs beside it, to end what it had begun. Null: there is none.
alter table containers add column predecessor_since timestamptz;
