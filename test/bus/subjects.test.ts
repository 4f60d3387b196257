import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { subjectRegex } from '../../storage/bus/consumers.ts';
import { checkPattern, checkSubject, matches, SubjectTree } from '../../transports/bus/subjects.ts';

const part = fc.constantFrom('a', 'b', 'a+b', 'c|d');
const subject = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('.'));
const pattern = fc
  .tuple(fc.array(fc.oneof(part, fc.constant('*')), { maxLength: 3 }), fc.oneof(part, fc.constantFrom('*', '>')))
  .map(([parts, last]) => [...parts, last].join('.'));

test('tree, matcher and the store’s expression agree', () => {
  fc.assert(
    fc.property(subject, fc.array(pattern, { maxLength: 6 }), (given, patterns) => {
      const tree = new SubjectTree<number>();
      for (const [index, one] of patterns.entries()) tree.add(one, index);
      const expected = patterns.flatMap((one, index) => (matches(one, given) ? [index] : []));
      assert.deepEqual(tree.find(given).sort(), expected);
      for (const one of patterns) {
        const regex = subjectRegex(one);
        assert.equal(regex === undefined || new RegExp(regex).test(given), matches(one, given), `${one} ${given}`);
      }
      for (const [index, one] of patterns.entries()) tree.remove(one, index);
      assert.equal(tree.size, 0);
    }),
  );
});

test('> needs at least one token', () => {
  assert.ok(!matches('a.>', 'a') && matches('a.>', 'a.b') && matches('>', 'a') && !matches('a.*', 'a.b.c'));
});

test('what is no subject or no pattern is refused', () => {
  for (const bad of ['', '.', 'a.', 'a b', 'a*', 'a.b>', '>.a', 'a\0b', 'a'.repeat(2000)]) {
    assert.throws(() => checkPattern(bad), TypeError, bad);
    assert.throws(() => checkSubject(bad), TypeError, bad);
  }
  for (const wild of ['*', 'a.*.b', 'a.>', '>']) {
    checkPattern(wild);
    assert.throws(() => checkSubject(wild), TypeError, wild);
  }
});
