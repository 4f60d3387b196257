import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import {
  type Bus,
  BusError,
  type BusErrorCode,
  type ConsumerConfig,
  type StreamConfig,
  type StreamMessage,
} from '../../../proto/ports/bus.ts';
import { until } from '../until.ts';

/** What the suite runs on: a way to open buses that share streams, and an end. */
export interface BusBench {
  /** Another bus on the same store or servers. The suite closes what it opens. */
  open(): Promise<Bus>;
  close(): Promise<void>;
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (data: Uint8Array | undefined): string => new TextDecoder().decode(data);

function fails(code: BusErrorCode): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof BusError, String(error));
    assert.equal(error.code, code, error.message);
    return true;
  };
}

/** Names of its own for each test, since streams outlive it. */
function ownStream(changes: Partial<StreamConfig> = {}): { stream: StreamConfig; root: string } {
  const root = `t${randomUUID().replaceAll('-', '')}`;
  const stream = {
    name: root.toUpperCase(),
    subjects: [`${root}.>`],
    maxMessages: 10_000,
    maxBytes: 10 << 20,
    maxAgeMs: 3_600_000,
    duplicateWindowMs: 60_000,
    ...changes,
  };
  return { stream, root };
}

const consumer = (changes: Partial<ConsumerConfig> = {}): ConsumerConfig => ({
  durable: 'worker',
  ackWaitMs: 30_000,
  maxDeliver: 5,
  maxAckPending: 100,
  ...changes,
});

const ackAll = async (batch: readonly StreamMessage[]) => {
  await Promise.all(batch.map((message) => message.ack()));
};

