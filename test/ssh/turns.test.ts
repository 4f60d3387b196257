import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { ReadTurns } from '../../transports/ssh/read-fairness.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const SLICE = 64 * 1024;
const PAUSE_MS = 40;

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
  const turns = new ReadTurns<Fake>();
  const socket = new Fake();
  for (let i = 0; i < 15; i++) turns.heard(socket, 4096);
  assert.equal(socket.reads, true);
});

test('turns: one that floods waits after each slice, for one turn when it is alone', async () => {
  const turns = new ReadTurns<Fake>();
  const socket = new Fake();
  for (let slice = 1; slice <= 5; slice++) {
    turns.heard(socket, SLICE);
    assert.equal(socket.reads, false);
    await turn();
    assert.deepEqual([socket.reads, socket.resumes], [true, slice]);
  }
});

test('turns: while somebody types floods go on one after the other, and each gets its part', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.method(performance, 'now', () => 1000);
  const turns = new ReadTurns<Fake>();
  const typist = new Fake();
  const floods = Array.from({ length: 6 }, () => new Fake());
  turns.heard(typist, 1);
  for (const socket of floods) turns.heard(socket, SLICE);
  const going = () => floods.filter((socket) => socket.reads).length;
  for (let done = 0; done < 6; done++) {
    assert.equal(going(), done);
    t.mock.timers.tick(PAUSE_MS - 1);
    await turn();
    assert.equal(going(), done, 'not before the pause is over');
    t.mock.timers.tick(1);
  }
  assert.deepEqual(
    floods.map((socket) => socket.resumes),
    [1, 1, 1, 1, 1, 1],
  );
  assert.equal(typist.resumes, 0);
});

test('turns: once nobody types any more floods go on as fast as they can', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 1000;
  t.mock.method(performance, 'now', () => now);
  const turns = new ReadTurns<Fake>();
  const flood = new Fake();
  turns.heard(new Fake(), 1);
  turns.heard(flood, SLICE);
  now += 500;
  t.mock.timers.tick(PAUSE_MS);
  turns.heard(flood, SLICE);
  await turn();
  assert.equal(flood.resumes, 2);
});

test('turns: floods among themselves wait for no pause, nor does the first slice of one count as a typist', async () => {
  const turns = new ReadTurns<Fake>();
  const floods = Array.from({ length: 3 }, () => new Fake());
  for (let slice = 1; slice <= 5; slice++) {
    for (const socket of floods) while (socket.reads) turns.heard(socket, SLICE / 4);
    assert.ok(floods.every((socket) => !socket.reads));
    await turn();
    assert.ok(floods.every((socket) => socket.reads && socket.resumes === slice));
  }
});

test('turns: what a screen takes that is redrawn all the time is no flood', (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const turns = new ReadTurns<Fake>();
  const socket = new Fake();
  for (; now < 60_000; now += 33) turns.heard(socket, 30_000);
  assert.equal(socket.reads, true);
  for (let i = 0; i < 16 && socket.reads; i++) turns.heard(socket, SLICE / 8);
  assert.equal(socket.reads, false);
});

test('turns: one that leaves reads at once, and is not touched again', async () => {
  const turns = new ReadTurns<Fake>();
  const socket = new Fake();
  turns.heard(socket, SLICE);
  turns.leave(socket);
  assert.deepEqual([socket.reads, socket.resumes], [true, 1]);
  turns.leave(socket);
  for (let i = 0; i < 50; i++) await turn();
  assert.equal(socket.resumes, 1);
});
