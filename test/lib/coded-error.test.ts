import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CodedError } from '../../lib/errors.ts';

class TillError extends CodedError<'empty' | 'jammed'> {}
class DrawerError extends TillError {
  constructor() {
    super('jammed', 'The drawer is stuck.');
  }
}

test('an error with a code has the name of its class, its code, its text and its cause', () => {
  const cause = new Error('no coins');
  const error = new TillError('empty', 'Nothing is in it.', { cause });
  assert.ok(error instanceof TillError && error instanceof CodedError && error instanceof Error);
  assert.deepEqual(
    [error.name, error.code, error.message, error.cause],
    ['TillError', 'empty', 'Nothing is in it.', cause],
  );
  assert.match(error.stack ?? '', /Nothing is in it[\s\S]*coded-error\.test/);
  assert.equal('cause' in new TillError('empty', 'Nothing is in it.'), false);
});

test('a class of such a class is one of both, under its own name', () => {
  const error = new DrawerError();
  assert.ok(error instanceof TillError);
  assert.deepEqual([error.name, error.code], ['DrawerError', 'jammed']);
});
