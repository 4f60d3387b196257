import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  dispatch,
  type Entities,
  type EntityKind,
  entities,
  type Ref,
  type SystemRef,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { gate, rejectsWith, timersDue, until, withSystem } from '../support/supervision/system.ts';

interface Account {
  balance: number;
}

type AccountMessage =
  | { readonly type: 'add'; readonly amount: number }
  | { readonly type: 'get'; readonly replyTo: Ref<number> }
  | { readonly type: 'crash'; readonly replyTo?: Ref<number> }
  | { readonly type: 'sleep' }
  | { readonly type: 'awake'; readonly on: boolean };

/** Accounts kept in a map that stands in for storage: what an entity adds is saved at once. */
class Bank {
  readonly rows = new Map<string, number>();
  /** What happened: `+id` activated, `-id` asleep. */
  readonly log: string[] = [];
  /** Awaited by each activation. */
  activation: () => Promise<void> = () => Promise.resolve();
  /** Awaited by each onSleep. */
  sleeping: () => Promise<void> = () => Promise.resolve();

  open(system: SystemRef, more: Partial<EntityKind<AccountMessage, Account>> = {}): Entities<AccountMessage> {
    return entities<AccountMessage, Account>(system, {
      kind: 'bank/account',
      sleepAfterMs: 60_000,
      backoff: { minMs: 1, maxMs: 2 },
      activate: async (id) => {
        await this.activation();
        const balance = this.rows.get(id);
        if (balance === undefined) return undefined;
        assert.equal(this.awakeOf(id), 0, `two activations of ${id}`);
        this.log.push(`+${id}`);
        return { balance };
      },
      handle: (state, msg, ctx) => {
        switch (msg.type) {
          case 'add':
            state.balance += msg.amount;
            this.rows.set(ctx.id, state.balance);
            return state;
          case 'get':
            dispatch(msg.replyTo, state.balance);
            return state;
          case 'crash':
            this.log.push(`!${ctx.id}`);
            state.balance = Number.NaN;
            throw new Error('crash');
          case 'sleep':
            ctx.sleep();
            return state;
          case 'awake':
            ctx.keepAwake(msg.on);
            return state;
        }
      },
      onSleep: async (_state, ctx) => {
        await this.sleeping();
        this.log.push(`-${ctx.id}`);
      },
      ...more,
    });
  }

  /** Activations of `id` that have neither slept nor crashed. */
  private awakeOf(id: string): number {
    let n = 0;
    for (const event of this.log) if (event.slice(1) === id) n += event.startsWith('+') ? 1 : -1;
    return n;
  }
}

const get = (replyTo: Ref<number>): AccountMessage => ({ type: 'get', replyTo });
const crash = (replyTo: Ref<number>): AccountMessage => ({ type: 'crash', replyTo });