/** What proto/ports/bus.ts promises of a Bus; every implementation passes it. */
export function busContract(name: string, openBench: () => Promise<BusBench>): void {
  suite(`${name}: messages`, () => {
    let bench: BusBench;
    let bus: Bus;
    before(async () => {
      bench = await openBench();
      bus = await bench.open();
    });
    after(async () => {
      await bus.close();
      await bench.close();
    });

    test('subscribers get what fulfils their pattern, in order', async () => {
      const got: Record<string, string[]> = {};
      const patterns = ['a.b.c', 'a.*.c', 'a.>', '*.b.*', '>', 'a.b', 'a.b.c.>', 'a.*'];
      const subscriptions = patterns.map((pattern) => {
        const list: string[] = [];
        got[pattern] = list;
        return bus.subscribe(pattern, ({ data }) => list.push(textOf(data)));
      });
      for (const text of ['1', '2', '3']) bus.publish('a.b.c', bytes(text));
      bus.publish('a.b', bytes('short'));
      await until(() => got['a.b']?.length === 1 && got['>']?.filter((text) => /^(\d|short)$/.test(text)).length === 4);
      const all = ['1', '2', '3'];
      assert.deepEqual(got['a.b.c'], all);
      assert.deepEqual(got['a.*.c'], all);
      assert.deepEqual(got['a.>'], [...all, 'short']);
      assert.deepEqual(got['*.b.*'], all);
      assert.deepEqual(got['a.b.c.>'], []);
      assert.deepEqual(got['a.*'], ['short']);
      await Promise.all(subscriptions.map((subscription) => subscription.close()));
    });

    test('a handler is never called while publish runs, nor after its subscription was closed', async () => {
      const heard: string[] = [];
      const subscription = bus.subscribe('sync.x', ({ data }) => heard.push(textOf(data)));
      bus.publish('sync.x', bytes('1'));
      assert.equal(heard.length, 0);
      await until(() => heard.length === 1);
      await subscription.close();
      bus.publish('sync.x', bytes('2'));
      const after = bus.subscribe('sync.x', () => heard.push('after'));
      bus.publish('sync.x', bytes('3'));
      await until(() => heard.includes('after'));
      assert.deepEqual(heard, ['1', 'after']);
      await after.close();
    });

    test('a subscription that drains hands out what was on its way when it was closed, and then nobody answers', async () => {
      const heard: string[] = [];
      const subscription = bus.subscribe('drain.x', ({ data }) => heard.push(textOf(data)), { drains: true });
      bus.publish('drain.x', bytes('first'));
      await until(() => heard.length === 1);
      for (let n = 0; n < 1000; n++) bus.publish('drain.x', bytes(`${n}`));
      await subscription.close();
      assert.equal(heard.length, 1001);
      await assert.rejects(bus.request('drain.x', bytes('late'), 5000), { code: 'no_responders' });
      assert.equal(heard.length, 1001);
    });

    test('the data is the receiver’s own', async () => {
      // A Buffer's `slice` shares its memory.
      const data = Buffer.from('good');
      const heard: string[] = [];
      const one = bus.subscribe('own.x', (message) => {
        heard.push(textOf(message.data));
        message.data.fill(0);
      });
      const two = bus.subscribe('own.x', (message) => heard.push(textOf(message.data)));
      bus.publish('own.x', data);
      data.fill(0);
      await until(() => heard.length === 2);
      assert.deepEqual(heard, ['good', 'good']);
      await Promise.all([one.close(), two.close()]);
    });

    test('of a queue one gets each message, beside plain subscribers', async () => {
      const counts = [0, 0, 0];
      const count = (index: number) => () => {
        counts[index] = (counts[index] ?? 0) + 1;
      };
      const subscriptions = [
        bus.subscribe('work.x', count(0), { queue: 'q' }),
        bus.subscribe('work.x', count(1), { queue: 'q' }),
        bus.subscribe('work.x', count(2)),
      ];
      for (let i = 0; i < 100; i++) bus.publish('work.x', bytes('x'));
      await until(() => counts[2] === 100 && (counts[0] ?? 0) + (counts[1] ?? 0) >= 100);
      assert.equal((counts[0] ?? 0) + (counts[1] ?? 0), 100);
      assert.ok((counts[0] ?? 0) > 0 && (counts[1] ?? 0) > 0, 'one member got everything');
      await Promise.all(subscriptions.map((subscription) => subscription.close()));
    });

    test('a handler that throws or rejects harms neither the others nor the next message', async () => {
      const heard: string[] = [];
      const subscriptions = [
        bus.subscribe('bad.x', () => {
          throw new Error('handler');
        }),
        bus.subscribe('bad.x', async () => {
          throw new Error('async handler');
        }),
        bus.subscribe('bad.x', ({ data }) => heard.push(textOf(data))),
      ];
      bus.publish('bad.x', bytes('1'));
      bus.publish('bad.x', bytes('2'));
      await until(() => heard.length === 2);
      await Promise.all(subscriptions.map((subscription) => subscription.close()));
    });

    test('a request gets its answer, many at once each their own', async () => {
      const answering = bus.subscribe('ask.*', ({ data, reply }) => {
        assert.ok(reply);
        bus.publish(reply, bytes(`re: ${textOf(data)}`));
      });
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, i) => bus.request(`ask.${i}`, bytes(String(i)), 5000)),
      );
      assert.deepEqual(
        answers.map(textOf),
        answers.map((_, i) => `re: ${i}`),
      );
      await answering.close();
    });

    test('a request nobody takes, and one nobody answers', async () => {
      await assert.rejects(bus.request('nobody.here', bytes(''), 5000), fails('no_responders'));
      const silent = bus.subscribe('silent.x', () => undefined);
      await assert.rejects(bus.request('silent.x', bytes(''), 50), fails('timeout'));
      await silent.close();
    });

    test('wildcards, blanks and empty tokens cannot be published to', () => {
      for (const subject of ['', 'a..b', '.a', 'a.', 'a.*', '>', 'a b', 'a\nb', 'a\0']) {
        assert.throws(() => bus.publish(subject, bytes('')), Error, JSON.stringify(subject));
      }
    });

    test('a closed bus refuses everything', async () => {
      const other = await bench.open();
      const hanging = other.subscribe('hang.x', () => undefined);
      const request = assert.rejects(other.request('hang.x', bytes(''), 30_000), fails('closed'));
      await other.close();
      await request;
      await hanging.close();
      assert.throws(() => other.publish('a', bytes('')), fails('closed'));
      assert.throws(() => other.subscribe('a', () => undefined), fails('closed'));
      await assert.rejects(other.append('a', bytes('')), fails('closed'));
      await other.close();
    });
  });

  suite(`${name}: streams`, () => {
    let bench: BusBench;
    let bus: Bus;
    before(async () => {
      bench = await openBench();
      bus = await bench.open();
    });
    after(async () => {
      await bus.close();
      await bench.close();
    });

    test('messages appended before and after the consumer come in order, once each', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      await bus.ensureStream(stream);
      const first = await bus.append(`${root}.x`, bytes('0'));
      assert.equal(first.duplicate, false);
      const got: StreamMessage[] = [];
      const consuming = await bus.consume(stream.name, consumer(), async (batch) => {
        got.push(...batch);
        await ackAll(batch);
      });
      const stored = await Promise.all(
        Array.from({ length: 300 }, (_, i) => bus.append(`${root}.x`, bytes(String(i + 1)))),
      );
      await until(() => got.length === 301);
      assert.deepEqual(
        got.map(({ data }) => textOf(data)),
        got.map((_, i) => String(i)),
      );
      assert.deepEqual(
        got.map(({ seq }) => seq),
        [first, ...stored].map(({ seq }) => seq),
      );
      assert.ok(got.every(({ deliveryCount, subject }) => deliveryCount === 1 && subject === `${root}.x`));
      await consuming.close();
    });

    test('a subject without a stream is refused', async () => {
      await assert.rejects(bus.append('no.stream.has.this', bytes('')), fails('no_stream'));
      await assert.rejects(bus.consume('NONE', consumer(), ackAll), fails('no_stream'));
    });

    test('a stream made by another bus takes appends at once', async () => {
      const { stream, root } = ownStream();
      const other = await bench.open();
      await other.ensureStream(stream);
      assert.equal((await bus.append(`${root}.x`, bytes('x'))).duplicate, false);
      await other.close();
    });

    test('a repeated message id is stored once, also when both come together', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      const other = await bench.open();
      const results = await Promise.all([
        bus.append(`${root}.x`, bytes('a'), { msgId: 'one' }),
        bus.append(`${root}.x`, bytes('a'), { msgId: 'one' }),
        other.append(`${root}.x`, bytes('a'), { msgId: 'one' }),
      ]);
      assert.equal(results.filter(({ duplicate }) => !duplicate).length, 1);
      assert.equal(new Set(results.map(({ seq }) => seq)).size, 1);
      const another = await bus.append(`${root}.x`, bytes('b'), { msgId: 'two' });
      assert.equal(another.duplicate, false);
      await other.close();
    });

    test('after the duplicate window the id counts as new', async () => {
      const { stream, root } = ownStream({ duplicateWindowMs: 100 });
      await bus.ensureStream(stream);
      const first = await bus.append(`${root}.x`, bytes('a'), { msgId: 'one' });
      const again = await until(async () => {
        const result = await bus.append(`${root}.x`, bytes('a'), { msgId: 'one' });
        return result.duplicate ? undefined : result;
      });
      assert.ok(again.seq > first.seq);
    });

    test('a message carries its publisher’s id and when it was stored, the same at each delivery', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      const before = Date.now();
      await bus.append(`${root}.x`, bytes('x'), { msgId: 'id of the publisher: ä/1' });
      const got: StreamMessage[] = [];
      const consuming = await bus.consume(stream.name, consumer(), async ([message]) => {
        if (message !== undefined) got.push(message);
        await (message?.deliveryCount === 1 ? message.nak() : message?.ack());
      });
      await until(() => got.length === 2);
      assert.deepEqual(
        got.map(({ msgId }) => msgId),
        ['id of the publisher: ä/1', 'id of the publisher: ä/1'],
      );
      const [first, second] = got.map(({ storedAt }) => storedAt ?? 0);
      assert.equal(first, second);
      // The clocks of two programs on one machine, in whole milliseconds.
      assert.ok((first ?? 0) >= before - 50 && (first ?? 0) <= Date.now() + 50);
      await consuming.close();
    });

    test('what cannot be an id, a name or a subject is refused', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      for (const msgId of ['', ' a', 'a ', 'a\nb', 'a\r', 'a\0', 'x'.repeat(1025)])
        await assert.rejects(bus.append(`${root}.x`, bytes(''), { msgId }), TypeError, JSON.stringify(msgId));
      for (const part of ['*', '>', '', 'a b', 'a\r\nPUB x 1', 'a\0', '*.>'])
        await assert.rejects(bus.append(`${root}.${part}`, bytes('')), TypeError, JSON.stringify(part));
      for (const name of ['', 'a.b', 'a*', '>', 'a b', 'a/b', '\n']) {
        await assert.rejects(bus.ensureStream({ ...stream, name }), TypeError);
        await assert.rejects(bus.consume(stream.name, consumer({ durable: name }), ackAll), TypeError);
      }
      await assert.rejects(bus.ensureStream({ ...stream, subjects: ['a.>.b'] }), TypeError);
      await assert.rejects(bus.consume(stream.name, consumer({ filter: 'a..b' }), ackAll), TypeError);
    });

    test('a stream takes other settings, and keeps what it has', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      await bus.append(`${root}.x`, bytes('kept'));
      await bus.ensureStream({ ...stream, subjects: [...stream.subjects, `${root}2.*`], maxMessages: 20 });
      await bus.append(`${root}2.x`, bytes('more'));
      const got: string[] = [];
      const collect = async (batch: readonly StreamMessage[]) => {
        got.push(...batch.map(({ data }) => textOf(data)));
        await ackAll(batch);
      };
      const first = await bus.consume(stream.name, consumer(), collect);
      await until(() => got.length === 2);
      await first.close();
      // The same consumer with other limits goes on where it was.
      const second = await bus.consume(
        stream.name,
        consumer({ ackWaitMs: 5000, maxDeliver: 3, maxAckPending: 7 }),
        collect,
      );
      await bus.append(`${root}.x`, bytes('last'));
      await until(() => got.length === 3);
      assert.deepEqual(got, ['kept', 'more', 'last']);
      await second.close();
    });

    test('a filter hands out only what fulfils it', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      await Promise.all(
        Array.from({ length: 60 }, (_, i) =>
          bus.append(`${root}.${i % 20 === 0 ? 'wanted' : 'other'}.x`, bytes(String(i))),
        ),
      );
      const got: string[] = [];
      const filter = `${root}.wanted.*`;
      const consuming = await bus.consume(stream.name, consumer({ filter }), async (batch) => {
        got.push(...batch.map(({ data }) => textOf(data)));
        await ackAll(batch);
      });
      await bus.append(`${root}.wanted.y`, bytes('last'));
      await until(() => got.includes('last'));
      assert.deepEqual(got, ['0', '20', '40', 'last']);
      await consuming.close();
    });

    test('a message neither acknowledged nor refused comes again', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      await bus.append(`${root}.x`, bytes('x'));
      const counts: number[] = [];
      const consuming = await bus.consume(stream.name, consumer({ ackWaitMs: 100 }), async (batch) => {
        counts.push(...batch.map(({ deliveryCount }) => deliveryCount));
        if (counts.length === 3) await ackAll(batch);
      });
      await until(() => counts.length === 3);
      assert.deepEqual(counts, [1, 2, 3]);
      await consuming.close();
    });

    test('nak brings it back, not before its delay; others pass meanwhile', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      const got: { text: string; at: number }[] = [];
      const consuming = await bus.consume(stream.name, consumer(), async (batch) => {
        for (const message of batch) {
          got.push({ text: textOf(message.data), at: performance.now() });
          if (textOf(message.data) === 'later' && message.deliveryCount === 1) await message.nak(300);
          else await message.ack();
        }
      });
      await bus.append(`${root}.x`, bytes('later'));
      await bus.append(`${root}.x`, bytes('other'));
      await until(() => got.length === 3);
      assert.deepEqual(
        got.map(({ text }) => text),
        ['later', 'other', 'later'],
      );
      assert.ok((got[2]?.at ?? 0) - (got[0]?.at ?? 0) >= 280, 'it came back too early');
      await consuming.close();
    });

    test('a handler that throws gets its messages again, those it acknowledged excepted', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      await Promise.all(['a', 'b'].map((text) => bus.append(`${root}.x`, bytes(text))));
      const got: string[] = [];
      const consuming = await bus.consume(stream.name, consumer(), async (batch) => {
        for (const message of batch) {
          const text = textOf(message.data);
          got.push(`${text}${message.deliveryCount}`);
          if (text === 'b' && message.deliveryCount === 1) throw new Error('handler');
          await message.ack();
        }
      });
      await until(() => got.includes('b2'));
      assert.deepEqual(got, ['a1', 'b1', 'b2']);
      await consuming.close();
    });

    test('what was terminated, or delivered too often, does not come again, and others flow', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      const seen = new Map<string, number>();
      const config = consumer({ ackWaitMs: 700, maxDeliver: 2 });
      const consuming = await bus.consume(stream.name, config, async (batch) => {
        for (const message of batch) {
          const text = textOf(message.data);
          seen.set(text, (seen.get(text) ?? 0) + 1);
          if (text === 'poison') await message.term('cannot be read');
          else if (text !== 'ignored') await message.ack();
        }
      });
      for (const text of ['poison', 'ignored', 'fine']) await bus.append(`${root}.x`, bytes(text));
      await until(() => seen.get('ignored') === 2 && seen.has('fine'));
      // Two more rounds of the ack wait pass while a later message waits for its own second delivery.
      const later: number[] = [];
      const second = await bus.consume(
        stream.name,
        { ...config, durable: 'second', ackWaitMs: 1600 },
        async (batch) => {
          later.push(...batch.filter(({ data }) => textOf(data) === 'fine').map(({ deliveryCount }) => deliveryCount));
        },
      );
      await until(() => later.includes(2));
      assert.deepEqual(
        [...seen],
        [
          ['poison', 1],
          ['ignored', 2],
          ['fine', 1],
        ],
      );
      await Promise.all([consuming.close(), second.close()]);
    });

    test('no more than maxAckPending are out at once', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      await Promise.all(Array.from({ length: 25 }, () => bus.append(`${root}.x`, bytes('x'))));
      const out: StreamMessage[] = [];
      let most = 0;
      let done = 0;
      const consuming = await bus.consume(stream.name, consumer({ maxAckPending: 10 }), async (batch) => {
        out.push(...batch);
        most = Math.max(most, out.length);
      });
      while (done < 25) {
        await until(() => out.length > 0);
        // A broker hands out the next one as soon as it has the acknowledgement, before that is known here.
        await out.shift()?.ack();
        done += 1;
      }
      assert.ok(most <= 10, `${most} were out`);
      await consuming.close();
    });

    test('consumers of one durable share the work; durables each get everything', async () => {
      const { stream, root } = ownStream();
      const other = await bench.open();
      await bus.ensureStream(stream);
      const shared: string[][] = [[], []];
      const alone: string[] = [];
      const into = (list: string[] | undefined) => async (batch: readonly StreamMessage[]) => {
        list?.push(...batch.map(({ data }) => textOf(data)));
        await ackAll(batch);
      };
      const config = consumer({ maxAckPending: 20 });
      const consuming = await Promise.all([
        bus.consume(stream.name, config, into(shared[0])),
        other.consume(stream.name, config, into(shared[1])),
        bus.consume(stream.name, { ...config, durable: 'alone' }, into(alone)),
      ]);
      await Promise.all(Array.from({ length: 400 }, (_, i) => bus.append(`${root}.x`, bytes(String(i)))));
      await until(() => alone.length === 400 && shared.flat().length >= 400);
      assert.equal(new Set(shared.flat()).size, 400);
      assert.equal(shared.flat().length, 400);
      await Promise.all(consuming.map((one) => one.close()));
      await other.close();
    });

    test('a consumer hears of appends by another bus', async () => {
      const { stream, root } = ownStream();
      const other = await bench.open();
      await bus.ensureStream(stream);
      const got: string[] = [];
      const consuming = await bus.consume(stream.name, consumer(), async (batch) => {
        got.push(...batch.map(({ data }) => textOf(data)));
        await ackAll(batch);
      });
      for (const text of ['1', '2']) {
        await other.append(`${root}.x`, bytes(text));
        await until(() => got.includes(text));
      }
      await Promise.all([consuming.close(), other.close()]);
    });

    test('a new bus goes on where the old one was closed; close waits for the handler', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      await Promise.all(['1', '2', '3'].map((text) => bus.append(`${root}.x`, bytes(text))));
      const old = await bench.open();
      const got: string[] = [];
      let finish: () => void = () => undefined;
      const finished = new Promise<void>((resolve) => {
        finish = resolve;
      });
      await old.consume(stream.name, consumer({ maxAckPending: 1 }), async ([message]) => {
        got.push(`old ${textOf(message?.data)}`);
        await finished;
        await message?.ack();
      });
      await until(() => got.length === 1);
      const closing = old.close();
      finish();
      await closing;
      const consuming = await bus.consume(stream.name, consumer(), async (batch) => {
        got.push(...batch.map(({ data }) => `new ${textOf(data)}`));
        await ackAll(batch);
      });
      await until(() => got.length >= 3).catch(() => assert.fail(`got only ${got}`));
      assert.deepEqual(got, ['old 1', 'new 2', 'new 3']);
      await consuming.close();
    });

    test('the oldest go when there are too many, or too many bytes', async () => {
      for (const limits of [{ maxMessages: 10 }, { maxBytes: 10_500 }]) {
        const { stream, root } = ownStream(limits);
        await bus.ensureStream(stream);
        const data = new Uint8Array(1000);
        for (let i = 0; i < 30; i++) {
          data[0] = i;
          await bus.append(`${root}.x`, data);
        }
        const got: (number | undefined)[] = [];
        const consuming = await bus.consume(stream.name, consumer(), async (batch) => {
          got.push(...batch.map((message) => message.data[0]));
          await ackAll(batch);
        });
        await until(() => got.at(-1) === 29);
        assert.ok(got.length <= 10 && got.length >= 8, `${got.length} were kept`);
        assert.deepEqual(
          got,
          Array.from(got, (_, i) => 30 - got.length + i),
        );
        await consuming.close();
      }
    });

    test('a payload beyond the limit is refused, one at it is not', async () => {
      const { stream, root } = ownStream();
      await bus.ensureStream(stream);
      await assert.rejects(bus.append(`${root}.x`, new Uint8Array(8 << 20)), fails('too_large'));
      assert.equal((await bus.append(`${root}.x`, new Uint8Array(512 << 10))).duplicate, false);
    });
  });
}
