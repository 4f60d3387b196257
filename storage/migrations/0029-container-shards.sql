-- A node reads the containers of its own shards, and what changed of them, instead of all. The shard of an entity is its hash modulo
-- the number of shards of the cluster (supervision/placement/shards.ts, which this repeats): the column is right whatever that number is.
create function entity_hash(kind text, id text) returns bigint language plpgsql immutable strict parallel safe as $$
declare
  words constant text := kind || '/' || id;
  hash bigint := 2166136261;
begin
  -- FNV-1a, of letters that are one UTF-16 code unit.
  for at in 1 .. length(words) loop
    hash := ((hash # ascii(substr(words, at, 1))) * 16777619) & 4294967295;
  end loop;
  -- The finaliser of MurmurHash3; the halves of the products, since the whole may be beyond 63 bits.
  hash := hash # (hash >> 16);
  hash := ((hash & 65535) * 2246822507 + ((((hash >> 16) * 2246822507) & 65535) << 16)) & 4294967295;
  hash := hash # (hash >> 13);
  hash := ((hash & 65535) * 3266489909 + ((((hash >> 16) * 3266489909) & 65535) << 16)) & 4294967295;
  return hash # (hash >> 16);
end $$;

create function note_change() returns trigger language plpgsql as $$
begin
  new.changed := pg_current_xact_id();
  return new;
end $$;

alter table containers
  add column shard_hash bigint not null generated always as (entity_hash('compute/container', id)) stored,
  -- The transaction of the last change, as in placement_shards. Set by a trigger, since versions before do not know it.
  add column changed xid8 not null default pg_current_xact_id();
create trigger containers_changed before update on containers for each row execute function note_change();
create index containers_by_part on containers ((shard_hash % 4096));
create index containers_by_change on containers (changed);