test('a stampede activates an entity once, and messages wait in order', () =>
  withSystem(async (system) => {
    const bank = new Bank();
    bank.rows.set('a', 0);
    const ready = gate();
    bank.activation = () => ready.opened;
    const accounts = bank.open(system);
    const seen = Array.from({ length: 100 }, () => {
      accounts.tell('a', { type: 'add', amount: 1 });
      return accounts.ask('a', get, 1000);
    });
    assert.equal(accounts.awake(), 1);
    ready.open();
    assert.deepEqual(
      await Promise.all(seen),
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
    assert.deepEqual(bank.log, ['+a']);
    assert.deepEqual(accounts.ids(), ['a']);
  }));

test('an entity that storage does not know fails its asks, loses its tells, and leaves nothing', () =>
  withSystem(async (system, { letters }) => {
    const accounts = new Bank().open(system);
    const asks = [accounts.ask('nobody', get, 1000), accounts.ask('nobody', get, 1000)];
    accounts.tell('nobody', { type: 'sleep' });
    for (const ask of asks) await rejectsWith(ask, 'not_found');
    assert.deepEqual(letters, [
      { to: 'test://bank-account/nobody', kind: 'bank/account', reason: 'not_found', message: { type: 'sleep' } },
    ]);
    assert.equal(accounts.awake(), 0);
    assert.equal(stats(system).kinds['bank/account']?.alive, 0);
  }));

test('a failed activation fails what waits, with the cause, and does not poison the id', () =>
  withSystem(async (system, { letters }) => {
    const bank = new Bank();
    bank.rows.set('a', 5);
    bank.activation = () => Promise.reject(new Error('database down'));
    const accounts = bank.open(system);
    const ask = accounts.ask('a', get, 1000);
    accounts.tell('a', { type: 'sleep' });
    const error = await rejectsWith(ask, 'crashed');
    assert.ok(error.cause instanceof Error && error.cause.message === 'database down');
    assert.deepEqual(
      letters.map(({ reason }) => reason),
      ['crashed'],
    );
    assert.equal(accounts.awake(), 0);
    bank.activation = () => Promise.resolve();
    assert.equal(await accounts.ask('a', get, 1000), 5);
  }));

test('an activation that answers or throws at once is as good as one that takes its time', () =>
  withSystem(async (system) => {
    const accounts = entities<AccountMessage, Account>(system, {
      kind: 'sync',
      sleepAfterMs: 1000,
      activate: (id) => {
        if (id === 'bad') throw new Error('bad');
        return id === 'a' ? { balance: 9 } : undefined;
      },
      handle: (state, msg) => {
        if (msg.type === 'get') dispatch(msg.replyTo, state.balance);
        return state;
      },
    });
    assert.equal(await accounts.ask('a', get, 1000), 9);
    await assert.rejects(accounts.ask('none', get, 1000), { code: 'not_found' });
    await assert.rejects(accounts.ask('bad', get, 1000), { code: 'crashed' });
    assert.deepEqual(accounts.ids(), ['a']);
  }));

test('a crash tells its asker, and the entity comes back from storage with what waited', () =>
  withSystem(async (system) => {
    const bank = new Bank();
    bank.rows.set('a', 1);
    const accounts = bank.open(system);
    accounts.tell('a', { type: 'add', amount: 1 });
    const crashed = accounts.ask('a', crash, 1000);
    const after = accounts.ask('a', get, 1000);
    await rejectsWith(crashed, 'crashed');
    assert.equal(await after, 2);
    assert.deepEqual(bank.log, ['+a', '!a', '+a']);
    assert.equal(stats(system).kinds['bank/account']?.restarts, 1);
  }));

test('past its intensity an entity refuses for a while, then wakes again; others do not notice', () =>
  withSystem(async (system, { letters }) => {
    const bank = new Bank();
    bank.rows.set('a', 1).set('b', 2);
    const accounts = bank.open(system, { intensity: { max: 2, withinMs: 60_000 }, coolDownMs: 30 });
    const asks = Array.from({ length: 5 }, () => accounts.ask('a', crash, 1000));
    for (const ask of asks) await rejectsWith(ask, 'crashed');
    assert.equal(accounts.awake(), 0);
    const refused = await rejectsWith(accounts.ask('a', get, 1000), 'crashed');
    assert.match(refused.message, /cools down/);
    accounts.tell('a', { type: 'sleep' });
    assert.deepEqual(letters.at(-1)?.reason, 'crashed');
    assert.equal(await accounts.ask('b', get, 1000), 2);
    await timersDue(system, 30);
    assert.equal(await accounts.ask('a', get, 1000), 1);
  }));

test('an idle entity falls asleep, is told so, and its next message wakes it from storage', () =>
  withSystem(async (system) => {
    const bank = new Bank();
    bank.rows.set('a', 1);
    const accounts = bank.open(system, { sleepAfterMs: 5 });
    accounts.tell('a', { type: 'add', amount: 1 });
    await until(() => bank.log.length === 2, 'asleep');
    assert.equal(accounts.awake(), 0);
    assert.equal(await accounts.ask('a', get, 1000), 2);
    assert.deepEqual(bank.log.slice(0, 3), ['+a', '-a', '+a']);
  }));

test('sleep waits until the mailbox is empty', () =>
  withSystem(async (system) => {
    const bank = new Bank();
    bank.rows.set('a', 1);
    const accounts = bank.open(system);
    accounts.tell('a', { type: 'sleep' });
    accounts.tell('a', { type: 'add', amount: 1 });
    assert.equal(await accounts.ask('a', get, 1000), 2);
    await until(() => bank.log.length === 2, 'asleep');
    assert.deepEqual(bank.log, ['+a', '-a']);
  }));

test('messages that arrive while an entity falls asleep wake a new activation after the old one ended; none is lost', () =>
  withSystem(async (system, { letters }) => {
    const bank = new Bank();
    bank.rows.set('a', 0);
    const asleep = gate();
    const begun = gate();
    bank.sleeping = () => {
      begun.open();
      return asleep.opened;
    };
    const accounts = bank.open(system);
    accounts.tell('a', { type: 'sleep' });
    await begun.opened;
    const asks = [1, 2, 3].map((amount) => {
      accounts.tell('a', { type: 'add', amount });
      return accounts.ask('a', get, 1000);
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(bank.log, ['+a'], 'the old one has not ended');
    assert.equal(accounts.awake(), 1);
    asleep.open();
    assert.deepEqual(await Promise.all(asks), [1, 3, 6]);
    assert.deepEqual(bank.log, ['+a', '-a', '+a']);
    assert.deepEqual(letters, []);
  }));

test('under random sleeping and telling nothing is lost and no id is awake twice', () =>
  withSystem(async (system, { letters }) => {
    const bank = new Bank();
    const ids = ['a', 'b', 'c'];
    for (const id of ids) bank.rows.set(id, 0);
    const later = () => new Promise<void>((resolve) => setImmediate(resolve));
    bank.activation = later;
    bank.sleeping = later;
    const accounts = bank.open(system);
    let seed = 7;
    const random = (n: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % n;
    };
    const sent = new Map(ids.map((id) => [id, 0]));
    for (let i = 0; i < 3000; i++) {
      const id = ids[random(3)] ?? 'a';
      if (random(4) === 0) accounts.tell(id, { type: 'sleep' });
      else {
        accounts.tell(id, { type: 'add', amount: 1 });
        sent.set(id, (sent.get(id) ?? 0) + 1);
      }
      if (random(5) === 0) await later();
    }
    for (const id of ids) assert.equal(await accounts.ask(id, get, 1000), sent.get(id));
    assert.deepEqual(letters, []);
    assert.ok(bank.log.length > 50, 'it did sleep and wake');
  }));

test('keepAwake holds off the idle sleep, until it is taken back', () =>
  withSystem(async (system) => {
    const bank = new Bank();
    bank.rows.set('a', 1).set('b', 1);
    const accounts = bank.open(system, { sleepAfterMs: 5 });
    accounts.tell('a', { type: 'awake', on: true });
    accounts.tell('b', { type: 'add', amount: 1 });
    await until(() => bank.log.includes('-b'), 'the other is asleep');
    await timersDue(system, 15);
    assert.deepEqual(accounts.ids(), ['a']);
    accounts.tell('a', { type: 'awake', on: false });
    await until(() => bank.log.includes('-a'), 'asleep after all');
  }));

test('release ends the entities it names after their message, and only those', () =>
  withSystem(async (system) => {
    const bank = new Bank();
    bank.rows.set('a', 1).set('b', 2);
    const accounts = bank.open(system);
    await Promise.all([accounts.ask('a', get, 1000), accounts.ask('b', get, 1000)]);
    await accounts.release((id) => id === 'a');
    assert.deepEqual(bank.log, ['+a', '+b', '-a']);
    assert.deepEqual(accounts.ids(), ['b']);
  }));

test('the mailbox of an entity is bounded', () =>
  withSystem(async (system) => {
    const bank = new Bank();
    bank.rows.set('a', 1);
    const ready = gate();
    bank.activation = () => ready.opened;
    const accounts = bank.open(system, { mailbox: { capacity: 2 } });
    accounts.tell('a', { type: 'add', amount: 1 });
    accounts.tell('a', { type: 'add', amount: 1 });
    await rejectsWith(accounts.ask('a', get, 1000), 'overloaded');
    ready.open();
    assert.equal(stats(system).kinds['bank/account']?.dropped, 1);
  }));

test('its own onCrash decides', () =>
  withSystem(async (system) => {
    const bank = new Bank();
    bank.rows.set('a', 1);
    const accounts = bank.open(system, { onCrash: (_msg, _error, ctx) => ctx.stop });
    await rejectsWith(accounts.ask('a', crash, 1000), 'crashed');
    await until(() => accounts.awake() === 0, 'it stopped');
    assert.equal(await accounts.ask('a', get, 1000), 1);
    assert.deepEqual(bank.log, ['+a', '!a', '+a']);
  }));

test('stopping the actor above puts all to sleep, and then nothing wakes', () =>
  withSystem(async (system, { letters }) => {
    const bank = new Bank();
    bank.rows.set('a', 1);
    const accounts = bank.open(system);
    await accounts.ask('a', get, 1000);
    stop(accounts.ref);
    await stopped(accounts.ref);
    assert.deepEqual(bank.log, ['+a', '-a']);
    await rejectsWith(accounts.ask('a', get, 1000), 'stopped');
    accounts.tell('a', { type: 'sleep' });
    assert.equal(letters.at(-1)?.reason, 'stopped');
  }));

test('what a crashed handler left in memory is not handed to onSleep, when the crash meets a release', () =>
  withSystem(async (system) => {
    const rows: number[] = [];
    const held = gate();
    const seen = gate();
    const accounts = entities<'now' | 'later', Account>(system, {
      kind: 'broken',
      sleepAfterMs: 60_000,
      backoff: { minMs: 600_000, maxMs: 600_000 },
      activate: () => ({ balance: 1 }),
      handle: async (state, msg) => {
        state.balance = -1;
        if (msg === 'later') {
          seen.open();
          await held.opened;
        }
        throw new Error('x');
      },
      onSleep: ({ balance }) => {
        rows.push(balance);
      },
    });
    accounts.tell('in the pause', 'now');
    await until(() => stats(system).kinds.broken?.restarts === 1, 'the pause before it wakes again');
    accounts.tell('in the handler', 'later');
    await seen.opened;
    const released = accounts.release(() => true);
    held.open();
    await released;
    assert.equal(accounts.awake(), 0);
    assert.deepEqual(rows, []);
  }));
