/** What code for nact relies on besides the verbs (conformance.test.ts): each test runs on nact and on troupe/nact. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import * as ours from '../../supervision/nact/index.ts';
import { pause } from '../support/pause.ts';
import { until } from '../support/until.ts';

type Nact = Omit<typeof ours, 'LogLevel'>;

const load = createRequire(import.meta.url);
// nact's index forgets one of the names that it documents.
const { configureLogging } = load('nact/lib/monitoring');
const theirs: Nact = { ...load('nact'), configureLogging };

/** Registers a test for both. */
function check(name: string, run: (nact: Nact) => Promise<void>): void {
  test(`nact: ${name}`, () => run(theirs));
  test(`troupe/nact: ${name}`, () => run(ours));
}

/** A store of events as an application would write it for a test: arrays by key. */
class MemoryEngine {
  readonly kept: ours.PersistedEvent[] = [];
  readonly snapshots: ours.PersistedSnapshot[] = [];

  events(key: string, offset: number): ours.PersistedEvent[] {
    return this.kept.filter((event) => event.key === key && event.sequenceNumber > offset);
  }

  async latestSnapshot(key: string): Promise<ours.PersistedSnapshot | undefined> {
    return this.snapshots.filter((snapshot) => snapshot.key === key).at(-1);
  }

  async takeSnapshot(snapshot: ours.PersistedSnapshot): Promise<void> {
    this.snapshots.push(snapshot);
  }

  async persist(event: ours.PersistedEvent): Promise<void> {
    this.kept.push(event);
  }
}

check('the sender is found on the context: an actor, whoever asked, or nobody', async (nact) => {
  const { dispatch, query, spawn, spawnStateless, start, stop } = nact;
  const system = start();
  const senders: string[] = [];
  const echo = spawnStateless(
    system,
    (message: string, ctx) => {
      senders.push(String(Reflect.get(ctx.sender, 'name') ?? ctx.sender.constructor.name));
      dispatch(ctx.sender, `${message} back`, ctx.self);
    },
    'echo',
  );
  const heard: string[] = [];
  const asker = spawn(
    system,
    (state: string[], message: string, ctx) => {
      if (message === 'go') dispatch(echo, 'hello', ctx.self);
      else heard.push(`${message} from ${Reflect.get(ctx.sender, 'name')}`);
      return state;
    },
    'asker',
  );
  dispatch(asker, 'go');
  await until(() => heard.length === 1);
  dispatch(echo, 'to nobody');
  assert.equal(await query<string, string>(echo, 'a value', 1000), 'a value back');
  assert.deepEqual(heard, ['hello back from echo']);
  assert.deepEqual(senders, ['asker', 'Nobody', 'TemporaryReference']);
  stop(system);
});

check('this is the context, which can be spread', async (nact) => {
  const { dispatch, query, spawn, start, stop } = nact;
  const system = start();
  const actor = spawn(
    system,
    function (state: number, message: { readonly asker: ours.Ref<unknown> }, ctx) {
      const { asker } = message;
      const copy = { ...ctx };
      assert.equal(this, ctx);
      spawn(copy.self, (none: null) => none, 'child');
      dispatch(asker, { keys: Object.keys(copy).sort(), name: copy.name, parent: copy.parent === system });
      return state;
    },
    'named',
    { initialState: 1 },
  );
  assert.deepEqual(await query(actor, (asker: ours.Ref<unknown>) => ({ asker }), 1000), {
    keys: ['children', 'log', 'name', 'parent', 'path', 'self', 'sender'],
    name: 'named',
    parent: true,
  });
  stop(system);
});

