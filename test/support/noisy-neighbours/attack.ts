/**
 * A tenant and a stranger, each with two addresses, who take all they can get, in a process of their own: upgrades that stay idle, log
 * followers, bodies that never come, TLS that never gets beyond its first bytes. Whatever is refused or cut is tried again. Its argument is an
 * `Attack` as JSON; it says once a second what it holds, and ends with its input.
 */
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { attackSchema } from './neighbours.ts';

/** How long one that was refused, and one that was cut, waits to try again, ms. */
const REFUSED_MS = 5000;
const CUT_MS = 500;
/** The first byte of a WebSocket's close frame (RFC 6455, section 5.2). */
const CLOSE_FRAME = 0x88;
/** Between two of a kind that begin, ms: the trial is of what is held, not of handshakes. */
const PACE_MS = { upgrades: 15, logs: 15, bodies: 8, halves: 8 };

const attack = attackSchema.parse(JSON.parse(process.argv[2] ?? ''));
const { port, domain, token, containerId, each } = attack;
const holds = { upgrades: 0, logs: 0, bodies: 0, halves: 0, refused: 0 };
const waiting = { upgrades: queue('upgrades'), logs: queue('logs'), bodies: queue('bodies'), halves: queue('halves') };
setInterval(() => process.stdout.write(`${JSON.stringify(holds)}\n`), 1000);
process.stdin.resume().on('end', () => process.exit());

type Kind = 'upgrades' | 'logs' | 'bodies' | 'halves';

/** Begins one after the other of what is put in. */
function queue(kind: Kind): (() => void)[] {
  const list: (() => void)[] = [];
  setInterval(() => list.shift()?.(), PACE_MS[kind]);
  return list;
}

/** Holds one connection open, and another when it is gone. */
function hold(kind: Kind, address: string): void {
  waiting[kind].push(() => {
    let isHeld = false;
    const socket = open(kind, address, () => {
      isHeld = true;
      holds[kind]++;
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      if (isHeld) holds[kind]--;
      setTimeout(() => hold(kind, address), isHeld ? CUT_MS : REFUSED_MS);
    });
  });
}

function open(kind: Kind, localAddress: string, held: () => void): Duplex {
  if (kind === 'halves') {
    const socket = connect({ host: '127.0.0.1', port, localAddress }, () => {
      socket.write(Buffer.of(0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc));
      held();
    });
    return socket.resume();
  }
  const host = `${kind === 'bodies' ? 'auth' : 'compute'}.${domain}`;
  const to = { host: '127.0.0.1', port, localAddress, servername: host, rejectUnauthorized: false };
  const socket = connectTls(to, () => {
    socket.write(headOf(kind, host));
    if (kind === 'bodies') held();
  });
  let isAnswered = false;
  socket.on('data', (bytes: Buffer) => {
    // Who is refused after the upgrade gets a close frame, which may come together with the head.
    const frame = isAnswered ? 0 : bytes.indexOf('\r\n\r\n') + 4;
    const isUpgraded = isAnswered || bytes.toString('latin1').startsWith('HTTP/1.1 101');
    if (isUpgraded && bytes[frame] !== CLOSE_FRAME) {
      if (!isAnswered) held();
    } else {
      if (!isAnswered) holds.refused++;
      socket.destroy();
    }
    isAnswered = true;
  });
  return socket;
}

function headOf(kind: Kind, host: string): string {
  if (kind === 'bodies') return `POST /api/login HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 100\r\n\r\n`;
  const path = kind === 'logs' ? `/compute/containers/${containerId}/logs` : '/compute/ws';
  return [
    `GET ${path}?token=${token} HTTP/1.1`,
    `Host: ${host}`,
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  ].join('\r\n');
}

for (const kind of ['upgrades', 'logs'] as const)
  for (const address of attack.tenant) for (let i = 0; i < each[kind]; i++) hold(kind, address);
for (const kind of ['bodies', 'halves'] as const)
  for (const address of attack.stranger) for (let i = 0; i < each[kind]; i++) hold(kind, address);
