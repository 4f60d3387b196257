import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { networkOf } from '../../proto/client-network.ts';
import { SshAdmission } from '../../transports/gateway/ssh/admission.ts';
import { Identification } from '../../transports/gateway/ssh/handshake.ts';
import { isRightGuess, readRequest } from '../../transports/gateway/ssh/internals.ts';
import { writeTogether } from '../../transports/ssh/container-login.ts';
import { cut } from '../support/gateway/incremental-readers.ts';
import { until } from '../support/until.ts';

const string = (text: string | Buffer): Buffer => {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
};
const request = (name: string, ...parts: Buffer[]) =>
  Buffer.concat([Buffer.of(98, 0, 0, 0, 7), string(name), Buffer.of(1), ...parts]);

test('an identification: what is one, and that cutting it up changes nothing', () => {
  const whole = (text: string) => new Identification().push(Buffer.from(text, 'latin1'));
  for (const good of ['SSH-2.0-OpenSSH_9.2p1 Debian\r\n', 'SSH-2.0-x\n', 'SSH-1.99-x\r\nmore', 'SSH-2.0-x \r\n']) {
    assert.equal(whole(good), 'good', good);
  }
  for (const bad of [
    'x',
    'SSX',
    'SSH-2.0-\r\n',
    'SSH-2.0-a\tb\r\n',
    'SSH-2.0-\xe9\r\n',
    '\n',
    'SSH-2.0'.padEnd(256, 'x'),
  ]) {
    assert.equal(whole(bad), 'bad', bad);
  }
  const texts = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc
      .tuple(
        fc.constantFrom('SSH-2.0-', 'SSH-1.99-', 'SSH-'),
        fc.string({ maxLength: 280 }),
        fc.constantFrom('\r\n', '\n', ''),
      )
      .map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(texts, fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 5 }), (text, at) => {
      const bytes = Buffer.from(text, 'latin1');
      const one = new Identification();
      let verdict = one.push(Buffer.alloc(0));
      for (const piece of cut(bytes, at)) verdict = one.push(piece);
      assert.equal(verdict, new Identification().push(bytes));
    }),
    { numRuns: 1000 },
  );
});

test('raw requests: commands and modes byte for byte, and nothing of what is cut off', () => {
  const odd = Buffer.from([0xff, 0, 0xc3]);
  assert.deepEqual(readRequest(request('exec', string(odd))), { command: odd });
  const pty = request('pty-req', string('xterm'), Buffer.alloc(16), string(Buffer.from([53, 0, 0, 0, 1, 0])));
  assert.deepEqual(readRequest(pty), { modes: Buffer.from([53, 0, 0, 0, 1, 0]) });
  assert.deepEqual(readRequest(request('shell')), {});
  for (let length = 0; length < pty.length; length++) assert.deepEqual(readRequest(pty.subarray(0, length)), {});
  fc.assert(fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => void readRequest(Buffer.from(bytes))));
});

test('a guess is right when both prefer the same', () => {
  const init = (kex: string, key: string) => Buffer.concat([Buffer.of(20), Buffer.alloc(16), string(kex), string(key)]);
  assert.equal(isRightGuess(init('curve25519-sha256,x', 'ssh-ed25519')), true);
  assert.equal(isRightGuess(init('x,curve25519-sha256', 'ssh-ed25519')), false);
  assert.equal(isRightGuess(init('curve25519-sha256', 'ssh-rsa,ssh-ed25519')), false);
  assert.equal(isRightGuess(Buffer.of(20)), false);
});

test('addresses: an IPv6 network counts as one', () => {
  assert.equal(networkOf('192.0.2.1'), '192.0.2.1');
  assert.equal(networkOf('2001:db8::1'), networkOf('2001:db8:0:0:ffff::2'));
  assert.notEqual(networkOf('2001:db8::1'), networkOf('2001:db8:0:1::1'));
  assert.equal(networkOf('fe80::1%eth0'), 'fe80:0:0:0::/64');
  assert.equal(networkOf('::1'), '0:0:0:0::/64');
});

test('admission: the oldest that waits goes first, and an address has its share', () => {
  const ended: number[] = [];
  const admission = new SshAdmission({ waiting: 2, waitingPerAddress: 1, total: 1, perAddress: 1 });
  const first = admission.admit('a', () => ended.push(1));
  assert.equal(
    admission.admit('a', () => {}),
    'crowded',
  );
  const second = admission.admit('b', () => ended.push(2));
  const third = admission.admit('c', () => ended.push(3));
  assert.deepEqual(ended, [1]);
  assert.ok(typeof first === 'object' && typeof second === 'object' && typeof third === 'object');
  assert.equal(second.enter(), true);
  assert.equal(third.enter(), false);
  second.leave();
  second.leave();
  assert.equal(third.enter(), true);
  first.leave();
  assert.equal(typeof admission.admit('a', () => {}), 'object');
});

test('admission: mistakes add up, slow down, shut out, and are forgiven', () => {
  let now = 0;
  const admission = new SshAdmission({ mistakes: 20, forgiveMs: 1000 }, () => now);
  const visitor = admission.admit('a', () => {});
  assert.ok(typeof visitor === 'object');
  const waits = Array.from({ length: 20 }, () => visitor.mistake());
  assert.equal(waits[0], 0);
  assert.ok((waits.at(-1) ?? 0) >= 900);
  assert.equal(
    admission.admit('a', () => {}),
    'punished',
  );
  assert.equal(typeof admission.admit('b', () => {}), 'object');
  now += 3900;
  assert.equal(
    admission.admit('a', () => {}),
    'punished',
  );
  now += 200;
  assert.equal(typeof admission.admit('a', () => {}), 'object');
});

test('what is written because of bytes that came leaves together, and what is written later by itself', async () => {
  const calls: number[] = [];
  const socket = new Duplex({
    read: () => {},
    write: (_chunk, _encoding, done) => {
      calls.push(1);
      done();
    },
    writev: (chunks, done) => {
      calls.push(chunks.length);
      done();
    },
  });
  socket.on('data', () => {
    for (let n = 0; n < 3; n++) socket.write('packet');
  });
  writeTogether(socket, [socket]);
  socket.push('a');
  socket.push('b');
  await until(() => calls.length > 0, { what: 'a write' });
  assert.equal(socket.writableLength, 0);
  assert.equal(
    calls.reduce((sum, count) => sum + count, 0),
    6,
  );
  assert.ok(calls.length <= 2, `${calls}`);
  socket.write('later');
  assert.equal(calls.at(-1), 1);
  socket.destroy();
});