check('refs have a name, a path, a parent and a system', async (nact) => {
  const { spawn, start, stop } = nact;
  const system = start({ name: 'paths' });
  const parent = spawn(system, (none: null) => none, 'parent');
  const child = spawn(parent, (none: null) => none, 'child');
  const seen = ['name', 'type'].map((key) => Reflect.get(child, key));
  assert.deepEqual(seen, ['child', 'actor']);
  assert.equal(Reflect.get(child, 'parent'), parent);
  assert.deepEqual(child.system, { name: 'paths' });
  const path: unknown = Reflect.get(child, 'path');
  assert.equal(String(path), 'paths://parent/child');
  assert.deepEqual(Reflect.get(Object(path), 'parts'), ['parent', 'child']);
  assert.equal(Reflect.get(system, 'name'), 'paths');
  stop(system);
});

check('children are a map by name, a name is free again after stop, and a bad name is refused', async (nact) => {
  const { dispatch, query, spawn, start, stop } = nact;
  const system = start();
  const parent = spawn(
    system,
    (state: null, asker: ours.Ref<string[]>, ctx) => {
      dispatch(asker, [...ctx.children.keys()]);
      return state;
    },
    'parent',
    { initialState: null },
  );
  const names = () => query<ours.Ref<string[]>, string[]>(parent, (asker) => asker, 1000);
  const first = spawn(parent, (none: null) => none, 'one');
  spawn(parent, (none: null) => none, 'two');
  assert.deepEqual(await names(), ['one', 'two']);
  assert.throws(() => spawn(parent, (none: null) => none, 'one'), /one/);
  assert.throws(() => spawn(parent, (none: null) => none, 'a/b'));
  stop(first);
  spawn(parent, (none: null) => none, 'one');
  await until(async () => (await names()).length === 2);
  stop(system);
  assert.throws(() => spawn(system, (none: null) => none));
});

check('onCrash gets the message, the waiting ones with their senders, and the decisions', async (nact) => {
  const { dispatch, query, spawn, start, stop } = nact;
  const system = start();
  const crashes: unknown[] = [];
  const actor = spawn(
    system,
    (count: number, message: string, ctx) => {
      if (message === 'crash') throw new Error('broken');
      dispatch(ctx.sender, count);
      return count + 1;
    },
    'fragile',
    {
      initialStateFunc: ({ name }) => name.length,
      onCrash(message, error, ctx) {
        crashes.push([message, String(error), ctx.mailbox.map((waiting) => waiting.message), ctx.name]);
        return ctx.reset;
      },
    },
  );
  const ask = () => query<string, number>(actor, 'count', 1000);
  assert.equal(await ask(), 7);
  assert.equal(await ask(), 8);
  dispatch(actor, 'crash');
  const [third] = await Promise.all([ask()]);
  assert.equal(third, 7);
  assert.deepEqual(crashes, [['crash', 'Error: broken', ['count'], 'fragile']]);
  stop(system);
});

check('query needs a timeout, and rejects when it is over or the actor has stopped', async (nact) => {
  const { query, spawn, start, stop } = nact;
  const system = start();
  const silent = spawn(system, (none: null) => none);
  assert.throws(() => query(silent, {}, 0));
  await assert.rejects(query(silent, {}, 20));
  stop(silent);
  await until(() =>
    query(silent, {}, 20).then(
      () => false,
      () => true,
    ),
  );
  stop(system);
});

check('what an actor logs goes to the logging actor', async (nact) => {
  const { dispatch, spawnStateless, start, stop } = nact;
  const lines: string[] = [];
  const write = (level: string) => (line: string) => lines.push(`${level} ${line}`);
  const consoleProxy = { trace: write('trace'), info: write('info'), warn: write('warn'), error: write('error') };
  const formatter = (entry: ours.LogMsg) =>
    [entry.type, Reflect.get(entry, 'message') ?? Reflect.get(entry, 'name') ?? 'thrown'].join(' ');
  const system = start(nact.configureLogging(nact.logToConsole({ consoleProxy, formatter })));
  const actor = spawnStateless(system, (_message: null, { log }) => {
    log.trace('a');
    log.debug('b');
    log.info('c');
    log.warn('d');
    log.error('e');
    log.critical('f');
    log.event('g', { x: 1 });
    log.metric('h', { y: 2 });
    log.exception(new Error('i'));
  });
  dispatch(actor, null);
  await until(() => lines.length === 9);
  assert.deepEqual(lines, [
    ...['trace trace a', 'trace trace b', 'info trace c', 'warn trace d', 'error trace e', 'error trace f'],
    ...['info event g', 'info metric h', 'error exception thrown'],
  ]);
  stop(system);
});

