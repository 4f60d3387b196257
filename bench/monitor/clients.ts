/** The clients: bare sockets that speak just enough of HTTP and RFC 6455 to count what they are sent. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { FrameCounter } from '../push/clients.ts';

/** Sockets that are opened at once. */
const AT_ONCE = 100;
const DATA = Buffer.from('data: ');
/** A pong that nobody asked for (RFC 6455, section 5.5.3), so that no server takes a WebSocket for dead. */
const PONG = Buffer.from([0x8a, 0x80, 0, 0, 0, 0]);
const PONG_MS = 10_000;

/** Counts bytes in a stream, torn anywhere. */
interface Counter {
  take(bytes: Uint8Array, from: number, to: number): number;
}

/** Counts events of a stream of server-sent events: lines that begin an event's data. Greetings and pings have none. */
class EventCounter implements Counter {
  #matched = 0;

  take(bytes: Uint8Array, from: number, to: number): number {
    let count = 0;
    for (let at = from; at < to; at++) {
      const byte = bytes[at];
      // No beginning of the mark is found within it, but for its first letter.
      this.#matched = byte === DATA[this.#matched] ? this.#matched + 1 : byte === DATA[0] ? 1 : 0;
      if (this.#matched < DATA.length) continue;
      this.#matched = 0;
      count += 1;
    }
    return count;
  }
}

/**
 * Opens `streams` event streams and as many WebSockets, of the users whose tokens come in the first line of standard input. Says when all
 * have had their first snapshot, and at each further line how many snapshots came so far.
 */
export async function clients(port: number, streams: number): Promise<void> {
  const lines = createInterface({ input: process.stdin });
  const [first] = await once(lines, 'line');
  const tokens: readonly string[] = JSON.parse(String(first));
  const shared = Buffer.allocUnsafe(256 * 1024);
  const sockets: Socket[] = [];
  const webSockets: Socket[] = [];
  let got = 0;
  const open = (index: number): Promise<void> => {
    const isSocket = index % 2 === 1;
    const token = tokens[Math.floor(index / 2) % tokens.length] ?? '';
    const counter: Counter = isSocket ? new FrameCounter() : new EventCounter();
    let isOpen = false;
    return new Promise((resolve) => {
      const socket = connect({
        ...{ host: '127.0.0.1', port, noDelay: true },
        onread: {
          buffer: shared,
          callback: (length, buffer) => {
            let from = 0;
            if (!isOpen) {
              from = Buffer.from(buffer.buffer, buffer.byteOffset, length).indexOf('\r\n\r\n') + 4;
              isOpen = true;
            }
            const found = counter.take(buffer, from, length);
            got += found;
            if (found > 0) resolve();
            return true;
          },
        },
      });
      socket.on('error', (error) => fail(error.message)).on('close', () => fail('a connection ended'));
      const head = `host: x\r\nauthorization: Bearer ${token}\r\n`;
      const upgrade =
        'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n';
      const path = isSocket ? '/ws/pod-metrics' : '/sse/pod-metrics';
      socket.write(`GET ${path} HTTP/1.1\r\n${head}${isSocket ? upgrade : ''}\r\n`);
      sockets.push(socket);
      if (isSocket) webSockets.push(socket);
    });
  };
  const timer = setInterval(() => {
    for (const socket of webSockets) socket.write(PONG);
  }, PONG_MS);
  let isOver = false;
  const fail = (reason: string) => {
    if (isOver) return;
    process.stderr.write(`a client failed: ${reason}\n`);
    process.exit(1);
  };
  for (let opened = 0; opened < 2 * streams; opened += AT_ONCE)
    await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, 2 * streams - opened) }, (_, index) => open(opened + index)),
    );
  const say = () => process.stdout.write(`${JSON.stringify({ got })}\n`);
  lines.on('line', say);
  say();
  await once(lines, 'close');
  isOver = true;
  clearInterval(timer);
  for (const socket of sockets) socket.destroy();
}
