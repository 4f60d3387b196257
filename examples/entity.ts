import pg from 'pg';
import { ActorError, dispatch, type EntityKind, entities, type Ref, start, stop, stopped } from 'troupe/actors';

type AccountMessage =
  | { readonly type: 'deposit'; readonly amount: number; readonly replyTo: Ref<number> }
  | { readonly type: 'balance'; readonly replyTo: Ref<number> };

interface Account {
  readonly balance: number;
}

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 4 });
await db.query('create table account (id text primary key, balance int not null check (balance >= 0))');
await db.query("insert into account values ('ann', 10)");

let reads = 0;

const account: EntityKind<AccountMessage, Account> = {
  kind: 'account',
  sleepAfterMs: 60_000,
  // The first message for an id reads its row. Undefined: there is no such account.
  async activate(id) {
    reads += 1;
    const { rows } = await db.query<Account>('select balance from account where id = $1', [id]);
    return rows[0];
  },
  // The row is written before the answer. If the database refuses, the handler throws, and the state is read anew.
  async handle(state, message, ctx) {
    if (message.type === 'balance') {
      dispatch(message.replyTo, state.balance);
      return state;
    }
    const balance = state.balance + message.amount;
    await db.query('update account set balance = $2 where id = $1', [ctx.id, balance]);
    dispatch(message.replyTo, balance);
    return { balance };
  },
};

const system = start({ name: 'example' });
const accounts = entities(system, account);

const deposit = (id: string, amount: number) =>
  accounts.ask(id, (replyTo: Ref<number>) => ({ type: 'deposit', amount, replyTo }), 5000);
const balance = (id: string) => accounts.ask(id, (replyTo: Ref<number>) => ({ type: 'balance', replyTo }), 5000);
const codeOf = (error: unknown) => (error instanceof ActorError ? error.code : error);

// Ten at once: one row is read, and one is handled after the other.
await Promise.all(Array.from({ length: 10 }, () => deposit('ann', 1)));
console.log(`ann has ${await balance('ann')}, from ${reads} read`);

await deposit('ann', -1000).catch((error) => console.log(`too much: ${codeOf(error)}`));
console.log(`ann has ${await balance('ann')}, from ${reads} reads`);

await balance('bob').catch((error) => console.log(`bob: ${codeOf(error)}`));

await accounts.release(() => true); // As if all were idle.
console.log(`${accounts.awake()} accounts are awake`);

stop(system);
await stopped(system);
await db.end();