check('a persistent actor gets what it persisted again, from its snapshot on', async (nact) => {
  const { configurePersistence, dispatch, query, spawnPersistent, start, stop } = nact;
  const engine = new MemoryEngine();
  const again: (string | boolean)[] = [];
  type Message = { readonly add?: string; readonly crash?: boolean };
  const open = () => {
    const system = start(configurePersistence(engine));
    const actor = spawnPersistent<string, Message>(
      system,
      async (state, message, ctx) => {
        if (message.crash === true) throw new Error('broken');
        if (message.add === undefined) {
          dispatch(ctx.sender, state);
          return state;
        }
        again.push(message.add, ctx.recovering === true);
        if (ctx.recovering !== true) await ctx.persist(message, ['z', 'a']);
        return state + message.add;
      },
      'letters',
      'letters',
      {
        initialState: '-',
        snapshotEvery: 3,
        snapshotEncoder: (state) => ({ state }),
        snapshotDecoder: (data) => String(Reflect.get(Object(data), 'state')),
        encoder: ({ add }) => add,
        decoder: (data) => ({ add: String(data) }),
        onCrash: (_message, _error, ctx) => ctx.reset,
      },
    );
    return { system, actor, read: () => query<Message, string>(actor, {}, 1000) };
  };

  const first = open();
  for (const add of ['a', 'b', 'c', 'd']) dispatch(first.actor, { add });
  assert.equal(await first.read(), '-abcd');
  assert.deepEqual(
    engine.kept.map(({ data, key, sequenceNumber, tags, isDeleted }) => [data, key, sequenceNumber, tags, isDeleted]),
    ['a', 'b', 'c', 'd'].map((data, at) => [data, 'letters', at + 1, ['a', 'z'], false]),
  );
  assert.deepEqual(
    engine.snapshots.map(({ data, key, sequenceNumber }) => [data, key, sequenceNumber]),
    [[{ state: '-abc' }, 'letters', 3]],
  );
  again.length = 0;
  dispatch(first.actor, { crash: true });
  assert.equal(await first.read(), '-abcd');
  assert.deepEqual(again, ['d', true]);
  stop(first.system);

  const second = open();
  assert.equal(await second.read(), '-abcd');
  dispatch(second.actor, { add: 'e' });
  assert.equal(await second.read(), '-abcde');
  stop(second.system);
});

check('a persistent query reads what actors persisted, and then only what is new', async (nact) => {
  const { configurePersistence, persistentQuery, start, stop } = nact;
  const engine = new MemoryEngine();
  const persist = (data: number) => {
    const sequenceNumber = engine.kept.length + 1;
    engine.kept.push({ data, key: 'sums', sequenceNumber, createdAt: 0, isDeleted: data === 100, tags: [] });
  };
  const system = start(configurePersistence(engine));
  let applied = 0;
  const sum = persistentQuery(
    system,
    (state: number, message: number) => {
      applied += 1;
      return state + message;
    },
    'sums',
    { initialState: 0 },
  );
  for (const data of [1, 2, 100, 3]) persist(data);
  assert.deepEqual([await sum(), applied], [6, 3]);
  persist(4);
  assert.deepEqual([await sum(), applied], [10, 4]);
  stop(system);
});

