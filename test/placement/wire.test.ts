import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusalCauses } from '../../actors/service/codecs.ts';
import { Refusal } from '../../proto/errors.ts';
import { PlacementError } from '../../proto/ports/placement.ts';
import { ActorError } from '../../supervision/index.ts';
import { FORMAT, packAnswer, readAnswer, readAsk, readTell } from '../../supervision/placement/wire.ts';

const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const unknown = { name: 'PlacementError', code: 'unknown_format' };

test('a message of another version is refused, and the line says which', () => {
  assert.throws(() => readTell(bytes({ v: FORMAT + 1, k: 'a', i: 'b', f: 'c', m: 1, h: 0 })), {
    ...unknown,
    message: `a message between nodes has format ${FORMAT + 1}, and this version of troupe reads ${FORMAT}`,
  });
  assert.throws(() => readTell(bytes(null)), unknown);
  assert.throws(() => readTell(new Uint8Array([0x7b, 0xff])), unknown);
});

test('fields that a later version added are ignored; missing and wrong ones are refused', () => {
  const question = { v: FORMAT, k: 'a', i: 'b', f: 'c', m: { x: 1 }, n: 7, a: 0, t: 10, later: true };
  assert.deepEqual(readAsk(bytes(question)), {
    ...{ kind: 'a', id: 'b', from: 'c', message: { x: 1 }, ask: 7, age: 0, epoch: undefined, left: 10 },
    // Of a version before, which sends no cancel.
    isCancellable: false,
    trace: undefined,
  });
  const trace = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
  assert.equal(readAsk(bytes({ ...question, p: trace })).trace, trace);
  for (const p of [1, {}, '', `${trace}00`, trace.toUpperCase()])
    assert.equal(readAsk(bytes({ ...question, p })).trace, undefined);
  for (const bad of [{ k: 1 }, { i: null }, { n: -1 }, { n: 1.5 }, { a: 'x' }, { e: {} }]) {
    assert.throws(() => readAsk(bytes({ ...question, ...bad })), unknown, JSON.stringify(bad));
  }
});

test('nothing in a message reaches a prototype', () => {
  const data = new TextEncoder().encode(
    `{"v":${FORMAT},"x":{"c":"crashed","m":"x","cause":{"__proto__":{"polluted":1},"n":"E","m":"y"}}}`,
  );
  const answer = readAnswer(data);
  assert.ok(answer.type === 'error');
  assert.equal(Reflect.get({}, 'polluted'), undefined);
  // Names of what every object inherits are no properties, and no codes.
  assert.throws(() => readTell(bytes({})), unknown);
  const odd = readAnswer(
    bytes({ v: FORMAT, x: { c: 'toString', m: 'x', cause: { refusal: 'constructor', m: 'y' } } }),
    refusalCauses,
  );
  assert.ok(odd.type === 'error' && odd.error.code === 'crashed' && !(odd.error.cause instanceof Refusal));
});

test('what is nested a hundred thousand deep, or is huge, is read or refused, and no stack overflows', () => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  const letter = (message: string) =>
    new TextEncoder().encode(`{"v":${FORMAT},"k":"a","i":"b","f":"c","m":${message},"h":0}`);
  for (const message of [deep, JSON.stringify('x'.repeat(8 << 20))]) {
    try {
      assert.equal(readTell(letter(message)).kind, 'a');
    } catch (error) {
      assert.ok(error instanceof PlacementError, String(error));
    }
  }
  assert.throws(() => readTell(letter(deep.slice(1))), unknown);
});

test('errors cross with their codes, the fields of a refusal, and whether a handler had begun', () => {
  const fields = [{ path: 'name', message: 'is taken' }];
  const causes = [
    new Refusal('invalid_request', { fields }),
    Object.assign(new Error('down'), { name: 'StorageError', code: 'unavailable' }),
    new RangeError('far'),
    undefined,
  ];
  for (const cause of causes) {
    for (const code of ['timeout', 'overloaded', 'stopped', 'crashed', 'not_found'] as const) {
      const sent = new ActorError(code, `it ${code}`, { begun: code === 'stopped', ...(cause && { cause }) });
      const answer = readAnswer(packAnswer({ type: 'error', error: sent }, refusalCauses), refusalCauses);
      assert.ok(answer.type === 'error');
      const { error } = answer;
      assert.deepEqual([error.code, error.message, error.begun], [code, sent.message, sent.begun]);
      if (cause === undefined) assert.equal(error.cause, undefined);
      else {
        assert.ok(error.cause instanceof Error);
        assert.deepEqual([error.cause.name, error.cause.message], [cause.name, cause.message]);
        assert.equal(Reflect.get(error.cause, 'code'), Reflect.get(cause, 'code'));
        if (cause instanceof Refusal) assert.deepEqual(Reflect.get(error.cause, 'fields'), fields);
      }
    }
  }
});
