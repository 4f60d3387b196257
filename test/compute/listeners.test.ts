/** What listens inside a container, as three programs print it, and what its user reads of that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insideListeners, listenersSentence } from '../../actors/compute/container/listeners.ts';

const KERNEL = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100
   1: 0B00007F:A2C3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100
   2: 0100007F:1F90 0100007F:1F91 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4714 1 0 100
program init
lrwx------ 1 root root 64 Nov 26 11:28 3 -> socket:[9]
program node
lrwx------ 1 root root 64 Nov 26 11:28 18 -> socket:[4711]
`;
const SS = `LISTEN 0 511 127.0.0.1:3000 0.0.0.0:* users:(("node",pid=7,fd=18))
LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=1,fd=3))
LISTEN 0 511 *:8080 *:*
LISTEN 0 4096 127.0.0.11:40001 0.0.0.0:*
`;
const NETSTAT = `Active Internet connections (only servers)
Proto Recv-Q Send-Q Local Address Foreign Address State PID/Program name
tcp 0 0 127.0.0.1:3000 0.0.0.0:* LISTEN 7/node
tcp 0 0 :::8080 :::* LISTEN -
`;

test('each way of asking finds who listens where', () => {
  const node = { program: 'node', host: '127.0.0.1', port: 3000 };
  const other = (host: string) => ({ program: undefined, host, port: 8080 });
  assert.deepEqual(insideListeners(KERNEL), [node, other('::')]);
  assert.deepEqual(insideListeners(SS), [node, other('*')]);
  assert.deepEqual(insideListeners(NETSTAT), [node, other('::')]);
  assert.deepEqual(insideListeners('sh: ss: not found\n'), []);
});

test('its user reads what to do when the port is taken at a loopback address', () => {
  const listeners = insideListeners(NETSTAT);
  assert.equal(
    listenersSentence(listeners, 9000),
    'Inside, node listens on 127.0.0.1:3000, something listens on [::]:8080.',
  );
  assert.match(
    listenersSentence(listeners, 3000),
    / Let it listen on 0\.0\.0\.0:3000: 127\.0\.0\.1 is reached from inside alone\.$/,
  );
  assert.equal(listenersSentence([], 80), 'Nothing listens inside the container.');
});

test('what no address looks like is passed over, and names are bounded', () => {
  const name = 'n'.repeat(200);
  const lines = [
    'LISTEN 0 511 127.0.0.1\0:3000 0.0.0.0:*',
    `LISTEN 0 511 ${'1'.repeat(65)}:3000 0.0.0.0:*`,
    'LISTEN 0 511 \u001b[31m:3000 0.0.0.0:*',
    `LISTEN 0 511 *:${'9'.repeat(400)} *:*`,
    'tcp 0 0 <b>:3000 0.0.0.0:* LISTEN 7/node',
    'LISTEN 0 511 127.0.0.53%lo:53 0.0.0.0:* users:(("\0",pid=7,fd=18))',
    `LISTEN 0 511 [::1]:3000 [::]:* users:(("${name}",pid=7,fd=18))`,
  ];
  assert.deepEqual(insideListeners(lines.join('\n')), [
    { program: undefined, host: '127.0.0.53%lo', port: 53 },
    { program: name.slice(0, 40), host: '::1', port: 3000 },
  ]);
});