test('troupe/nact: a persisted message that cannot be handled again is left out, or stops the actor', async () => {
  const engine = new MemoryEngine();
  for (const data of ['a', 'bad', 'b']) {
    const sequenceNumber = engine.kept.length + 1;
    engine.kept.push({ data, key: 'k', sequenceNumber, createdAt: 0, isDeleted: false, tags: [] });
  }
  const system = ours.start(ours.configurePersistence(engine));
  const seen: unknown[] = [];
  const open = (name: string, decision: 'resume' | 'stop') =>
    ours.spawnPersistent<string, string>(
      system,
      (state, message, ctx) => {
        if (message === 'bad') throw new Error('broken');
        if (ctx.recovering !== true) ours.dispatch(ctx.sender, state);
        return state + message;
      },
      'k',
      name,
      {
        initialState: '',
        onCrash(message, _error, ctx) {
          seen.push(message);
          return ctx[decision];
        },
      },
    );
  assert.equal(await ours.query(open('resumed', 'resume'), '?', 1000), 'ab');
  await assert.rejects(ours.query(open('stopped', 'stop'), '?', 1000), { code: 'crashed' });
  assert.deepEqual(seen, ['bad', 'bad']);
  ours.stop(system);
});

test('troupe/nact: crashes go to the logging engine, and a crash of the logging actor does not', async () => {
  const lines: string[] = [];
  const engine: ours.LoggingEngine = (system) =>
    ours.spawnStateless(
      system,
      (entry: ours.LogMsg) => {
        lines.push(entry.type);
        throw new Error('the log is broken, too');
      },
      'log',
    );
  const system = ours.start('crashes', ours.configureLogging(engine));
  const actor = ours.spawnStateless(system, () => {
    throw new Error('broken');
  });
  ours.dispatch(actor, null);
  ours.dispatch(actor, null);
  await until(() => lines.length === 2);
  assert.deepEqual(lines, ['exception', 'exception']);
  ours.stop(system);
});

check('what is no number or no key is refused before anything is read', async (nact) => {
  const { configurePersistence, persistentQuery, spawnPersistent, start, stop } = nact;
  const system = start(configurePersistence(new MemoryEngine()));
  const keep = (state: string | undefined, message: string) => `${state ?? ''}${message}`;
  // As plain JavaScript would: the types say no.
  const odd = (properties: object): object => properties;
  assert.throws(() => spawnPersistent(system, keep, 'a', undefined, odd({ snapshotEvery: {} })));
  for (const snapshotKey of [undefined, null, 1, []]) {
    assert.throws(() => persistentQuery(system, keep, 'a', odd({ snapshotEvery: 1, snapshotKey })));
  }
  assert.throws(() => persistentQuery(system, keep, 'a', odd({ cacheDuration: '1' })));
  stop(system);
});

test('troupe/nact: a query keeps what it read, for times too long for a timer, too', async () => {
  const { configurePersistence, persistentQuery, start, stop } = ours;
  let readings = 0;
  class CountingEngine extends MemoryEngine {
    override events(key: string, offset: number): ours.PersistedEvent[] {
      if (offset === 0) readings++;
      return super.events(key, offset);
    }
  }
  const engine = new CountingEngine();
  const system = start(configurePersistence(engine));
  await engine.persist({ key: 'a', sequenceNumber: 1, data: 'one', createdAt: 0, isDeleted: false, tags: [] });
  const read = persistentQuery(
    system,
    (state: string | undefined, message: string) => `${state ?? ''}${message}`,
    'a',
    {
      cacheDuration: Number.MAX_SAFE_INTEGER,
    },
  );
  assert.equal(await read(), 'one');
  await pause(5, 'watch');
  assert.equal(await read(), 'one');
  assert.equal(readings, 1);
  stop(system);
});

check('a system may log nothing, and one whose logging engine makes no actor does not start', async (nact) => {
  const { configureLogging, dispatch, logNothing, Nobody, query, spawnStateless, start, stop } = nact;
  assert.ok(logNothing() instanceof Nobody);
  const system = start(configureLogging(logNothing));
  const talker = spawnStateless(system, (_message: string, ctx) => {
    ctx.log.info('nobody hears it');
    dispatch(ctx.sender, 'said', ctx.self);
  });
  assert.equal(await query(talker, 'say', 1000), 'said');
  stop(system);
  // As plain JavaScript would: the types say no.
  assert.throws(() => start(Reflect.apply(configureLogging, undefined, [() => undefined])));
});
