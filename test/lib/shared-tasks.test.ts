import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SharedTasks } from '../../lib/concurrency.ts';

test('a shared task passes a failure to everyone, and starts anew afterwards', async () => {
  const tasks = new SharedTasks();
  let runs = 0;
  const work = async (): Promise<void> => {
    runs += 1;
    if (runs === 1) throw new Error('first');
  };
  await Promise.all([
    assert.rejects(tasks.run('k', {}, work), /first/),
    assert.rejects(tasks.run('k', {}, work), /first/),
  ]);
  await tasks.run('k', {}, work);
  assert.equal(runs, 2);
  await tasks.close();
});

test('a shared task goes on while one of its waiters is left, and is aborted when the last has gone', async () => {
  const tasks = new SharedTasks();
  const heard: string[] = [];
  let say = (_line: string): void => {};
  let taskSignal = new AbortController().signal;
  const work = (onProgress: (line: string) => void, signal: AbortSignal): Promise<void> => {
    say = onProgress;
    taskSignal = signal;
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  };
  const [first, second] = [new AbortController(), new AbortController()];
  const one = tasks.run('k', { signal: first.signal, onProgress: (line) => heard.push(`1 ${line}`) }, work);
  const other = tasks.run('k', { signal: second.signal, onProgress: (line) => heard.push(`2 ${line}`) }, work);
  await Promise.resolve();
  await Promise.resolve();
  say('begun');
  first.abort(new Error('first leaves'));
  await assert.rejects(one, /first leaves/);
  assert.equal(taskSignal.aborted, false);
  say('half');
  second.abort(new Error('second leaves'));
  await assert.rejects(other, /second leaves/);
  assert.equal(taskSignal.aborted, true);
  assert.deepEqual(heard, ['1 begun', '2 begun', '2 half']);
  await assert.rejects(tasks.run('k', { signal: first.signal }, work), /first leaves/);
  await tasks.close();
});
