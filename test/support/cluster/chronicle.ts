/** What storage saw of a trial: triggers in the test's database write down who wrote what, and who owned the entity then. */
import { z } from 'zod';
import type { Db } from '../../../storage/db.ts';
import { shardOf } from '../../../supervision/placement/index.ts';
import type { Effect, Reign } from './history.ts';

/** Shards of a service on a new database. */
export const SHARDS = 1024;

// The owner is looked up when the transaction commits, and by whom the row was written is where its connection came from (behind a pooler:
// the name that the test gave its connection): nothing that the process under test says about itself counts.
const TRIGGERS = `
  create table trial_users (user_id text primary key, shard int not null);
  create table trial_nodes (id text primary key, address text not null);
  create table trial_effects (seq bigserial primary key, user_id text not null, value text not null, writer text, owner text);
  create table trial_reigns (seq bigserial primary key, shard int not null, epoch bigint not null, owner text);

  create function trial_node() returns trigger language plpgsql as $$
  begin
    insert into trial_nodes values (new.id, host(inet_client_addr())) on conflict do nothing;
    return null;
  end $$;
  create trigger trial_node after insert on placement_nodes for each row execute function trial_node();

  create function trial_effect() returns trigger language plpgsql as $$
  begin
    insert into trial_effects (user_id, value, writer, owner)
      select new.id, new.display_name,
        coalesce(substring(current_setting('application_name') from '^at (.+)$'), host(inet_client_addr())), n.address
      from trial_users u left join placement_shards s on s.service = 'auth' and s.shard = u.shard
        left join trial_nodes n on n.id = s.owner
      where u.user_id = new.id;
    return null;
  end $$;
  create constraint trigger trial_effect after update of display_name on users
    deferrable initially deferred for each row execute function trial_effect();

  create function trial_reign() returns trigger language plpgsql as $$
  begin
    insert into trial_reigns (shard, epoch, owner) values (new.shard, new.epoch, new.owner);
    return null;
  end $$;
  create trigger trial_reign after insert or update on placement_shards for each row
    when (new.service = 'auth') execute function trial_reign();`;

const effectRow = z
  .object({ entity: z.string(), value: z.string(), writer: z.string(), owner: z.string().nullable() })
  .transform((row) => ({ ...row, owner: row.owner ?? undefined }));
const reignRow = z
  .object({ shard: z.int(), epoch: z.int(), owner: z.string().nullable() })
  .transform((row) => ({ ...row, owner: row.owner ?? undefined }));
const nameRow = z.object({ id: z.string(), display_name: z.string() });

/** The database's own account of a trial. */
export interface Chronicle {
  /** Begins to look at a user. Returns its shard. */
  follow(userId: string): Promise<number>;
  effects(): Promise<Effect[]>;
  reigns(): Promise<Reign[]>;
  /** Display names by user id. */
  names(): Promise<Map<string, string>>;
}

/** Installs the triggers, before any node joins. */
export async function startChronicle(db: Db): Promise<Chronicle> {
  await db.script(TRIGGERS);
  return {
    async follow(userId) {
      const shard = shardOf('auth/user', userId, SHARDS);
      await db.run('insert into trial_users values ($1, $2)', [userId, shard]);
      return shard;
    },
    effects: () => db.many(effectRow, 'select user_id as entity, value, writer, owner from trial_effects order by seq'),
    reigns: () => db.many(reignRow, 'select shard, epoch::int as epoch, owner from trial_reigns order by seq'),
    async names() {
      const rows = await db.many(
        nameRow,
        'select id, display_name from users join trial_users on user_id = id order by id',
      );
      return new Map(rows.map(({ id, display_name }) => [id, display_name]));
    },
  };
}
