import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Turns } from '../../transports/ssh/turns.ts';
import { failOnLeaks } from '../kit/leaks.ts';
import { until } from '../kit/until.ts';

failOnLeaks();

const SLICE = 64 * 1024;

/** A socket that remembers whether it reads. */
class Fake {
  reads = true;
  resumes = 0;
  pause(): void {
    this.reads = false;
  }
  resume(): void {
    this.reads = true;
    this.resumes++;
  }
}

test('turns: a socket that delivers little is never held up', () => {
  const turns = new Turns<Fake>();
  const socket = new Fake();
  for (let i = 0; i < 15; i++) turns.heard(socket, 4096);
  assert.equal(socket.reads, true);
});

test('turns: one that floods waits after each slice, for one turn when it is alone', async () => {
  const turns = new Turns<Fake>();
  const socket = new Fake();
  for (let slice = 1; slice <= 5; slice++) {
    turns.heard(socket, SLICE);
    assert.equal(socket.reads, false);
    await turn();
    assert.deepEqual([socket.reads, socket.resumes], [true, slice]);
  }
});

test('turns: while others are there floods go on one after the other, and each gets its part', async () => {
  const turns = new Turns<Fake>();
  const floods = Array.from({ length: 6 }, () => new Fake());
  for (const socket of floods) turns.heard(socket, SLICE);
  assert.ok(floods.every((socket) => !socket.reads));
  for (let done = 1; done <= 6; done++) {
    await until(() => floods.filter((socket) => socket.reads).length >= done, { everyMs: 0 });
    turns.heard(new Fake(), 1);
  }
  assert.deepEqual(
    floods.map((socket) => socket.resumes),
    [1, 1, 1, 1, 1, 1],
  );
});

test('turns: one that leaves reads at once, and is not touched again', async () => {
  const turns = new Turns<Fake>();
  const socket = new Fake();
  turns.heard(socket, SLICE);
  turns.leave(socket);
  assert.deepEqual([socket.reads, socket.resumes], [true, 1]);
  turns.leave(socket);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(socket.resumes, 1);
});
